"""How far a run may go."""

from __future__ import annotations

import msgspec

from harmonia.errors import ErrorCode, InputError


class RunLimits(msgspec.Struct, frozen=True):
    """Limits of a run. None is no limit.

    `samplings` is how often the model is asked, second attempts at a completion not counted, `calls` how many of its
    calls are run, `tokens` how many it may sample in all, `time_s` how long everything may take, `call_time_s` how long
    one call may, unless its tool says otherwise.
    """

    samplings: int | None = 32
    calls: int | None = 128
    tokens: int | None = None
    time_s: float | None = None
    call_time_s: float | None = 60.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InputError(ErrorCode.RUN_INVALID_OPTION, f"{name} is {value}; a limit is more than 0, or None")
