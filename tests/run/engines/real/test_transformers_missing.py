"""The transformers engine where there is no transformers: what `make test` can check."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.run.engines.transformers import TransformersEngine

IMPORT = """
import sys
import harmonia.run.engines.transformers.engine
print(*sorted({"torch", "transformers", "accelerate"} & sys.modules.keys()))
"""


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_is_the_callers_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)  # any module: it is not used before the other is there
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError) as caught:
        TransformersEngine("nowhere")
    assert caught.value.code is ErrorCode.ENGINE_MISSING_EXTRA
    assert "pip install 'harmonia[transformers]'" in caught.value.message


def test_importing_the_engine_loads_no_torch() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
