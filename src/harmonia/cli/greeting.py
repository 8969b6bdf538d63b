"""What `harmonia serve` says when it listens: where, what it serves and why, who may use it, and how to try it."""

from __future__ import annotations

import shlex
from importlib.metadata import version
from typing import Final

import msgspec

from harmonia.serve.configuration import Loaded, is_loopback
from harmonia.serve.described import engine_for_people
from harmonia.serve.engine_choice import Chosen
from harmonia.serve.places import store_address
from harmonia.serve.ports import address_for_clients
from harmonia.serve.settings import Settings

# The variable in which the two lines look for a key; other verbs of ours do, too.
KEY_VARIABLE: Final = "HARMONIA_API_KEY"


def greeting(loaded: Loaded, chosen: Chosen, host: str, port: int) -> list[str]:
    """The lines, for a server that listens there."""
    settings, model = loaded.settings, chosen.model
    where = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    facts = {
        "engine": f"{engine_for_people(model.name)} ({chosen.why})",
        "model": ", also as ".join([model.model, *([", ".join(settings.aliases)] if settings.aliases else [])]),
        "store": store_address(settings),
        "reasoning": _on_reasoning(settings),
        "keys": _on_keys(settings),
    }
    if settings.mcp is not None:
        facts["mcp"] = settings.mcp
    if loaded.config is not None:
        facts["settings"] = str(loaded.config)
    url = address_for_clients(host, port)
    has_keys = settings.api_key_file is not None
    return [
        f"Harmonia {version('harmonia')} listens at {where}",
        *(f"  {name:<9}  {fact}" for name, fact in facts.items()),
        *(f"  note: {note}" for note in (*loaded.notes, *chosen.notes)),
        f"Try it{f', with a key in {KEY_VARIABLE}' if has_keys else ''}; Ctrl-C stops it:",
        f"  {curl_line(url, model.model, has_keys=has_keys)}",
        f"  {python_line(url, model.model, has_keys=has_keys)}",
    ]


def curl_line(url: str, model: str, *, has_keys: bool) -> str:
    """A request to copy into a shell."""
    body = msgspec.json.encode({"model": model, "input": "Hello!"}).decode()
    key = f' -H "authorization: Bearer ${KEY_VARIABLE}"' if has_keys else ""
    return f"curl {url}/v1/responses -H 'content-type: application/json'{key} -d {shlex.quote(body)}"


def python_line(url: str, model: str, *, has_keys: bool) -> str:
    """The same with OpenAI's SDK, which wants some key in any case."""
    # JSON's strings are Python's.
    model, base_url = (msgspec.json.encode(text).decode() for text in (model, f"{url}/v1"))
    imports, key = "from openai import OpenAI", '"none"'
    if has_keys:
        imports, key = f"import os; {imports}", f'os.environ["{KEY_VARIABLE}"]'
    client = f"OpenAI(base_url={base_url}, api_key={key})"
    code = f'{imports}; print({client}.responses.create(model={model}, input="Hello!").output_text)'
    return f"python3 -c {shlex.quote(code)}"


def _on_reasoning(settings: Settings) -> str:
    if settings.analysis == "shown":
        return "shown: it is part of the answers"
    return "hidden: sealed, so that clients can send it back and not read it (--analysis shown shows it)"


def _on_keys(settings: Settings) -> str:
    if settings.api_key_file is not None:
        return f"those of {settings.api_key_file}"
    who = "on this machine" if is_loopback(settings.host) else "who reaches this address"
    return f"none: everybody {who} may use it"
