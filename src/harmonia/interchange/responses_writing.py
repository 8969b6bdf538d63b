"""Conversations as Responses items, and as the body of a Responses request."""

from __future__ import annotations

from typing import Final

from harmonia.interchange import message_defaults
from harmonia.interchange.call_matching import WrittenCalls
from harmonia.interchange.conversion import CallIds, Exported, Lossy
from harmonia.interchange.losses import sampled_losses, sort_losses
from harmonia.interchange.message_defaults import Texts, differences, left_out
from harmonia.interchange.settings import WrittenSettings, instructions_of, write_format
from harmonia.interchange.tools import responses_tools
from harmonia.messages import Conversation, Json, Message, Role, is_call, is_forged

NAME: Final = "Responses"
PHASES: Final = {"commentary": "commentary", "final": "final_answer"}


def to_responses_items(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """The items alone. Tools and the reasoning effort are reported as lost: `to_responses_body` has them."""
    settings = WrittenSettings(conversation, NAME, responses_tools, is_body=False, keeps_names=False)
    writer = _Writer(conversation, call_ids)
    return Exported(writer.written, writer.finish(settings))


def to_responses_body(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """`input`, and where the conversation has them `tools`, `reasoning` and `text`."""
    settings = WrittenSettings(conversation, NAME, responses_tools, is_body=True, keeps_names=False)
    writer = _Writer(conversation, call_ids)
    body: Json = {"input": writer.written}
    if settings.tools:
        body["tools"] = settings.tools
    if settings.effort is not None:
        body["reasoning"] = {"effort": settings.effort.value}
    if settings.response_format is not None:
        body["text"] = {"format": {"type": "json_schema", **write_format(settings.response_format)}}
    return Exported(body, writer.finish(settings))


class _Writer:
    def __init__(self, conversation: Conversation, call_ids: CallIds | None) -> None:
        self.written: list[Json] = []
        self._listed: list[int] = []
        self._losses: list[Lossy] = []
        self._calls = WrittenCalls(conversation, call_ids)
        self._conversation = conversation
        for index, message in enumerate(conversation):
            self._write(index, message)

    def finish(self, settings: WrittenSettings) -> tuple[Lossy, ...]:
        others = (*settings.losses(self._listed), *self._calls.losses(), *sampled_losses(self._conversation))
        return sort_losses((*self._losses, *others))

    def _write(self, index: int, message: Message) -> None:
        if is_forged(message):
            self._losses.append(left_out(index, f"the model wrote it in the name of {message.role}"))
            return
        texts = message_defaults.texts_of(message)
        match message.role:
            case Role.SYSTEM:
                if any(texts):
                    self._append(index, _message("system", texts))
            case Role.DEVELOPER:
                instructions = instructions_of(message)
                if instructions:
                    self._append(index, _message("developer", instructions))
            case Role.USER:
                self._append(index, _message("user", texts), message_defaults.user(texts))
            case Role.ASSISTANT:
                self._write_assistant(index, message, texts)
            case Role.TOOL:
                self._write_result(index, message, texts)

    def _write_assistant(self, index: int, message: Message, texts: Texts) -> None:
        if is_call(message):
            recipient = message.recipient or ""
            call = _call(recipient, message.text, self._calls.id_of(index))
            self._append(index, call, message_defaults.call(recipient, message.text))
        elif message_defaults.is_hidden(message):
            if not any(texts):
                self._losses.append(left_out(index, f"{NAME} has no empty reasoning"))
                return
            item: Json = {"type": "reasoning", "summary": [], "content": _parts("reasoning_text", texts)}
            self._append(index, item, message_defaults.assistant(texts, "analysis"))
        elif not any(texts):
            self._losses.append(left_out(index, message_defaults.EMPTY))
        else:
            channel = "commentary" if message.channel == "commentary" else "final"
            item = _message("assistant", texts, "output_text") | {"phase": PHASES[channel]}
            self._append(index, item, message_defaults.assistant(texts, channel))

    def _write_result(self, index: int, message: Message, texts: Texts) -> None:
        answered = self._calls.answered_by(index)
        if answered is None:
            self._losses.append(left_out(index, f"no call to {message.name} waits for it, so there is no call id"))
            return
        id_, recipient = answered
        kind = "custom_tool_call_output" if message_defaults.is_free_form(recipient) else "function_call_output"
        output = texts if isinstance(texts, str) else _parts("input_text", texts)
        item: Json = {"type": kind, "call_id": id_, "output": output}
        self._append(index, item, message_defaults.result(recipient, texts))

    def _append(self, index: int, item: Json, back: Message | None = None) -> None:
        """Add an item; `back` is what it will be read as. Instructions are compared when the settings are known."""
        self._listed.append(index)
        self.written.append(item)
        if back is not None:
            self._losses += differences(index, self._conversation[index], back, NAME)


def _message(role: str, texts: Texts, part: str = "input_text") -> Json:
    return {"type": "message", "role": role, "content": _parts(part, texts)}


def _parts(kind: str, texts: Texts) -> list[Json]:
    return [{"type": kind, "text": text} for text in ((texts,) if isinstance(texts, str) else texts)]


def _call(recipient: str, text: str, id_: str) -> Json:
    if message_defaults.is_free_form(recipient):
        return {"type": "custom_tool_call", "call_id": id_, "name": recipient, "input": text}
    return {"type": "function_call", "call_id": id_, "name": message_defaults.bare_name(recipient), "arguments": text}
