"""Calls that clients send back, as the tokens that the model most likely sampled.

Clients keep a call's name and its arguments, and have no place for its tokens. The renderer's canonical form names the
tool in the role, `assistant to=functions.x<|channel|>commentary`; the models write it behind the channel,
`assistant<|channel|>commentary to=functions.x`. An engine's cache knows the prompt only as far as both agree, so calls
are written in the models' way here. All special tokens are ours, and name and arguments are ordinary text (law 1); the
one parser reads the result, so that it is what it would be had it been sampled.
"""

from __future__ import annotations

from harmonia.messages import Message, Role
from harmonia.parser import parse
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, MESSAGE, encode


def call_as_sampled(recipient: str, arguments: str, *, is_json: bool = True) -> Message:
    """The call. A name or arguments that cannot stand in one as they are give the plain call, which renders safely."""
    plain = Message.call(recipient, arguments, content_type="<|constrain|>json" if is_json else None)
    header = encode(f"commentary to={recipient}" + (" " if is_json else ""))
    kind = [CONSTRAIN, *encode("json")] if is_json else []
    tokens = [CHANNEL, *header, *kind, MESSAGE, *encode(arguments), CALL]
    messages = parse(tokens, role=Role.ASSISTANT).messages
    if len(messages) != 1 or messages[0] != plain or messages[0].sampled is None:
        return plain
    return messages[0]
