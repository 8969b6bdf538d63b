"""What tools cost in a prompt, and what their schemas lose there. Measured by rendering, so the numbers are exact.

The cost of a tool is how many tokens the prompt loses when the tool is left out and others of its namespace stay; a
tool that is alone there is measured beside another. What is left of the whole when the costs of all tools are taken off
are the headings, which they share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from harmonia.messages import DeveloperContent, Message, Role, SystemContent, ToolDescription, ToolNamespace
from harmonia.renderer import Renderer
from harmonia.run.tools.tool_set import ToolSet
from harmonia.schema import Loss, declare_namespace

# What a tool that is alone in its namespace is measured beside.
_OTHER: Final = ToolDescription("other")
_INDEX: Final = re.compile(r"\$\.tools\[(\d+)\]")


class ToolCost(msgspec.Struct, frozen=True):
    """A tool as the model is told of it. `losses` is what its schema says that the prompt does not."""

    name: str
    recipient: str
    tokens: int
    losses: tuple[Loss, ...] = ()

    @property
    def is_renamed(self) -> bool:
        """Whether the model is told of it under another name than its owner's."""
        return self.recipient.rpartition(".")[2] != self.name


class NamespaceText(msgspec.Struct, frozen=True):
    """A namespace as it is declared, and in whose message."""

    name: str
    role: Role
    text: str


class SetCost(msgspec.Struct, frozen=True):
    """What a set of tools adds to a prompt that has neither tools nor a developer message otherwise."""

    tokens: int
    heading_tokens: int
    tools: tuple[ToolCost, ...]
    namespaces: tuple[NamespaceText, ...]


def cost_of(tools: ToolSet, renderer: Renderer | None = None) -> SetCost:
    """The cost of a set, in all and by tool."""
    renderer = renderer or Renderer()
    bare = _count((), (), renderer)
    whole = _count(tools.system_namespaces, tools.developer_namespaces, renderer)
    costs: dict[str, ToolCost] = {}
    texts: list[NamespaceText] = []
    owners = {tools.recipient_of(tool): tool for tool in tools}
    for namespace in tools.namespaces:
        is_system = namespace in tools.system_namespaces
        declared = declare_namespace(namespace.name, namespace.description, namespace.tools)
        texts.append(NamespaceText(namespace.name, Role.SYSTEM if is_system else Role.DEVELOPER, declared.text))
        for index, recipient in enumerate(_recipients_in(namespace)):
            with_it = whole
            if len(namespace.tools) == 1:
                beside = msgspec.structs.replace(namespace, tools=(*namespace.tools, _OTHER))
                with_it = _count_set(tools, _replace(tools.namespaces, namespace, beside), renderer)
            without = _count_set(tools, _replace(tools.namespaces, namespace, _without(namespace, index)), renderer)
            losses = tuple(_losses_of(index, declared.losses))
            costs[recipient] = ToolCost(owners[recipient].name, recipient, with_it - without, losses)
    listed = tuple(costs[tools.recipient_of(tool)] for tool in tools)
    total = whole - bare
    return SetCost(total, total - sum(cost.tokens for cost in listed), listed, tuple(texts))


def _count_set(tools: ToolSet, namespaces: Iterable[ToolNamespace], renderer: Renderer) -> int:
    """The same for namespaces that stand in place of a set's."""
    system = {space.name for space in tools.system_namespaces}
    namespaces = tuple(namespaces)
    return _count(
        [each for each in namespaces if each.name in system],
        [each for each in namespaces if each.name not in system],
        renderer,
    )


def _count(system: Iterable[ToolNamespace], developer: Iterable[ToolNamespace], renderer: Renderer) -> int:
    system, developer = tuple(system), tuple(developer)
    messages = [Message.system(SystemContent().with_tools(*system) if system else SystemContent())]
    if developer:
        messages.append(Message(Role.DEVELOPER, DeveloperContent().with_tools(*developer)))
    return len(renderer.render(messages).tokens)


def _recipients_in(namespace: ToolNamespace) -> list[str]:
    return [f"{namespace.name}.{tool.name}" for tool in namespace.tools] or [namespace.name]


def _without(namespace: ToolNamespace, index: int) -> ToolNamespace | None:
    """The namespace without one tool. One without tools, such as python, is a tool itself, and goes as a whole."""
    if not namespace.tools:
        return None
    tools = (*namespace.tools[:index], *namespace.tools[index + 1 :])
    return msgspec.structs.replace(namespace, tools=tools or (_OTHER,))


def _replace(
    namespaces: Iterable[ToolNamespace], namespace: ToolNamespace, other: ToolNamespace | None
) -> list[ToolNamespace]:
    replaced = [other if each is namespace else each for each in namespaces]
    return [each for each in replaced if each is not None]


def _losses_of(index: int, losses: Iterable[Loss]) -> Iterable[Loss]:
    """The losses of one tool, with paths that begin at the tool."""
    for loss in losses:
        place = _INDEX.match(loss.path)
        if place is not None and int(place[1]) == index:
            yield msgspec.structs.replace(loss, path=f"${loss.path[place.end() :]}")
