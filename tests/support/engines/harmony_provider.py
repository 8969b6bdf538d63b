"""A provider with the demo engine behind it, over real sockets, which handles Harmony as it must; by a switch, wrongly.

It looks like vLLM: `/v1/completions` with token ids in and out, `/v1/chat/completions`, `/v1/responses`, `/metrics`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from harmonia import Conversation, Message, Role, SystemContent, parse, render
from harmonia.grammar import declared_tools
from harmonia.interchange import read_chat, read_responses
from harmonia.interchange.request_settings import gather
from harmonia.run.engines import Chunk, Request, Sampling, Usage
from harmonia.run.engines.demo import DemoEngine
from harmonia.vocabulary import CALL, RETURN, SPELLING_BY_ID, decode, encode, find_spellings, is_special
from tests.support.servers.wire_servers import Asked, Wire, serving

MODEL: Final = "gpt-oss-20b"
_STOPS: Final = (RETURN, CALL)


class HarmonyProvider:
    """`faults` are names of what it does wrong; each is looked up where it matters."""

    def __init__(self, faults: Sequence[str] = ()) -> None:
        self._faults = frozenset(faults)
        self._engine = DemoEngine()
        self._running = 0

    async def handle(self, asked: Asked, wire: Wire) -> None:
        match asked.path:
            case "/v1/models" if "lists_no_models" not in self._faults:
                await wire.answer(200, {"object": "list", "data": [{"id": "other"}, {"id": MODEL, "owned_by": "vllm"}]})
            case "/version":
                await wire.answer(200, {"version": "0.32.0"})
            case "/metrics":
                await wire.answer(
                    200, f'# TYPE x gauge\nvllm:num_requests_running{{model="x"}} {self._running}.0\n'.encode()
                )
            case "/v1/completions" if "has_no_completions" not in self._faults:
                await self._complete(asked.body, wire)
            case "/v1/chat/completions" if "has_no_chat" not in self._faults:
                await self._answer(asked.body, wire, is_chat=True)
            case "/v1/responses" if "has_no_responses" not in self._faults:
                await self._answer(asked.body, wire, is_chat=False)
            case _:
                await wire.answer(404, {"error": {"message": "not found"}})

    # ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _complete(self, body: Any, wire: Wire) -> None:
        prompt = body["prompt"]
        if not isinstance(prompt, str) and "refuses_ids" in self._faults:
            await wire.answer(400, {"error": {"message": "prompt must be a string"}})
            return
        if isinstance(prompt, str):
            prompt = encode(prompt, special=tuple(SPELLING_BY_ID.values()))
        elif "reads_ids_as_text" in self._faults:
            prompt = encode(" ".join(map(str, prompt)))
        tokens, reason, usage = await self._sample(prompt, Request(Sampling(max_tokens=body["max_tokens"])))
        if "swallows_stop" in self._faults and tokens[-1] in _STOPS:
            tokens = tokens[:-1]
        count = max(len(tokens), 1)
        parts = [tokens[at : at + 4] for at in range(0, count, 4)] if body["stream"] else [tokens]
        choices = [self._piece(part) for part in parts]
        choices[-1] |= {"finish_reason": reason}
        if not body["stream"]:
            await wire.answer(200, {"choices": choices, "usage": usage})
            return
        await wire.begin()
        for choice in choices:
            await wire.event({"choices": [choice]})
        await wire.event({"choices": [], "usage": usage}, b"[DONE]")
        await wire.end()

    def _piece(self, tokens: list[int]) -> dict[str, Any]:
        kept = [token for token in tokens if not is_special(token)] if "strips_special" in self._faults else tokens
        ids = {} if self._faults & {"gives_text_only", "strips_special"} else {"token_ids": tokens}
        return {"index": 0, "text": decode(kept), "finish_reason": None, **ids}

    async def _sample(self, prompt: Sequence[int], request: Request) -> tuple[list[int], str, dict[str, int]]:
        tokens: list[int] = []
        reason, usage = "", Usage()
        async for piece in self._engine.generate(prompt, request):
            if isinstance(piece, Chunk):
                tokens += piece.tokens
            else:
                reason, usage = piece.reason, piece.usage or Usage()
        if reason == "length" and "hides_length" in self._faults:
            reason = "stop"
        total = usage.prompt_tokens + usage.completion_tokens
        return (
            tokens,
            reason,
            {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "total_tokens": total,
            },
        )

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, body: Any, wire: Wire, *, is_chat: bool) -> None:
        conversation = (read_chat if is_chat else read_responses)(
            {name: body[name] for name in _READ if name in body}
        ).conversation
        if (refused := self._refuse(conversation, body)) is not None:
            await wire.answer(400, {"error": {"message": refused}})
            return
        settings = gather(conversation)
        choice = body.get("tool_choice", "auto")
        request = Request(
            Sampling(max_tokens=body.get("max_tokens", body.get("max_output_tokens")), seed=body.get("seed")),
            declared_tools((settings.namespaces or {}).values()),
            choice if isinstance(choice, str) else "required",
            None if "ignores_schema" in self._faults else settings.response_format,
            settings.effort,
        )
        if not isinstance(conversation[0].content, SystemContent):
            conversation = Conversation([Message.system(), *conversation])
        tokens, reason, usage = await self._sample(self._render(conversation), request)
        said = [_say(message) for message in parse(tokens, Role.ASSISTANT).messages]
        is_called = any(kind == "call" for kind, _, _ in said)
        said = self._spoil(said, stream=body["stream"])
        if "says_no_usage" in self._faults:
            usage = {}
        if "says_no_reason" in self._faults:
            reason = ""
        elif is_chat and is_called and reason == "stop":
            reason = "tool_calls"
        stream = body["stream"] and "ignores_stream" not in self._faults
        self._running += 1
        write = _write_chat if is_chat else _write_responses
        try:
            await write(wire, said, reason, usage, self._cut(said) if stream else None)
        finally:
            if not (stream and "runs_on" in self._faults):
                self._running -= 1

    def _refuse(self, conversation: Conversation, body: Any) -> str | None:
        roles = {message.role for message in conversation}
        hidden = any(message.channel == "analysis" for message in conversation)
        names = json.dumps(body.get("tools", []))
        for fault, applies in (
            ("refuses_developer", Role.DEVELOPER in roles and "tools" not in body and "schema" not in json.dumps(body)),
            ("refuses_results", Role.TOOL in roles),
            ("refuses_reasoning", hidden),
            ("refuses_tools", "tools" in body),
            ("refuses_names", ".now" in names),
            ("refuses_schema", "schema" in json.dumps(body) and "tools" not in body),
            ("refuses_everything", True),
            ("refuses_reasoning_effort", "reasoning" in body or "reasoning_effort" in body),
        ):
            if fault in self._faults and applies:
                return fault
        return None

    def _render(self, conversation: Conversation) -> list[int]:
        if "drops_developer" in self._faults:
            kept = [message for message in conversation if message.role is not Role.DEVELOPER]
            conversation = Conversation(kept)
        tokens = list(render(conversation).tokens)
        typed = "".join(message.text for message in conversation if message.role is Role.USER)
        if "reads_typed_tokens" in self._faults and find_spellings(typed):
            # What a server does that writes a text and tokenizes it again.
            return encode(decode(tokens), special=tuple(SPELLING_BY_ID.values()))
        return tokens

    def _spoil(self, said: list[tuple[str, str, str]], *, stream: bool) -> list[tuple[str, str, str]]:
        texts = {kind: text for kind, _, text in said}
        if "leaks_reasoning" in self._faults and "text" in texts:
            return [("text", "", f"analysis{texts.get('reasoning', '')}assistantfinal{texts['text']}")]
        if "drops_calls" in self._faults:
            said = [each for each in said if each[0] != "call"]
        if "calls_as_text" in self._faults:
            said = [
                ("text", "", f"commentary to=functions.{name} json{text}") if kind == "call" else (kind, name, text)
                for kind, name, text in said
            ]
        if "mangles_names" in self._faults:
            said = [(kind, name.replace(".", "_").replace("-", "_"), text) for kind, name, text in said]
        if "breaks_arguments" in self._faults:
            said = [(kind, name, text[:-1] if kind == "call" else text) for kind, name, text in said]
        if stream and "loses_the_end_of_streams" in self._faults:
            said = [(kind, name, text[:-3] if kind == "text" else text) for kind, name, text in said]
        return said

    def _cut(self, said: list[tuple[str, str, str]]) -> list[list[str]]:
        """The pieces in which each text is streamed."""
        if "streams_one_piece" in self._faults:
            return [[text] for _, _, text in said]
        if "tears_characters" in self._faults:
            return [[decode([token]) for token in encode(text)] for _, _, text in said]
        return [[text[at : at + 7] for at in range(0, len(text), 7)] for _, _, text in said]


_READ: Final = ("messages", "input", "tools", "reasoning_effort", "reasoning", "response_format", "text")
_CHAT_FIELDS: Final = {"reasoning": "reasoning", "text": "content"}


def _say(message: Message) -> tuple[str, str, str]:
    if message.recipient is not None:
        return "call", message.recipient.removeprefix("functions."), message.text
    return ("reasoning" if message.channel == "analysis" else "text"), "", message.text


async def _write_chat(
    wire: Wire, said: list[tuple[str, str, str]], reason: str, usage: dict[str, int], cut: list[list[str]] | None
) -> None:
    if cut is None:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        for at, (kind, name, text) in enumerate(said):
            if kind == "call":
                call = {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": text}}
                message.setdefault("tool_calls", []).append(call)
            else:
                message[_CHAT_FIELDS[kind]] = text
        answer = {"choices": [{"message": message, "finish_reason": reason or None}], "usage": usage or None}
        await wire.answer(200, answer)
        return
    await wire.begin()
    for at, ((kind, name, _), pieces) in enumerate(zip(said, cut, strict=True)):
        for number, piece in enumerate(pieces):
            function = {"arguments": piece} if number else {"name": name, "arguments": piece}
            call = {"index": at, "function": function} | ({} if number else {"id": f"call_{at}"})
            delta: dict[str, Any] = {"tool_calls": [call]} if kind == "call" else {_CHAT_FIELDS[kind]: piece}
            await wire.event({"choices": [{"delta": delta}]})
    last: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": reason or None}]}
    await wire.event(last, {"choices": [], "usage": usage}, b"[DONE]")
    await wire.end()


async def _write_responses(
    wire: Wire, said: list[tuple[str, str, str]], reason: str, usage: dict[str, int], cut: list[list[str]] | None
) -> None:
    output = [_item(at, kind, name, text) for at, (kind, name, text) in enumerate(said)]
    status = {"stop": "completed", "length": "incomplete"}.get(reason, "")
    details = {"reason": "max_output_tokens"} if reason == "length" else None
    counted = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]} if usage else None
    response = {
        "object": "response",
        "status": status,
        "output": output,
        "incomplete_details": details,
        "usage": counted,
    }
    if cut is None:
        await wire.answer(200, response)
        return
    await wire.begin()
    for at, (item, pieces) in enumerate(zip(output, cut, strict=True)):
        kind = {"reasoning": "reasoning_text", "message": "output_text"}.get(item["type"], "function_call_arguments")
        await wire.event({"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}})
        for piece in pieces:
            await wire.event(
                {"type": f"response.{kind}.delta", "item_id": item["id"], "output_index": at, "delta": piece}
            )
        if kind == "function_call_arguments":
            await wire.event({"type": "response.output_item.done", "output_index": at, "item": item})
    await wire.event({"type": "response.completed", "response": {**response, "output": []}})
    await wire.end()


def _item(at: int, kind: str, name: str, text: str) -> dict[str, Any]:
    match kind:
        case "reasoning":
            content = [{"type": "reasoning_text", "text": text}]
            return {"type": "reasoning", "id": f"rs_{at}", "summary": [], "content": content}
        case "text":
            return {"type": "message", "id": f"msg_{at}", "content": [{"type": "output_text", "text": text}]}
        case _:
            return {"type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}", "name": name, "arguments": text}


@contextmanager
def provider_in_a_thread(*faults: str) -> Generator[str]:
    """A provider for another process: its address."""
    loop = asyncio.new_event_loop()
    ready: list[str] = []
    is_ready, may_stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(HarmonyProvider(faults).handle) as served:
            ready.append(served.url)
            is_ready.set()
            await may_stop.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert is_ready.wait(30)
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(may_stop.set)
        thread.join(30)
