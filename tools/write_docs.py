"""Write the reference pages that are generated from code.

    docs/reference/cli.md          the help of the command
    docs/reference/faults.md       the table of faults and the transitions of the parser
    docs/reference/differences.md  what openai-harmony misreads, as the tests record it, and how the drop-in reads it

python tools/write_docs.py          write them
python tools/write_docs.py --check  exit 1 if one would change
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from harmonia.openai_harmony import HarmonyError, Message, Role, load_harmony_encoding
from harmonia.parser.faults import FAULTS, Fault
from harmonia.parser.machine import Machine
from harmonia.provenance import Trust
from harmonia.vocabulary import SPELLING_BY_ID

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
RECORDED = ROOT / "tests" / "data" / "parser-differences.jsonl"

CLI_HEAD = """# The `harmonia` command

`make docs` writes this page from the command's own help. Data goes to stdout, everything else to stderr. Exit codes: 0
success, 1 an error of Harmonia (see [errors](errors.md)) or of the system, 2 wrong usage, 3 malformed Harmony, 4 no
engine found, 130 interrupted.
"""

FAULTS_HEAD = """# Faults

`make docs` writes this page from the parser's own table. A strict parser raises `StreamError` with the code and the
position of the first fault. A tolerant parser reports each fault as a diagnostic with the same code and position,
repairs it as described here, and continues. The *trust* of a message says how reliable its reading is:

| trust | meaning |
|---|---|
| certain | read as the model wrote it |
| repaired | something was repaired, but author and channel are certain: text is shown, a call does not run |
| guessed | the channel or the author is a guess: text is not shown, a call does not run |
"""

TRANSITIONS_HEAD = """## The state machine

A parser waits for a message, reads a header, or reads a body. The table shows what each special token does in each
state; the last row applies to all other tokens.

| | between messages | in a header | in a body |
|---|---|---|---|
"""


DIFFERENCES_HEAD = """# What openai-harmony misreads and the drop-in reads correctly

`make docs` writes this page from the differences that the tests record. The tests run both on each of these inputs, and
on thousands of others, well-formed and damaged, on which no other kind of difference is allowed. A completion begins
after the prompt's `<|start|>assistant`; a conversation begins with its own `<|start|>`. Differences that are not about
parsing are in [migration](../guides/migration.md).

1. [Read differently, strict or not](#read-differently-strict-or-not): the original accepts the input and misreads it.
2. [Read with `strict=False` only](#read-with-strictfalse-only): by default the drop-in does what the original does. It
   raises the same error, or reads a header as the original does, because anything else would be a guess.
"""


def cli_page() -> str:
    overview = _help()
    parts = [CLI_HEAD, _block(overview)]
    for verb in _commands(overview):
        shown = _help(verb)
        parts.append(f"## `harmonia {verb}`\n\n{_block(shown)}")
        parts += [f"### `harmonia {verb} {each}`\n\n{_block(_help(verb, each))}" for each in _commands(shown)]
    return "\n".join(parts)


def _commands(shown: str) -> list[str]:
    """The verbs listed in a help text."""
    return re.findall(r"^  ([a-z]+)  ", shown.partition("Commands:")[2], re.MULTILINE)


def faults_page() -> str:
    return "\n".join([FAULTS_HEAD, TRANSITIONS_HEAD + _transitions(), *map(_fault, FAULTS.values())])


def _fault(fault: Fault) -> str:
    strict = "raises" if fault.strict == "raises" else "reports it, because the input is well-formed"
    trust = "" if fault.trust is Trust.CERTAIN else f"  \nTrust: at most {fault.trust.name.lower()}."
    example = f"`{fault.example}`" if fault.example else fault.shown_by
    hint = f"  \nHint: {fault.hint}." if fault.hint else ""
    where = " (a completion)" if fault.completion else ""
    return (
        f"### `{fault.code.value}`\n"
        f"Found: {fault.found}.  \n"
        f"Strict: {strict}. Tolerant: {fault.tolerant}.{trust}  \n"
        f"Example{where}: {example}{hint}\n"
    )


def _transitions() -> str:
    states = ("wait", "header", "body")
    tokens = dict.fromkeys(token for state in states for token in Machine.TRANSITIONS[state])
    rows: list[str] = []
    for token in [*tokens, None]:
        handlers = [Machine.TRANSITIONS[state].get(token or -1, Machine.OTHERWISE[state]) for state in states]
        said = " | ".join(_escape((handler.__doc__ or "").splitlines()[0].rstrip(".")) for handler in handlers)
        name = "any other" if token is None else f"`{_escape(SPELLING_BY_ID[token])}`"
        rows.append(f"| {name} | {said} |\n")
    return "".join(rows)


def _escape(text: str) -> str:
    """A bar would end a cell of the table."""
    return text.replace("|", "\\|")


def _help(*arguments: str) -> str:
    command = [sys.executable, "-m", "harmonia", *arguments, "--help"]
    environment = {**os.environ, "COLUMNS": "100"}
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return shown.replace("python -m harmonia", "harmonia")


def _block(text: str) -> str:
    return f"```text\n{text}```\n"


def differences_page() -> str:
    read_otherwise: list[str] = []
    tolerant_only: list[str] = []
    for line in RECORDED.read_text().splitlines():
        recorded = json.loads(line)
        theirs, theirs_lax = recorded["reference"]["strict"], recorded["reference"]["lax"]
        ours, ours_lax = (_read_by_drop_in(recorded, strict=strict) for strict in (True, False))
        if ours != theirs:
            said = {"openai-harmony": theirs, "the drop-in": ours}
            read_otherwise.append(_difference(recorded, said))
        elif ours_lax != theirs_lax:
            said = {"openai-harmony, `strict=False`": theirs_lax, "the drop-in, `strict=False`": ours_lax}
            tolerant_only.append(_difference(recorded, said))
    sections = (("Read differently, strict or not", read_otherwise), ("Read with `strict=False` only", tolerant_only))
    return "\n".join([DIFFERENCES_HEAD, *("\n".join((f"## {title}\n", *found)) for title, found in sections)])


def _read_by_drop_in(recorded: dict[str, Any], *, strict: bool) -> list[list[str | None]] | None:
    encoding = load_harmony_encoding("HarmonyGptOss")
    tokens = encoding.encode(recorded["input"], allowed_special="all")
    role = None if recorded["role"] is None else Role(recorded["role"])
    try:
        messages = encoding.parse_messages_from_completion_tokens(tokens, role, strict=strict)
    except HarmonyError:
        return None
    return [_fields(message) for message in messages]


def _fields(message: Message) -> list[str | None]:
    text = message.to_dict()["content"][0]["text"]
    author = message.author
    return [author.role.value, author.name, message.channel, message.recipient, message.content_type, text]


def _difference(recorded: dict[str, Any], said: dict[str, list[list[str | None]] | None]) -> str:
    kind = "completion" if recorded["role"] else "conversation"
    lines = [f"- {who}: {_messages(messages)}" for who, messages in said.items()]
    return "\n".join([f"{kind.capitalize()}: `{ascii(recorded['input'])[1:-1]}`  ", recorded["reason"], "", *lines, ""])


def _messages(messages: list[list[str | None]] | None) -> str:
    if messages is None:
        return "raises"
    return "; ".join(map(_message, messages)) or "no message"


def _message(fields: list[str | None]) -> str:
    role, name, channel, recipient, content_type, text = fields
    named = {"channel": channel, "recipient": recipient, "content type": content_type}
    said = "".join(f", {what} `{value}`" for what, value in named.items() if value is not None)
    return f"{role}{f' `{name}`' if name else ''}{said}: `{text}`"


PAGES = {"cli.md": cli_page, "faults.md": faults_page, "differences.md": differences_page}


def main() -> None:
    for name, write in PAGES.items():
        text, page = write(), REFERENCE / name
        if "--check" not in sys.argv:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            sys.exit(f"{name} is out of date: run make docs")


if __name__ == "__main__":
    main()
