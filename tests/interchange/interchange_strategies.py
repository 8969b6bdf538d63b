"""Conversations that formats keep whole, each in its own way."""

from __future__ import annotations

from hypothesis import strategies as st

import tests.support.strategies.conversations as wild
from harmonia import (
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    ResponseFormat,
    SystemContent,
    ToolDescription,
    ToolNamespace,
)
from harmonia.interchange import message_defaults

texts = wild.texts
said = texts.filter(bool)
several = st.lists(texts, min_size=2, max_size=3).map(tuple)
recipients = st.sampled_from(
    ["functions.x", "functions.get_weather", "browser.search", "python", "functions.python", "server.tool"]
)


@st.composite
def calls_with_results(draw: st.DrawFn) -> list[Message]:
    """A step of a turn: reasoning, a preamble, calls to different tools, and their results in any order."""
    step: list[Message] = []
    if draw(st.booleans()):
        step.append(message_defaults.assistant(draw(said), "analysis"))
    if draw(st.booleans()):
        step.append(message_defaults.assistant(draw(said), "commentary"))
    called = draw(st.lists(recipients, min_size=1, max_size=3, unique=True))
    step += [message_defaults.call(recipient, draw(texts)) for recipient in called]
    answered = draw(st.permutations(called))[: draw(st.integers(0, len(called)))]
    return step + [message_defaults.result(recipient, draw(texts | several)) for recipient in answered]


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    turn = [message_defaults.user(draw(texts | several))]
    for _ in range(draw(st.integers(0, 2))):
        turn += draw(calls_with_results())
    if draw(st.booleans()):
        turn.append(message_defaults.assistant(draw(said), "analysis"))
    if draw(st.booleans()):
        turn.append(message_defaults.assistant(draw(said | several.filter(any)), "final"))
    return turn


tools = st.builds(
    ToolDescription,
    name=st.from_regex(r"[a-z_][a-z0-9_.]{0,12}", fullmatch=True),
    description=st.none() | texts,
    parameters=st.none() | st.booleans() | wild.parameters,
)


def _undescribed(name: str, tools: list[ToolDescription]) -> ToolNamespace:
    return ToolNamespace(name, None, tuple(tools))


namespaces = st.one_of(
    st.builds(
        _undescribed,
        st.just("functions") | st.from_regex(r"[a-z]{1,8}", fullmatch=True),
        st.lists(tools, min_size=1, max_size=3),
    ),
    st.builds(ToolNamespace, st.just("python") | st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.none() | texts),
)
response_formats = st.builds(
    ResponseFormat,
    name=st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    schema=wild.parameters,
    description=st.none() | texts,
)
namespace_maps = st.lists(namespaces, min_size=1, max_size=3).map(
    lambda given: {namespace.name: namespace for namespace in given}
)


@st.composite
def kept_conversations(draw: st.DrawFn) -> Conversation:
    """What both APIs keep: an effort, tools, one response format, instructions, turns."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(Message.system(SystemContent(reasoning_effort=draw(st.sampled_from(ReasoningEffort)))))
    if draw(st.booleans()):
        content = DeveloperContent(
            draw(said),
            draw(st.none() | namespace_maps),
            draw(st.none() | response_formats.map(lambda given: (given,))),
        )
        messages.append(Message("developer", content))
    for turn in draw(st.lists(turns(), max_size=2)):
        messages += turn
    return Conversation(messages)
