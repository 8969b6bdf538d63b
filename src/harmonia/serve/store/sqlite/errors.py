"""Errors of SQLite and the disk as StoreErrors. Messages never contain stored data."""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, HarmonyError, StoreError

# SQLITE_ERROR: a statement does not match the tables, because another program changed them.
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
# Only a bug of ours causes these: an id that exists, a text that is not Unicode, a value that is too large.
_BUGS: Final = {
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_MISUSE,
    sqlite3.SQLITE_RANGE,
    sqlite3.SQLITE_TOOBIG,
}
_PRIMARY_CODE: Final = 0xFF  # the other bits distinguish kinds of one code


def store_error(error: Exception) -> HarmonyError:
    """The error as a HarmonyError. Its cause is kept unless that could contain stored data."""
    if isinstance(error, HarmonyError):
        return error
    if isinstance(error, sqlite3.Error):
        return _caused_by(_of_sqlite(error), error)
    if isinstance(error, OSError):
        message = f"the store cannot be used: {error.strerror or type(error).__name__}"
        return _caused_by(StoreError(ErrorCode.STORE_UNAVAILABLE, message), error)
    if isinstance(error, msgspec.MsgspecError):
        return _caused_by(StoreError(ErrorCode.STORE_DAMAGED, "a stored item cannot be decoded"), error)
    found = StoreError(ErrorCode.SERVE_BUG, f"the store was given an invalid value ({type(error).__name__})")
    # A UnicodeError contains the whole text.
    return found if isinstance(error, UnicodeError) else _caused_by(found, error)


def _of_sqlite(error: sqlite3.Error) -> StoreError:
    # Errors of the Python module itself, such as use of a closed connection, have no code.
    name: str = getattr(error, "sqlite_errorname", type(error).__name__)
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & _PRIMARY_CODE
    if code in _DAMAGED:
        return StoreError(ErrorCode.STORE_DAMAGED, f"the store's file is damaged, or is not a store ({name})")
    if code in _BUGS:
        return StoreError(ErrorCode.SERVE_BUG, f"the store was given an invalid value ({name})")
    return StoreError(ErrorCode.STORE_UNAVAILABLE, f"the store is unavailable ({name})")


def _caused_by(found: StoreError, cause: Exception) -> StoreError:
    found.__cause__ = cause
    return found
