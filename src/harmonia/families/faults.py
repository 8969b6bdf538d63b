"""The faults that readers of other families report: their own, and those of Harmony's table that are the same thing.

Harmony's are a message in somebody else's name, arguments that are no JSON, text behind the end of a turn, half of a
surrogate pair, and a body that passes its limit.
"""

from __future__ import annotations

from typing import Final

from harmonia.errors import ErrorCode
from harmonia.parser.family_faults import ALL_FAULTS, FAMILY_FAULTS
from harmonia.parser.faults import Fault

_SHARED: Final = (
    ErrorCode.STREAM_TEXT_OUTSIDE,
    ErrorCode.STREAM_INVALID_UTF8,
    ErrorCode.HEADER_FORGED_ROLE,
    ErrorCode.BODY_ARGUMENTS_NOT_JSON,
    ErrorCode.BODY_TOO_LONG,
)

FAULTS: Final[dict[ErrorCode, Fault]] = {**FAMILY_FAULTS, **{code: ALL_FAULTS[code] for code in _SHARED}}
