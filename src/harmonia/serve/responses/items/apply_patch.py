"""`apply_patch`: a tool that the API defines and the client runs. To the model it is a function."""

from __future__ import annotations

from typing import ClassVar, Final

from harmonia.messages import Json
from harmonia.parts import Call
from harmonia.run.tools import Tool
from harmonia.serve.responses.items.base import CalledTool, CallOutput, ClientCall, dump
from harmonia.serve.responses.items.shell import arguments_of
from harmonia.serve.wire.validation import RequestWarnings

_OPERATION: Final = ("type", "path", "diff")


def _operation(*types: str, has_diff: bool = False) -> Json:
    """What a patch does to a file. Clients cannot create or change one without a diff."""
    properties: Json = {
        "type": {"type": "string", "enum": list(types)},
        "path": {"type": "string", "description": "The file, relative to the project."},
    }
    if has_diff:
        properties["diff"] = {"type": "string", "description": "The change as a diff; of a new file, all its lines."}
    return {"type": "object", "properties": properties, "required": list(properties)}


class PatchCall(ClientCall, frozen=True, tag="apply_patch_call", kw_only=True):
    tool_type: ClassVar[str] = "apply_patch"
    id_prefix: ClassVar[str] = "apc"
    bound: ClassVar[tuple[str, ...]] = ("call_id", "operation")
    declaration: ClassVar[Tool | None] = Tool(
        "apply_patch",
        "Creates, changes or deletes one file of the user's project.",
        {"anyOf": [_operation("create_file", "update_file", has_diff=True), _operation("delete_file")]},
    )

    operation: Json

    def called(self) -> CalledTool:
        return CalledTool("apply_patch", dump(self.operation))

    @classmethod
    def written(cls, call: Call) -> Json:
        arguments = arguments_of(call)
        return {"operation": {name: arguments[name] for name in _OPERATION if name in arguments}}

    @classmethod
    def announced(cls, fields: Json) -> Json:
        # From the first event on, clients read which file is changed, and how; they reject an empty operation.
        operation: Json = fields["operation"]
        return {"operation": operation | ({"diff": ""} if "diff" in operation else {})}


class PatchOutput(CallOutput, frozen=True, tag="apply_patch_call_output", kw_only=True):
    call_id: str
    output: str | None = None

    def answers(self, path: str) -> tuple[str, str]:
        return self.call_id, "call_id"

    def texts(self, path: str, warnings: RequestWarnings | None) -> tuple[str, ...]:
        text = self.output if self.output is not None else self.status or "completed"
        return (f"failed: {text}" if self.status == "failed" and self.output is not None else text,)
