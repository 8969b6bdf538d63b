"""The `harmonia` command: one file per verb."""

from harmonia.cli.command import main

__all__ = ["main"]
