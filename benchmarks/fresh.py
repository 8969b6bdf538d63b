"""What a fresh process does: import, load, render once; then say how long that took and how much memory is resident.
Where there is a completion, it is parsed in between.

Nothing is imported before the clock starts but the built-in modules of the interpreter and the rival's adapter. The
input comes by standard input, marshalled, because reading JSON would load a module that a rival needs, too.
"""

from __future__ import annotations

import sys
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(name: str, engine_loaded: bool, bare: bool) -> None:
    """Measure the rival `name`; the result goes to standard output as JSON. With `bare`, nothing is measured here."""
    from marshal import loads

    from benchmarks.rivals import load_rival

    messages, completion = loads(sys.stdin.buffer.read())
    rival = load_rival(name)
    preloaded = sorted(sys.modules)

    start = perf_counter()
    tokens = rival.first_render(messages, engine_loaded=engine_loaded)
    seconds = perf_counter() - start
    if bare:
        return
    parsed = rival.first_parse(completion) if completion else None
    resident = resident_bytes()

    from json import dumps

    result = {"seconds": seconds, "resident_bytes": resident, "tokens": tokens, "messages": parsed}
    print(dumps({**result, "preloaded": preloaded, "engine": _engine(name, engine_loaded)}))


def hide(package: str) -> None:
    """Make this process one in which `package` is not installed."""
    (original,) = _path_finders()

    class Without:
        """The finder that was there, which does not know the package."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            return None if name.partition(".")[0] == package else original.find_spec(name, path, target)

        @staticmethod
        def find_distributions(context: Any) -> Any:
            return () if context.name == package else original.find_distributions(context)

        @staticmethod
        def invalidate_caches() -> None:
            original.invalidate_caches()

    sys.meta_path[sys.meta_path.index(original)] = Without


def _path_finders() -> list[Any]:
    return [finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder"]


def resident_bytes() -> int:
    """The memory of this process that is in use: now, on Linux; elsewhere at its peak."""
    try:
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmRSS:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _engine(name: str, engine_loaded: bool) -> str | None:
    """Which tokenizer Harmonia would go on with: proof that hiding the package worked."""
    from benchmarks.rivals import ENGINES

    if name not in ENGINES:
        return None
    if engine_loaded and name in ("core", "fast"):  # they have a vocabulary of their own then
        return ENGINES[name]
    from harmonia.vocabulary import default_vocabulary

    return default_vocabulary().engine_name
