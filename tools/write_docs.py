"""Write docs/cli.md from the command's own help, so that the two cannot differ.

python tools/write_docs.py          write it
python tools/write_docs.py --check  exit 1 if it would change
"""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
HEAD = """# The `harmonia` command

Written by `make docs` from the command's own help. Data goes to stdout, talk to stderr. Exit codes: 0 done, 1 an error
of Harmonia's (see [errors](errors.md)) or of the system, 2 wrong usage, 130 interrupted.
"""


def page() -> str:
    overview = _help()
    verbs = re.findall(r"^  ([a-z]+)  ", overview.partition("Commands:")[2], re.MULTILINE)
    parts = [HEAD, _block(overview), *(f"## `harmonia {verb}`\n\n{_block(_help(verb))}" for verb in verbs)]
    return "\n".join(parts)


def _help(*arguments: str) -> str:
    command = [sys.executable, "-m", "harmonia", *arguments, "--help"]
    environment = {**os.environ, "COLUMNS": "100"}
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return shown.replace("python -m harmonia", "harmonia")


def _block(text: str) -> str:
    return f"```text\n{text}```\n"


def main() -> None:
    text = page()
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != text and f"{PAGE.name} is out of date: run make docs")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
