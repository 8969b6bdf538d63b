"""Harmonia's drop-in under the name of the original. See docs/guides/migration.md of Harmonia."""

from typing import TYPE_CHECKING

from harmonia.alias import become_openai_harmony

if TYPE_CHECKING:
    from harmonia.openai_harmony import *  # noqa: F403 -- what type checkers see
    from harmonia.openai_harmony import (
        ChannelConfig as ChannelConfig,
    )
    from harmonia.openai_harmony import (
        ReasoningEffort as ReasoningEffort,
    )
    from harmonia.openai_harmony import (
        RenderConversationConfig as RenderConversationConfig,
    )
    from harmonia.openai_harmony import (
        RenderOptions as RenderOptions,
    )
    from harmonia.openai_harmony import (
        ToolNamespaceConfig as ToolNamespaceConfig,
    )

become_openai_harmony()
