"""The faults of tests/parser/fault_injection.py, for tests elsewhere.

That module is a program as well, in a folder with a name that packages have, so it is loaded by its path.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_NAME = "fault_injection"


def _load() -> Any:
    if _NAME not in sys.modules:
        path = Path(__file__).parent / "parser" / f"{_NAME}.py"
        spec = importlib.util.spec_from_file_location(_NAME, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = module
        spec.loader.exec_module(module)
    return sys.modules[_NAME]


_MODULE = _load()
KINDS: dict[str, Callable[[list[Any]], Iterator[list[Any]]]] = _MODULE.KINDS
units_of: Callable[[list[int], str | None], list[Any]] = _MODULE.units_of
