"""`python -m harmonia` is the `harmonia` command."""

from harmonia.cli import main

main()
