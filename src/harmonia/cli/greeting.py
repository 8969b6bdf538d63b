"""What `harmonia serve` prints when it listens: where, what it serves and why, who may use it, and how to try it.

For people it is lines; for programs that read the log, one line of JSON with the same facts.
"""

from __future__ import annotations

import json
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final

import msgspec

from harmonia.run.engines.http import redact
from harmonia.serve.config.sources import Loaded, is_loopback
from harmonia.serve.http.page import HOW_TO_BUILD, is_built
from harmonia.serve.http.ports import address_for_clients
from harmonia.serve.models.selection import Chosen

# The variable in which the two lines look for a key; other verbs of ours do, too.
KEY_VARIABLE: Final = "HARMONIA_API_KEY"
_ALL_ADDRESSES: Final = ("", "0.0.0.0", "::")


def greeting(loaded: Loaded, chosen: Chosen, host: str, port: int) -> list[str]:
    """The lines for people, of a server that listens there."""
    settings, model = loaded.settings, chosen.model
    url = address_for_clients(host, port)
    has_keys = settings.api_key_file is not None
    first = [f"with a key in {KEY_VARIABLE}"] if has_keys else []
    if find_spec("openai") is None:
        first.append("the second line after `pip install openai`")
    return [
        f"Harmonia {version('harmonia')} listens at {_place(host, port)}",
        *(f"  {name:<9}  {fact}" for name, fact in _facts(loaded, chosen, url).items()),
        *(f"  note: {note}" for note in _notes(loaded, chosen)),
        f"Try it{', ' if first else ''}{', '.join(first)}; Ctrl-C stops it:",
        f"  {curl_line(url, model.model, has_keys=has_keys)}",
        f"  {python_line(url, model.model, has_keys=has_keys)}",
    ]


def greeting_record(loaded: Loaded, chosen: Chosen, host: str, port: int) -> str:
    """The same for a program that reads the log."""
    facts = _facts(loaded, chosen, address_for_clients(host, port))
    own = {"version": version("harmonia"), "url": _place(host, port)}
    return log_record("listening", **own, **facts, notes=_notes(loaded, chosen))


def log_record(event: str, **fields: object) -> str:
    """A line of the log, in the form that `log_format = "json"` has."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": moment, "level": "info", "event": event, **fields})


def _place(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _notes(loaded: Loaded, chosen: Chosen) -> list[str]:
    notes = [*loaded.notes, *chosen.notes]
    if loaded.settings.host in _ALL_ADDRESSES and not loaded.settings.hosts:
        notes.append("clients can use its IP address or localhost; allow another host name with --allow-host NAME")
    return notes


def _facts(loaded: Loaded, chosen: Chosen, url: str) -> dict[str, str]:
    settings, model = loaded.settings, chosen.model
    facts = {
        "engine": f"{redact(model.name)} ({chosen.why})",
        "model": ", also as ".join([model.model, *([", ".join(settings.aliases)] if settings.aliases else [])]),
        "store": settings.store_address(),
        "reasoning": "shown as part of the answers",
        "keys": f"from {settings.api_key_file}",
        "page": f"{url}/",
        "docs": f"{url}/docs",
    }
    if settings.analysis != "shown":
        facts["reasoning"] = (
            "hidden: sealed, so that clients can send it back but not read it; show it with --analysis shown"
        )
    if settings.api_key_file is None:
        who = "on this machine" if is_loopback(settings.host) else "who can reach this address"
        facts["keys"] = f"none: everyone {who} may use it"
    if not settings.page:
        facts["page"] = "switched off"
    elif not is_built(settings):
        facts["page"] = f"not built: {HOW_TO_BUILD}"
    if settings.mcp is not None:
        facts["mcp"] = settings.mcp
    if loaded.config is not None:
        facts["settings"] = str(loaded.config)
    return facts


def curl_line(url: str, model: str, *, has_keys: bool) -> str:
    """A request to copy into a shell."""
    body = msgspec.json.encode({"model": model, "input": "Hello!"}).decode()
    key = f' -H "authorization: Bearer ${KEY_VARIABLE}"' if has_keys else ""
    return f"curl {url}/v1/responses -H 'content-type: application/json'{key} -d {shlex.quote(body)}"


def python_line(url: str, model: str, *, has_keys: bool) -> str:
    """The same with OpenAI's SDK, which wants some key in any case, and the Python that has it, if it is this one."""
    # JSON's strings are Python's.
    model, base_url = (msgspec.json.encode(text).decode() for text in (model, f"{url}/v1"))
    imports, key = "from openai import OpenAI", '"none"'
    if has_keys:
        imports, key = f"import os; {imports}", f'os.environ["{KEY_VARIABLE}"]'
    client = f"OpenAI(base_url={base_url}, api_key={key})"
    code = f'{imports}; print({client}.responses.create(model={model}, input="Hello!").output_text)'
    python = shlex.quote(sys.executable) if sys.executable and find_spec("openai") is not None else "python3"
    return f"{python} -c {shlex.quote(code)}"
