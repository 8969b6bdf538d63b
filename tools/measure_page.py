"""Print what a browser loads of the page, compressed: at once, and when it is needed. `make page` builds it first."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "src" / "harmonia" / "serve" / "page"
# The lazy parts that weigh something.
LISTED_FROM_BYTES = 4000


def main() -> int:
    index = FOLDER / "index.html"
    if not index.is_file():
        print("the page is not built: make page", file=sys.stderr)
        return 1
    first = set(re.findall(r'(?:src|href)="\./page/([^"]+\.(?:js|css))"', index.read_text()))
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in (FOLDER / "page").iterdir()}
    for ending, what in (("js", "script"), ("css", "style")):
        total = sum(size for name, size in sizes.items() if name in first and name.endswith(ending))
        print(f"{total / 1000:6.1f} kB  {what} of the first load")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if name not in first and name.endswith(".js") and size >= LISTED_FROM_BYTES:
            print(f"{size / 1000:6.1f} kB  later: {name.rpartition('-')[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
