"""`harmonia keys`: a server's API keys, and the keys with which it seals reasoning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harmonia.cli.options import echo_json
from harmonia.serve.security.keys import (
    SealKey,
    default_seal_keys,
    new_api_key,
    read_api_keys,
    read_seal_keys,
    remove_api_key,
    retire,
    rotate,
)

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_api_file_option = click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path),
    required=True,
    envvar="HARMONIA_API_KEY_FILE",
    show_envvar=True,
    help="The file of API keys, as for serve --api-key-file.",
)
_seal_file_option = click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path),
    envvar="HARMONIA_SEAL_KEY_FILE",
    show_envvar=True,
    help="The file of sealing keys; by default the one in the state folder, as for serve.",
)


@click.group("keys")
def command() -> None:
    """Create, list and remove the keys of a server.

    API keys decide who may use the server: new, list, remove. Sealing keys encrypt reasoning, so that clients can
    send it back but not read it: seals, rotate, retire. A running server notices every change within seconds.
    """


# ── API keys ────────────────────────────────────────────────────────────────────────────────────────────────────────


@command.command("new")
@click.argument("name")
@_api_file_option
@_json_option
def new(name: str, file: Path, as_json: bool) -> None:
    """Create an API key for NAME and print it; it cannot be shown again.

    The file stores only its digest, and is created if it does not exist. What the server stores and seals belongs to
    NAME, so a new key for the same NAME has access to it.
    """
    key = new_api_key(file, name)
    about = f"This is the key of {name}. Its digest is in {file}; the key cannot be shown again."
    _report({"name": name, "key": key, "file": str(file)}, [key], about, as_json=as_json)


@command.command("list")
@_api_file_option
@_json_option
def list_names(file: Path, as_json: bool) -> None:
    """List the names in a file of API keys."""
    keys = read_api_keys(file)
    described = [{"name": key.name, "line": key.line, "is_hashed": key.is_hashed} for key in keys]
    lines = [key.name if key.is_hashed else f"{key.name}  (stored as plain text)" for key in keys]
    _report({"keys": described}, lines, "" if keys else f"no keys in {file}", as_json=as_json)


@command.command("remove")
@click.argument("name")
@_api_file_option
@_json_option
def remove(name: str, file: Path, as_json: bool) -> None:
    """Remove the API key of NAME. What belongs to NAME stays in the store."""
    remove_api_key(file, name)
    _report({"name": name, "file": str(file)}, [], f"removed the key of {name} from {file}", as_json=as_json)


# ── sealing keys ────────────────────────────────────────────────────────────────────────────────────────────────────


@command.command("seals")
@_seal_file_option
@_json_option
def seals(file: Path | None, as_json: bool) -> None:
    """List the sealing keys, the newest last. The newest seals; all of them open."""
    keys = read_seal_keys(file or default_seal_keys())
    lines = [f"{key.id}  {key.created}  {'seals and opens' if key is keys[-1] else 'opens'}" for key in keys]
    _report({"keys": [_describe(key, seals=key is keys[-1]) for key in keys]}, lines, as_json=as_json)


@command.command("rotate")
@_seal_file_option
@_json_option
def rotate_key(file: Path | None, as_json: bool) -> None:
    """Add a sealing key, which seals from now on. The others still open what they sealed."""
    key = rotate(file or default_seal_keys())
    about = "This key seals from now on. The others still open what they sealed, until you retire them."
    _report(_describe(key, seals=True), [key.id], about, as_json=as_json)


@command.command("retire")
@click.argument("key_id", metavar="ID")
@_seal_file_option
@_json_option
def retire_key(key_id: str, file: Path | None, as_json: bool) -> None:
    """Remove the sealing key with this ID. What it sealed can no longer be opened.

    Wait until everything it sealed has expired, unless the key may have leaked. `harmonia keys seals` lists the ids.
    """
    key = retire(file or default_seal_keys(), key_id)
    about = f"retired {key.id}, created {key.created}; what it sealed can no longer be opened"
    _report({"id": key.id, "created": key.created}, [], about, as_json=as_json)


def _report(described: dict[str, Any], lines: list[str], about: str = "", *, as_json: bool) -> None:
    """JSON, or lines on stdout and a remark on stderr."""
    if as_json:
        echo_json(described)
        return
    for line in lines:
        click.echo(line)
    if about:
        click.echo(about, err=True)


def _describe(key: SealKey, *, seals: bool) -> dict[str, Any]:
    return {"id": key.id, "created": key.created, "seals": seals}
