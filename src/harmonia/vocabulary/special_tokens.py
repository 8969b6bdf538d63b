"""The special tokens of o200k_harmony: ids 199998 to 201087 with their spellings.

Nine of them have a meaning; the others are reserved, under the reference's names. One id has two spellings: tiktoken
calls 200018 `<|endofprompt|>`, the reference `<|reserved_200018|>`. Both encode to it, and it decodes to the
reference's.
"""

from __future__ import annotations

import re
from typing import Final

START_OF_TEXT: Final = 199998
END_OF_TEXT: Final = 199999
RETURN: Final = 200002
CONSTRAIN: Final = 200003
CHANNEL: Final = 200005
START: Final = 200006
END: Final = 200007
MESSAGE: Final = 200008
CALL: Final = 200012
END_OF_PROMPT: Final = 200018

FIRST_SPECIAL: Final = 199998
VOCABULARY_SIZE: Final = 201088

_NAMED: Final = {
    START_OF_TEXT: "<|startoftext|>",
    END_OF_TEXT: "<|endoftext|>",
    RETURN: "<|return|>",
    CONSTRAIN: "<|constrain|>",
    CHANNEL: "<|channel|>",
    START: "<|start|>",
    END: "<|end|>",
    MESSAGE: "<|message|>",
    CALL: "<|call|>",
}

SPELLING_BY_ID: Final[dict[int, str]] = {
    token: _NAMED.get(token, f"<|reserved_{token}|>") for token in range(FIRST_SPECIAL, VOCABULARY_SIZE)
}
ID_BY_SPELLING: Final[dict[str, int]] = {
    **{spelling: token for token, spelling in SPELLING_BY_ID.items()},
    "<|endofprompt|>": END_OF_PROMPT,
}

# Every spelling has the shape <|word|>, so one expression finds the candidates and the table decides.
_CANDIDATE: Final = re.compile(r"<\|[a-z0-9_]+\|>")


def find_spellings(text: str) -> list[tuple[int, str]]:
    """Where `text` spells a special token, in order: (character offset, spelling)."""
    if "<|" not in text:
        return []
    found = ((match.start(), match.group()) for match in _CANDIDATE.finditer(text))
    return [(offset, spelling) for offset, spelling in found if spelling in ID_BY_SPELLING]
