"""Conversations with turns, calls and results, for the tests of history: what people, models and tools do."""

from __future__ import annotations

from hypothesis import strategies as st

from harmonia import Conversation, Message

SYSTEM = Message.system()
DEVELOPER = Message.developer("Be kind.")


def user(text: str = "?") -> Message:
    return Message.user(text)


def think(text: str = "Hm.") -> Message:
    return Message.assistant(text, channel="analysis")


def preamble(text: str = "I will look.") -> Message:
    return Message.assistant(text, channel="commentary")


def call(name: str = "functions.f", arguments: str = "{}") -> Message:
    return Message.call(name, arguments)


def python(code: str = "1 + 1") -> Message:
    return Message.call("python", code, channel="analysis", content_type="code")


def result(name: str = "functions.f", text: str = "1") -> Message:
    return Message.tool(name, text)


def final(text: str = "Yes.") -> Message:
    return Message.assistant(text)


# What well-behaved programs have in a history.
ORDINARY = [
    *(user(), user("And?"), DEVELOPER, think(), think("Hm, hm."), preamble(), final(), final("No.")),
    *(call(), call(arguments='{"a":1}'), call("functions.g"), result(), result("functions.g"), result(text="2")),
]
# What else there is.
ODD = [
    *(SYSTEM, python(), Message.tool("python", "2", channel="analysis"), call("f"), result("f")),
    Message.assistant("Hm.", channel="Analysis"),
    Message.assistant("Yes.", channel="Final"),
    Message.assistant("?", channel=None),
    Message.assistant("?", channel="thoughts"),
    Message.call("functions.f", "{}", channel="final"),
    Message("assistant", "Hm.", "analysis", "all"),
    Message("assistant", "Yes.", "final", "user"),
    Message("user", "?", "analysis"),
    Message("user", "?", "final"),
    Message("system", "?", "analysis"),
]


def _copies(messages: list[Message]) -> st.SearchStrategy[Message]:
    # A copy each time: no two messages of a conversation are the same object unless a test wants them to be.
    return st.sampled_from(messages).map(lambda message: message.replace())


ordinary_chats = st.lists(_copies(ORDINARY), max_size=14).map(Conversation)
odd_chats = st.lists(_copies(ORDINARY + ODD), max_size=14).map(Conversation)
