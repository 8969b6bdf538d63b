"""`shell` and `local_shell`: tools that the API defines and the client runs. To the model they are functions."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from harmonia.messages import Json
from harmonia.parts import Call
from harmonia.run.tools import Tool
from harmonia.serve.responses.items.base import (
    CalledTool,
    CallOutput,
    ClientCall,
    ContentOutput,
    dump,
    without_nulls,
)
from harmonia.serve.wire.validation import RequestWarnings, invalid


class ShellCall(ClientCall, frozen=True, tag="shell_call", kw_only=True):
    tool_type: ClassVar[str] = "shell"
    id_prefix: ClassVar[str] = "sh"
    bound: ClassVar[tuple[str, ...]] = ("call_id", "action")
    empty: ClassVar[Json] = {"action": {"commands": []}}
    declaration: ClassVar[Tool | None] = Tool(
        "shell",
        "Runs commands in a shell of the user's machine, each on its own, and gives what they print.",
        {
            "type": "object",
            "properties": {
                "commands": {"type": "array", "items": {"type": "string"}, "description": "Commands to run."},
                "timeout_ms": {"type": "integer", "description": "How long they may take, in milliseconds."},
                "max_output_length": {"type": "integer", "description": "The most characters to give back."},
            },
            "required": ["commands"],
        },
    )

    action: Json
    environment: Json | None = None

    def called(self) -> CalledTool:
        return CalledTool("shell", dump(without_nulls(self.action)))

    @classmethod
    def written(cls, call: Call) -> Json:
        arguments = arguments_of(call)
        return {"action": {name: arguments.get(name) for name in ("commands", "timeout_ms", "max_output_length")}}


class ShellOutput(ContentOutput, frozen=True, tag="shell_call_output", kw_only=True):
    max_output_length: int | None = None


class LocalShellCall(ClientCall, frozen=True, tag="local_shell_call", kw_only=True):
    tool_type: ClassVar[str] = "local_shell"
    id_prefix: ClassVar[str] = "lsh"
    bound: ClassVar[tuple[str, ...]] = ("call_id", "action")
    empty: ClassVar[Json] = {"action": {"type": "exec", "command": [], "env": {}}}
    declaration: ClassVar[Tool | None] = Tool(
        "local_shell",
        "Runs a program on the user's machine and gives what it prints.",
        {
            "type": "object",
            "properties": {
                "command": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The program and its arguments.",
                },
                "working_directory": {"type": "string"},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
                "timeout_ms": {"type": "integer"},
            },
            "required": ["command"],
        },
    )

    action: Json

    def called(self) -> CalledTool:
        action = {name: value for name, value in without_nulls(self.action).items() if name != "type"}
        return CalledTool("local_shell", dump(action))

    @classmethod
    def written(cls, call: Call) -> Json:
        return {"action": {"type": "exec", "env": {}, **arguments_of(call)}}


class LocalShellOutput(CallOutput, frozen=True, tag="local_shell_call_output", kw_only=True):
    """OpenAI's has the id of the call as `id`; some clients send `call_id`."""

    output: str
    call_id: str | None = None

    @classmethod
    def answered(cls, item: Json) -> object:
        return item.get("call_id") or item.get("id")

    def answers(self, path: str) -> tuple[str, str]:
        if self.call_id is not None:
            return self.call_id, "call_id"
        if self.id is None:
            invalid("id is missing: it names the call that this answers", f"{path}.id")
        return self.id, "id"

    def texts(self, path: str, warnings: RequestWarnings | None) -> tuple[str, ...]:
        return (self.output,)


def arguments_of(call: Call) -> Json:
    """The arguments of a call as an object."""
    value: Any = call.value
    return cast("Json", value) if isinstance(value, dict) else {}
