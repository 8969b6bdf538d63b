"""What a docstring says of a function and of each of its parameters, in the three usual styles.

    Google                    NumPy                          reST
    Args:                     Parameters                     :param city: The city's name,
        city: The city's          ----------                     in English.
            name.             city : str
        days (int): How long.     The city's name.

The parameters' section and that of the exceptions are taken out; the rest is the description of the function. What
follows no style is description, too.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_PARAMETERS: Final = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
)
# A model has nothing to do with what a function raises.
_DROPPED: Final = frozenset({"raises", "exceptions"})

_GOOGLE_HEADING: Final = re.compile(r"([A-Za-z][A-Za-z ]*):\s*")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w++)\s*+(?:\(.*?\)\s*+)?:(?:\s++(.*)|\s*)")
_NUMPY_RULE: Final = re.compile(r"-{3,}\s*")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_REST_PARAMETER: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)"
)
_REST_DROPPED: Final = re.compile(r":(?:type|rtype|raises?|except|exception)\b[^:]*:")


class Documented(NamedTuple):
    """The description of a function, and of its parameters by their names."""

    description: str | None
    parameters: dict[str, str]


def read_docstring(text: str) -> Documented:
    """The parts of a docstring whose indentation was taken off, as inspect.getdoc gives it."""
    lines = text.splitlines()
    kept: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        heading = _GOOGLE_HEADING.fullmatch(line)
        title = line.strip().lower()
        if heading and heading[1].lower() in _PARAMETERS | _DROPPED and (not following or following[:1].isspace()):
            section, at = _indented(lines, at + 1)
            if heading[1].lower() in _PARAMETERS:
                parameters |= _google_entries(section)
        elif title in _PARAMETERS | _DROPPED and _NUMPY_RULE.fullmatch(following):
            section, at = _numpy_section(lines, at + 2)
            if title in _PARAMETERS:
                parameters |= _numpy_entries(section)
        elif (parameter := _REST_PARAMETER.fullmatch(line)) is not None:
            more, at = _indented(lines, at + 1)
            parameters[parameter[1]] = _join([parameter[2], *more])
        elif _REST_DROPPED.match(line):
            _, at = _indented(lines, at + 1)
        else:
            kept.append(line.rstrip())
            at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Documented(description or None, {name: said for name, said in parameters.items() if said})


def _indented(lines: list[str], start: int) -> tuple[list[str], int]:
    """The lines from `start` on that belong to what stands before them, and where they end."""
    end = start
    while end < len(lines) and (not lines[end].strip() or lines[end][:1].isspace()):
        end += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return lines[start:end], end


def _google_entries(section: list[str]) -> dict[str, str]:
    outer = min((_indent(line) for line in section if line.strip()), default=0)
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in section:
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) == outer else None
        if entry is not None:
            current = entries[entry[1]] = [entry[2] or ""]
        elif current is not None:
            current.append(line)
    return {name: _join(said) for name, said in entries.items()}


def _numpy_section(lines: list[str], start: int) -> tuple[list[str], int]:
    end = start
    while end < len(lines):
        rule = lines[end + 1] if end + 1 < len(lines) else ""
        if lines[end].strip() and _indent(lines[end]) == 0 and _NUMPY_RULE.fullmatch(rule):
            break
        # Text at the left edge behind an empty line that is no entry is the description going on.
        if not lines[end].strip() and end + 1 < len(lines) and _is_prose(lines[end + 1]):
            break
        end += 1
    return lines[start:end], end


def _is_prose(line: str) -> bool:
    return bool(line.strip()) and _indent(line) == 0 and _NUMPY_ENTRY.fullmatch(line.strip()) is None


def _numpy_entries(section: list[str]) -> dict[str, str]:
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in section:
        entry = _NUMPY_ENTRY.fullmatch(line.strip()) if line.strip() and _indent(line) == 0 else None
        if entry is not None:
            current = []
            for name in entry[1].split(","):
                entries[name.strip().lstrip("*")] = current
        elif current is not None:
            current.append(line)
    return {name: _join(said) for name, said in entries.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else -1


def _join(lines: list[str]) -> str:
    return " ".join(filter(None, (line.strip() for line in lines)))
