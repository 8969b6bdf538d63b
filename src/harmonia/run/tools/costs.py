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
    render = (renderer or Renderer()).render
    system = {namespace.name for namespace in tools.system_namespaces}

    def count(namespaces: Iterable[ToolNamespace]) -> int:
        """The tokens of a prompt that declares these."""
        namespaces = tuple(namespaces)
        above = [each for each in namespaces if each.name in system]
        below = [each for each in namespaces if each.name not in system]
        messages = [Message.system(SystemContent().with_tools(*above) if above else SystemContent())]
        if below:
            messages.append(Message(Role.DEVELOPER, DeveloperContent().with_tools(*below)))
        return len(render(messages).tokens)

    def count_with(namespace: ToolNamespace, declared: tuple[ToolDescription, ...]) -> int:
        changed = msgspec.structs.replace(namespace, tools=declared)
        return count(changed if each is namespace else each for each in tools.namespaces)

    total = count(tools.namespaces) - count(())
    costs: dict[str, ToolCost] = {}
    texts: list[NamespaceText] = []
    owners = {tools.recipient_of(tool): tool for tool in tools}
    for namespace in tools.namespaces:
        declared = declare_namespace(namespace.name, namespace.description, namespace.tools)
        role = Role.SYSTEM if namespace.name in system else Role.DEVELOPER
        texts.append(NamespaceText(namespace.name, role, declared.text))
        if not namespace.tools:  # such as python: it is a tool itself
            tokens = count(tools.namespaces) - count(each for each in tools.namespaces if each is not namespace)
            costs[namespace.name] = ToolCost(owners[namespace.name].name, namespace.name, tokens)
        for index, tool in enumerate(namespace.tools):
            rest = (*namespace.tools[:index], *namespace.tools[index + 1 :])
            beside = () if rest else (_OTHER,)
            tokens = count_with(namespace, (*namespace.tools, *beside)) - count_with(namespace, (*rest, *beside))
            recipient = f"{namespace.name}.{tool.name}"
            losses = tuple(_losses_of(index, declared.losses))
            costs[recipient] = ToolCost(owners[recipient].name, recipient, tokens, losses)
    listed = tuple(costs[tools.recipient_of(tool)] for tool in tools)
    return SetCost(total, total - sum(cost.tokens for cost in listed), listed, tuple(texts))


def _losses_of(index: int, losses: Iterable[Loss]) -> Iterable[Loss]:
    """The losses of one tool, with paths that begin at the tool."""
    for loss in losses:
        place = _INDEX.match(loss.path)
        if place is not None and int(place[1]) == index:
            yield msgspec.structs.replace(loss, path=f"${loss.path[place.end() :]}")
