"""Which backend keeps a store: the scheme of its URL decides. A new backend is its folder and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import Final, Literal, NamedTuple, Protocol, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.serve.store.base import Store

# The module of each scheme, and the form of its URLs for help and errors.
_BACKENDS: Final = {"sqlite": ("harmonia.serve.store.sqlite.backend", "sqlite:///PATH, such as sqlite:////var/x.db")}
URL_FORMS: Final = " or ".join(form for _, form in _BACKENDS.values())


class StoreCheck(NamedTuple):
    """The state of a store for `harmonia doctor`, and what to do about it."""

    status: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""


class Backend(Protocol):
    """What the module of a backend offers."""

    def normalize_address(self, address: str) -> str:
        """The address in full, or an InputError that says what was expected."""
        ...

    async def open_address(self, address: str) -> Store:
        """Open the store, and create it if it does not exist."""
        ...

    def check_address(self, address: str) -> StoreCheck:
        """Examine the store without changing it."""
        ...


def normalize_address(address: str) -> str:
    return _backend_of(address).normalize_address(address)


async def open_store(address: str) -> Store:
    """Open the store at a URL, and create it if it does not exist."""
    return await _backend_of(address).open_address(address)


def check_store(address: str) -> StoreCheck:
    return _backend_of(address).check_address(address)


def invalid_address(address: str, expected: str) -> InputError:
    message = f"{address!r} is not the URL of a store: expected {expected}"
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path="$.store"))


def _backend_of(address: str) -> Backend:
    scheme, separator, _ = address.partition("://")
    if not separator or scheme not in _BACKENDS:
        raise invalid_address(address, URL_FORMS)
    return cast(Backend, import_module(_BACKENDS[scheme][0]))
