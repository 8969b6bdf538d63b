"""Write the pages that are made from code, so that the two cannot differ.

    docs/cli.md     the command's own help
    docs/faults.md  the table of faults and the transitions of the parser

python tools/write_docs.py          write them
python tools/write_docs.py --check  exit 1 if one would change
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from harmonia.parser.faults import FAULTS, Fault
from harmonia.parser.machine import Machine
from harmonia.provenance import Trust
from harmonia.vocabulary import SPELLING_BY_ID

DOCS = Path(__file__).parent.parent / "docs"

CLI_HEAD = """# The `harmonia` command

Written by `make docs` from the command's own help. Data goes to stdout, talk to stderr. Exit codes: 0 done, 1 an error
of Harmonia's (see [errors](errors.md)) or of the system, 2 wrong usage, 3 malformed Harmony, 130 interrupted.
"""

FAULTS_HEAD = """# Faults

Written by `make docs` from the parser's own table. A strict parser raises `StreamError` with the code and the position
of the first fault; a tolerant one reports each as a diagnostic with the same code and position, does what is said here,
and goes on. How sure it is of a message with a fault is its *trust*:

| trust | what it means |
|---|---|
| certain | as the model wrote it |
| repaired | something was mended, but who says what on which channel is sure: text is shown, a call is not run |
| guessed | the channel or the author is a guess: text is not shown, a call is not run |
"""

TRANSITIONS_HEAD = """## The machine

A parser waits for a message, reads a header, or reads a body. This is what special tokens do in each state; all others
do what the last row says.

| | between messages | in a header | in a body |
|---|---|---|---|
"""


def cli_page() -> str:
    overview = _help()
    verbs = re.findall(r"^  ([a-z]+)  ", overview.partition("Commands:")[2], re.MULTILINE)
    parts = [CLI_HEAD, _block(overview), *(f"## `harmonia {verb}`\n\n{_block(_help(verb))}" for verb in verbs)]
    return "\n".join(parts)


def faults_page() -> str:
    return "\n".join([FAULTS_HEAD, TRANSITIONS_HEAD + _transitions(), *map(_fault, FAULTS.values())])


def _fault(fault: Fault) -> str:
    strict = "raises" if fault.strict == "raises" else "reports it too, because it is well-formed"
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


PAGES = {"cli.md": cli_page, "faults.md": faults_page}


def main() -> None:
    for name, write in PAGES.items():
        text, page = write(), DOCS / name
        if "--check" not in sys.argv:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            sys.exit(f"{name} is out of date: run make docs")


if __name__ == "__main__":
    main()
