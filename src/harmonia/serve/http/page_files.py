"""The files of the page: built from `ui/`, found in the package or in a folder that a setting names.

They are no part of a checkout; `make page` makes them, and a wheel has them.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from harmonia.serve.config.settings import Settings

# How a clone comes by its page.
HOW_TO_BUILD: Final = "install Node.js 20 or newer and run `make page`"
INDEX: Final = "index.html"

_FOLDER: Final = Path(__file__).parents[1] / "page"  # where the build puts it: serve/page
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page, ready to be sent."""

    content: bytes
    media_type: str
    tag: str

    @property
    def gzipped(self) -> bytes | None:
        """None where that saves little. Packed when a browser asks for the first time, not when the server starts."""
        return _packed(self.content)


def load_page(settings: Settings) -> dict[str, PageFile]:
    """The files by their paths in the folder; none where the page is switched off or not built."""
    if not settings.page or not is_built(settings):
        return {}
    folder = _folder(settings)
    return {
        path.relative_to(folder).as_posix(): _read(path)
        for path in sorted(folder.rglob("*"))
        if path.suffix in _TYPES and path.is_file()
    }


def is_built(settings: Settings) -> bool:
    """Whether there is a page to serve."""
    return (_folder(settings) / INDEX).is_file()


def _folder(settings: Settings) -> Path:
    return _FOLDER if settings.page_folder is None else Path(settings.page_folder)


def _read(path: Path) -> PageFile:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return PageFile(content, _TYPES[path.suffix], tag)


# More than the page has files.
@lru_cache(maxsize=256)
def _packed(content: bytes) -> bytes | None:
    packed = gzip.compress(content, 9, mtime=0)
    return packed if len(packed) < len(content) * 0.9 else None
