"""Write docs/cli.md from the command's own help, so that the two cannot differ.

python tools/write_docs.py          write it
python tools/write_docs.py --check  exit 1 if it would change
"""

import sys
from pathlib import Path

import click

from harmonia.cli import main as command

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
HEAD = """# The `harmonia` command

Written by `make docs` from the command's own help. Data goes to stdout, talk to stderr. Exit codes: 0 done, 1 an error of
Harmonia's (see [errors](errors.md)), 2 wrong usage.
"""


def page() -> str:
    parts = [HEAD, _help(command, "harmonia")]
    with click.Context(command) as context:
        for name in command.list_commands(context):
            verb = command.get_command(context, name)
            assert verb is not None
            parts.append(f"## `harmonia {name}`\n\n{_help(verb, f'harmonia {name}')}")
    return "\n".join(parts)


def _help(verb: click.Command, name: str) -> str:
    with click.Context(verb, info_name=name, max_content_width=100, terminal_width=100) as context:
        return f"```text\n{verb.get_help(context)}\n```\n"


def main() -> None:
    text = page()
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != text and f"{PAGE.name} is out of date: run make docs")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
