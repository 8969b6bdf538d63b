"""A process that uses a store, for the tests: it says on stdout what has returned, and does as stdin says."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

from harmonia.serve.store.sqlite import SqliteStore
from harmonia.serve.store.sqlite.migrations import migrate
from tests.support.strategies.stored_responses import a_response, an_item


def say(*words: object) -> None:
    print(*words, flush=True)


async def write_items(path: Path) -> None:
    """Items of one response, without end."""
    store = await SqliteStore.open(path)
    response = a_response("resp_endless")
    await store.begin(response, [an_item("in", "msg_in")])
    index = 0
    while True:
        await store.add_output(response.id, index, an_item("x" * (index % 50) * 100, f"msg_{index}"))
        say(index)
        index += 1


async def hold(path: Path) -> None:
    """One response in progress, until there is a line to read."""
    store = await SqliteStore.open(path)
    await store.begin(a_response("resp_held"), [])
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    await store.finish("resp_held", "completed", b"{}")
    await store.close()


async def write_many(path: Path, name: str) -> None:
    """Opens the store when told, and writes some responses."""
    say("ready")
    sys.stdin.readline()
    store = await SqliteStore.open(path)
    for number in range(20):
        await store.begin(a_response(f"resp_{name}_{number}", name), [an_item()])
        await store.add_output(f"resp_{name}_{number}", 0, an_item())
        if number % 5 == 0:
            await store.delete(name, f"resp_{name}_{number}")
    await store.close()
    say("done")


def migrate_when_told(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    say("ready")
    sys.stdin.readline()
    say(migrate(connection, [(f"CREATE TABLE t{number} (x)",) for number in range(40)]))
    connection.close()


async def open_as_somebody(path: Path) -> None:
    """Says the code with which the store is refused."""
    from harmonia.errors import HarmonyError

    try:
        store = await SqliteStore.open(path)
        await store.close()
        say("opened")
    except HarmonyError as error:
        say(error.code)


if __name__ == "__main__":
    place = Path(sys.argv[2])
    match sys.argv[1]:
        case "write_items":
            asyncio.run(write_items(place))
        case "hold":
            asyncio.run(hold(place))
        case "write_many":
            asyncio.run(write_many(place, sys.argv[3]))
        case "migrate":
            migrate_when_told(place)
        case "open_as":
            import os

            from harmonia.serve.security.sealed_content import load_cipher

            load_cipher()  # what is needed is loaded before the rights are given up
            os.setuid(int(sys.argv[3]))
            asyncio.run(open_as_somebody(place))
        case other:
            raise SystemExit(f"unknown: {other}")
