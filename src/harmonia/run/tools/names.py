"""Legal names for tools, whatever their owners call them, that lead back to the owner's name without fail.

    get weather     get_weather
    größe           grosse
    天気            tool_bc79d84d     nothing of it is left, so a digest stands for it
    a-b, a.b        a_b_…, a_b_…      two that would be the same: each gets a digest of its whole name

A legal name is an identifier of ASCII letters, digits and `_`, of at most 64 characters.

1. A name that is legal stays as it is, and nobody else gets it.
2. No two names become the same, so each leads back to one.
3. The result depends on which names there are, not on their order.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

MAX_NAME_CHARS: Final = 64

_LEGAL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_WORD: Final = re.compile(r"[^A-Za-z0-9]+")
_DIGEST_CHARS: Final = 8
_NOTHING_LEFT: Final = "tool"


def is_legal(name: str) -> bool:
    """Whether a name can be declared and called as it is."""
    return len(name) <= MAX_NAME_CHARS and _LEGAL.fullmatch(name) is not None


def legal_names(names: Iterable[str], reserved: Collection[str] = ()) -> dict[str, str]:
    """The legal name of each name. No name becomes one of those `reserved`, not even one that has it already."""
    wanted = {name: _simplify(name) for name in dict.fromkeys(names)}
    claims = Counter(wanted.values())
    kept = {name for name in wanted if is_legal(name) and name not in reserved}
    legal = {name: name for name in kept}
    taken = {*kept, *reserved}
    contested: list[str] = []
    for name, simple in wanted.items():
        if name in kept:
            continue
        if simple and len(simple) <= MAX_NAME_CHARS and claims[simple] == 1 and simple not in taken:
            legal[name] = simple
        else:
            contested.append(name)
    taken.update(legal.values())
    # In the order of the names, so that the order in which they came does not matter even where digests collide.
    for name in sorted(contested):
        legal[name] = _with_digest(name, wanted[name] or _NOTHING_LEFT, taken)
        taken.add(legal[name])
    return {name: legal[name] for name in wanted}


def _simplify(name: str) -> str:
    """The name in ASCII letters, digits and `_`; empty where nothing is left of it."""
    # Accents are taken off; ß is the one letter of the common alphabets that only case folding spells out.
    plain = "".join(c for c in unicodedata.normalize("NFKD", name.replace("ß", "ss")) if not unicodedata.combining(c))
    # What stood between words becomes one `_`, so that no `__` or `___` appears that would part a server from its tool.
    simple = _NOT_WORD.sub(lambda match: match[0] if set(match[0]) == {"_"} else "_", plain)
    if simple != plain:
        simple = simple.strip("_") if simple.strip("_") else ""
    return f"_{simple}" if simple[:1].isdigit() else simple


def _with_digest(name: str, simple: str, taken: Collection[str]) -> str:
    # A lone surrogate has no UTF-8, but a name may have one.
    data, salt = name.encode(errors="surrogatepass"), 0
    while True:
        digest = hashlib.sha256(data + salt.to_bytes(4, "big") if salt else data).hexdigest()[:_DIGEST_CHARS]
        legal = f"{simple[: MAX_NAME_CHARS - _DIGEST_CHARS - 1].rstrip('_') or _NOTHING_LEFT}_{digest}"
        if legal not in taken:
            return legal
        salt += 1
