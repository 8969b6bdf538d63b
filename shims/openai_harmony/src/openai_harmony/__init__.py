"""Harmonia's drop-in under the name of the original. See docs/migration.md of Harmonia."""

from harmonia.alias import become_openai_harmony

become_openai_harmony()
