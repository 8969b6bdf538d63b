"""Small programs that use openai-harmony as servers, chats and tool loops use it.

Each takes the module, so that one program can be run with the reference and with the drop-in, and knows nothing of
which it got. They ask what such programs ask: what is current before and behind a token, whether there are more
messages than before, what is left over at the end. What they give is plain JSON values.

The patterns are those of vLLM (Chat Completions and Responses, streamed or not, a parser for each turn or for all), of
SGLang (which asks only behind each chunk, keeps its parser for the answer to a tool, and sets few channels in history)
and of gpt-oss (its server, its chat in a terminal and its tools). Nothing is copied from them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import groupby, takewhile
from types import ModuleType
from typing import Any

from pydantic import create_model, field_serializer

Json = dict[str, Any]
Program = Callable[[ModuleType, Sequence[int]], Any]

WEATHER: Json = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        },
        "required": ["city"],
    },
}
ANSWER_BEHIND_A_TOOL = (
    "<|channel|>analysis<|message|>It is sunny.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Sunny, 22 °C.<|return|>"
)


@cache
def encoding_of(harmony: ModuleType) -> Any:
    return harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


def parser_of(harmony: ModuleType) -> Any:
    return harmony.StreamableParser(encoding_of(harmony), role=harmony.Role.ASSISTANT)


def text_of(harmony: ModuleType, message: Any) -> str:
    return "".join(content.text for content in message.content if isinstance(content, harmony.TextContent))


def function_of(recipient: str | None) -> str | None:
    return recipient.removeprefix("functions.") if recipient and recipient.startswith("functions.") else None


# ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def system_message(harmony: ModuleType, request: Json) -> Any:
    content = harmony.SystemContent.new().with_conversation_start_date(request.get("date", "2025-08-05"))
    if "identity" in request:
        content = content.with_model_identity(request["identity"])
    if "effort" in request:
        efforts = harmony.ReasoningEffort
        content = content.with_reasoning_effort(
            {"low": efforts.LOW, "medium": efforts.MEDIUM, "high": efforts.HIGH}[request["effort"]]
        )
    if "browser" in request.get("builtin", ()):
        content = content.with_tools(harmony.ToolNamespaceConfig.browser())
    if "python" in request.get("builtin", ()):
        content = content.with_tools(
            harmony.ToolNamespaceConfig(name="python", description="Runs a script, without memory.", tools=[])
        )
    if "notebook" in request.get("builtin", ()):
        content = content.with_tools(harmony.ToolNamespaceConfig.python())
    for namespace in request.get("namespaces", ()):
        # As a server of tools describes itself.
        tools = [harmony.ToolDescription.new(**tool) for tool in namespace["tools"]]
        content = content.with_tools(harmony.ToolNamespaceConfig(**{**namespace, "tools": tools}))
    if not request.get("tools"):
        # Nothing can be called on commentary.
        channels = [channel for channel in content.channel_config.valid_channels if channel != "commentary"]
        content = content.with_channel_config(harmony.ChannelConfig.require_channels(channels))
    return harmony.Message.from_role_and_content(harmony.Role.SYSTEM, content)


def developer_message(harmony: ModuleType, request: Json) -> Any:
    content = harmony.DeveloperContent.new()
    if "instructions" in request:
        content = content.with_instructions(request["instructions"])
    if request.get("tools"):
        content = content.with_function_tools([harmony.ToolDescription.new(**tool) for tool in request["tools"]])
    return harmony.Message.from_role_and_content(harmony.Role.DEVELOPER, content)


def messages_from_chat(harmony: ModuleType, chat: Json, names: dict[str, str]) -> list[Any]:
    """What a message of Chat Completions is; `names` knows the function of each call so far."""
    author, make = harmony.Author, harmony.Message
    content = chat.get("content") or ""
    if chat["role"] == "tool":
        result = make.from_author_and_content(
            author.new(harmony.Role.TOOL, f"functions.{names[chat['tool_call_id']]}"), content
        )
        return [result.with_channel("commentary").with_recipient("assistant")]
    if chat["role"] == "assistant":
        messages: list[Any] = []
        if "reasoning" in chat:
            messages.append(
                make.from_role_and_content(harmony.Role.ASSISTANT, chat["reasoning"]).with_channel("analysis")
            )
        if content:
            channel = "commentary" if chat.get("tool_calls") else "final"
            messages.append(make.from_role_and_content(harmony.Role.ASSISTANT, content).with_channel(channel))
        for call in chat.get("tool_calls", []):
            names[call["id"]] = call["function"]["name"]
            messages.append(
                make.from_role_and_content(harmony.Role.ASSISTANT, call["function"]["arguments"])
                .with_channel("commentary")
                .with_recipient(f"functions.{call['function']['name']}")
                .with_content_type("json")
            )
        return messages
    parts = [content] if isinstance(content, str) else [part["text"] for part in content]
    # The role is given as the text that came with the request.
    return [make.from_role_and_contents(chat["role"], [harmony.TextContent(text=part) for part in parts])]


def prompt_from_chat(harmony: ModuleType, request: Json) -> Json:
    """A request to Chat Completions, as an engine gets it."""
    encoding = encoding_of(harmony)
    messages = [system_message(harmony, request), developer_message(harmony, request)]
    names: dict[str, str] = {}
    for chat in request["messages"]:
        messages += messages_from_chat(harmony, chat, names)
    conversation = harmony.Conversation.from_messages(messages)
    everything = harmony.RenderConversationConfig(auto_drop_analysis=False)
    tokens = encoding.render_conversation_for_completion(conversation, harmony.Role.ASSISTANT)
    return {
        "prompt_token_ids": tokens,
        "text": encoding.decode(tokens),
        "with_all_reasoning": encoding.render_conversation_for_completion(
            conversation, harmony.Role.ASSISTANT, config=everything
        ),
        "for_training": encoding.render_conversation_for_training(conversation),
        # The reference gives them in any order.
        "stop_token_ids": sorted(encoding.stop_tokens_for_assistant_actions()),
    }


def message_from_item(harmony: ModuleType, item: Json, names: dict[str, str]) -> Any:
    """What an item of Responses is."""
    make, role = harmony.Message, harmony.Role
    match item["type"]:
        case "reasoning":
            return make.from_role_and_content(role.ASSISTANT, item["text"]).with_channel("analysis")
        case "function_call":
            names[item["call_id"]] = item["name"]
            call = make.from_role_and_content(role.ASSISTANT, item["arguments"]).with_channel("commentary")
            return call.with_recipient(f"functions.{item['name']}").with_content_type("<|constrain|>json")
        case "function_call_output":
            author = harmony.Author(role=role.TOOL, name=f"functions.{names[item['call_id']]}")
            return make(author=author, content=[harmony.TextContent(text=item["output"])]).with_recipient("assistant")
        case _:
            message = make.from_role_and_content(role(item["role"]), item["text"])
            return message.with_channel("final") if item["role"] == "assistant" else message


def prompt_from_items(harmony: ModuleType, request: Json, items: Iterable[Json]) -> list[int]:
    names: dict[str, str] = {}
    messages = [system_message(harmony, request), developer_message(harmony, request)]
    messages += [message_from_item(harmony, item, names) for item in items]
    return encoding_of(harmony).render_conversation_for_completion(
        harmony.Conversation.from_messages(messages), harmony.Role.ASSISTANT
    )


def message_as_given(harmony: ModuleType, item: Json) -> Any:
    """What an item of Responses is to a server that sets a channel and a recipient for calls only."""
    make, role = harmony.Message, harmony.Role
    match item["type"]:
        case "reasoning":
            return make.from_role_and_content(role.ASSISTANT, item["text"])
        case "function_call":
            call = make.from_role_and_content(role.ASSISTANT, item["arguments"])
            return call.with_channel("commentary").with_recipient(item["name"]).with_content_type("json")
        case "function_call_output":
            return make.from_author_and_content(harmony.Author.new(role.TOOL, item["name"]), item["output"])
        case _ if isinstance(item["text"], str):
            return make.from_role_and_content(item["role"], item["text"])
        case _:
            return make.from_role_and_contents(item["role"], [harmony.TextContent(text=text) for text in item["text"]])


# The last question was a picture, of which no text is left.
FURTHER_ITEMS: list[Json] = [
    {"type": "reasoning", "text": "Rome is next."},
    {"type": "function_call", "name": "functions.get_weather", "arguments": '{"city": "Rome"}'},
    {"type": "function_call_output", "name": "functions.get_weather", "output": '{"sunny": false}'},
    {"type": "message", "role": "assistant", "text": ["It rains", " in Rome."]},
    {"type": "message", "role": "developer", "text": "Instructions:\nAnswer in French."},
    {"type": "message", "role": "user", "text": "And Oslo?"},
    {"type": "message", "role": "user", "text": []},
]


def prompt_from_store(harmony: ModuleType, stored: list[Any]) -> list[int]:
    """The prompt that goes on from stored messages. Reasoning of the last turn is taken out if it had an answer."""
    if stored[-1].channel == "final":
        answers = [place for place, message in enumerate(stored[:-1]) if message.channel == "final"]
        turn = answers[-1] + 1 if answers else 0
        stored[turn:] = [message for message in stored[turn:] if message.channel != "analysis"]
    stored += [message_as_given(harmony, item) for item in FURTHER_ITEMS]
    conversation = harmony.Conversation.from_messages(stored)
    return encoding_of(harmony).render_conversation_for_completion(conversation, harmony.Role.ASSISTANT)


# ── servers that stream ─────────────────────────────────────────────────────────────────────────────────────────────


def stream_chat(harmony: ModuleType, tokens: Sequence[int], tokens_at_once: int = 1) -> list[Json]:
    """The deltas of Chat Completions. An engine may hand over several tokens at once; a call begins where the
    recipient is another one than before."""
    parser = parser_of(harmony)
    deltas: list[Json] = [{"role": "assistant"}]
    calls = -1
    for start in range(0, len(tokens), tokens_at_once):
        recipient_before = parser.current_recipient
        states: list[tuple[str | None, str | None, str]] = []
        for token in tokens[start : start + tokens_at_once]:
            parser.process(token)
            states.append((parser.current_channel, parser.current_recipient, parser.last_content_delta or ""))
        delta: Json = {}
        for (channel, recipient), group in groupby(states, lambda state: state[:2]):
            text = "".join(state[2] for state in group)
            name = function_of(recipient)
            if name is not None:
                if recipient != recipient_before:
                    calls += 1
                    call: Json = {"index": calls, "id": f"call_{calls}", "name": name, "arguments": text}
                    delta.setdefault("tool_calls", []).append(call)
                elif text:
                    delta.setdefault("tool_calls", []).append({"index": calls, "arguments": text})
            elif text:
                shown = channel == "final" or (channel == "commentary" and recipient is None)
                kind = "content" if shown else "reasoning"
                delta[kind] = delta.get(kind, "") + text
            recipient_before = recipient
        if delta:
            deltas.append(delta)
    return [*deltas, {"finish_reason": "stop" if calls < 0 else "tool_calls"}]


def joined_chat(harmony: ModuleType, tokens: Sequence[int]) -> Json:
    """What a client makes of the deltas."""
    joined: Json = {"reasoning": "", "content": "", "calls": []}
    for delta in stream_chat(harmony, tokens):
        for kind in ("reasoning", "content"):
            joined[kind] += delta.get(kind, "")
        for call in delta.get("tool_calls", []):
            if "name" in call:
                joined["calls"].append([call["name"], ""])
            joined["calls"][call["index"]][1] += call["arguments"]
    return joined


def item_of(message: Any) -> Json:
    """An item of Responses, from what the message says as JSON."""
    said = message.to_dict()
    recipient = said.get("recipient", "")
    text = "".join(content["text"] for content in said["content"])
    if said["role"] != "assistant":
        return {"type": "ignored", "role": said["role"], "name": said["name"], "text": text}
    name = function_of(recipient)
    if name is not None:
        return {"type": "function_call", "name": name, "arguments": text}
    if recipient.startswith("browser."):
        return {"type": "web_search_call", "action": recipient.removeprefix("browser."), "arguments": text}
    if recipient == "python":
        return {"type": "code_interpreter_call", "code": text}
    if recipient not in ("", "assistant"):
        return {"type": "mcp_call", "name": recipient, "arguments": text}
    kind = {"final": "message", "analysis": "reasoning"}.get(said.get("channel", ""), "commentary")
    return {"type": kind, "role": "assistant", "text": text}


def stream_response(harmony: ModuleType, tokens: Sequence[int]) -> list[Json]:
    """The events of Responses. An item is done where the parser waits for the next message."""
    encoding, parser = encoding_of(harmony), parser_of(harmony)
    events: list[Json] = []
    taken: list[int] = []
    is_added, done = False, 0
    for token in tokens:
        taken.append(token)
        parser.process(token)
        if parser.state == harmony.StreamState.EXPECT_START and len(parser.messages) > done:
            events.append({"type": "item.done", "index": done, "item": item_of(parser.messages[-1])})
            is_added, done = False, len(parser.messages)
        if parser.last_content_delta:
            if not is_added:
                is_added = True
                events.append({"type": "item.added", "channel": parser.current_channel, "to": parser.current_recipient})
            events.append({"type": "delta", "delta": parser.last_content_delta})
        if token in encoding.stop_tokens_for_assistant_actions():
            break
    entries = encoding.parse_messages_from_completion_tokens(taken, harmony.Role.ASSISTANT)
    return [*events, {"type": "completed", "output": [item_of(entry) for entry in entries]}]


def poll_messages(harmony: ModuleType, tokens: Sequence[int]) -> list[Json]:
    """Everything that can be asked behind each token, and the message that the end of the stream finished."""
    parser = parser_of(harmony)
    segments: list[Json] = []
    seen = 0

    def note() -> None:
        nonlocal seen
        messages = parser.messages
        segments.append(
            {
                "state": parser.state.value,
                "role": parser.current_role,
                "channel": parser.current_channel,
                "recipient": parser.current_recipient,
                "content_type": parser.current_content_type,
                "content": parser.current_content,
                "delta": parser.last_content_delta,
                "completed": [message.to_dict() for message in messages[seen:]],
            }
        )
        seen = len(messages)

    for token in tokens:
        parser.process(token)
        note()
    try:
        parser.process_eos()
    except harmony.HarmonyError as error:
        segments.append({"error": str(error)})
    note()
    assert parser.tokens == list(tokens)
    return segments


def stream_by_difference(harmony: ModuleType, tokens: Sequence[int]) -> list[Json]:
    """What each message has more than was sent of it, be it still read or ended; nothing that comes whole is missed."""
    parser = parser_of(harmony)
    deltas: list[Json] = []
    ended = sent_chars = 0

    def send(channel: str | None, recipient: str | None, content: str) -> None:
        nonlocal sent_chars
        if sent_chars < len(content):
            delta = {"message": ended, "channel": channel, "recipient": recipient, "text": content[sent_chars:]}
            deltas.append(delta)
            sent_chars = len(content)

    def send_messages() -> None:
        nonlocal ended, sent_chars
        for message in parser.messages[ended:]:
            send(message.channel, message.recipient, text_of(harmony, message))
            ended, sent_chars = ended + 1, 0

    for token in tokens:
        parser.process(token)
        send_messages()
        send(parser.current_channel, parser.current_recipient, parser.current_content)
    with suppress(harmony.HarmonyError):
        parser.process_eos()
    send_messages()
    return deltas


def print_chat(harmony: ModuleType, tokens: Sequence[int]) -> str:
    """A chat in a terminal: a title before the first text of a message, a line behind the last; then the raw text."""
    encoding, parser = encoding_of(harmony), parser_of(harmony)
    printed, has_title = "", False
    for token in tokens:
        parser.process(token)
        if parser.state == harmony.StreamState.EXPECT_START:
            printed += "\n"
            has_title = False
        if not parser.last_content_delta:
            continue
        if not has_title:
            has_title = True
            if parser.current_channel == "final":
                printed += "Assistant: "
            elif parser.current_recipient is not None:
                printed += f"Call of {parser.current_recipient}: "
            else:
                printed += "Thinking: "
        printed += parser.last_content_delta
    return printed + "\n" + "".join(encoding.decode([token]) for token in tokens)


# ── servers that wait ───────────────────────────────────────────────────────────────────────────────────────────────


def split_completion(harmony: ModuleType, tokens: Sequence[int]) -> Json:
    """Reasoning, calls and answer of a whole completion, with what is left over of a message that did not end."""
    parser = parser_of(harmony)
    for token in tokens:
        parser.process(token)
    found = [(message.channel, message.recipient, text_of(harmony, message)) for message in parser.messages]
    is_complete = not parser.current_content
    if not is_complete and parser.current_role == harmony.Role.ASSISTANT:
        found.append((parser.current_channel, parser.current_recipient, parser.current_content))
    split: Json = {"reasoning": "", "content": "", "calls": [], "is_complete": is_complete}
    for channel, recipient, text in found:
        name = function_of(recipient)
        if name is not None:
            split["calls"].append([name, text])
        else:
            shown = channel == "final" or (channel == "commentary" and recipient is None)
            split["content" if shown else "reasoning"] += text
    return split


def respond(harmony: ModuleType, tokens: Sequence[int]) -> Json:
    """A response, kept as items and made a prompt again when the client goes on from it."""
    encoding = encoding_of(harmony)
    entries = encoding.parse_messages_from_completion_tokens(tokens, role=harmony.Role.ASSISTANT)
    output = [item_of(entry) for entry in entries]
    follow_up: list[Json] = [{"type": "message", "role": "user", "text": "Weather in Paris?"}]
    for number, item in enumerate(output):
        if item["type"] in ("reasoning", "message"):
            follow_up.append(item)
        elif item["type"] == "function_call":
            call_id = f"call_{number}"
            follow_up.append({**item, "call_id": call_id})
            follow_up.append({"type": "function_call_output", "call_id": call_id, "output": '{"sunny": true}'})
    try:
        debug = encoding.decode_utf8(tokens)
    except harmony.HarmonyError as error:
        debug = str(error)
    return {
        "output": output,
        "next_prompt": prompt_from_items(harmony, {"tools": [WEATHER], "effort": "high"}, follow_up),
        "debug": debug,
    }


def _to_dicts(self: Any, messages: list[Any]) -> list[Json]:
    return [message.to_dict() for message in messages]


def keep_history(harmony: ModuleType, tokens: Sequence[int]) -> Json:
    """A store: messages in a pydantic model of the program's own, written as JSON and read again."""
    encoding = encoding_of(harmony)
    entries = encoding.parse_messages_from_completion_tokens(tokens, harmony.Role.ASSISTANT)
    # The model is made by hand, because the classes are not known before.
    listed: Any = list.__class_getitem__(harmony.Message)
    writing: Any = {"write": field_serializer("messages", return_type=list[Json])(_to_dicts)}
    stored_type: Any = create_model(
        "Stored", __validators__=writing, id=(str, ...), messages=(listed, ...), last=(harmony.Author, ...)
    )
    stored = stored_type(id="resp_1", messages=list(entries), last=harmony.Author(role="tool", name="python"))
    written = stored.model_dump_json()
    restored = [harmony.Message.from_dict(message) for message in json.loads(written)["messages"]]
    assert restored == list(entries)
    conversation = harmony.Conversation.from_messages(restored)
    again = harmony.Conversation.from_json(conversation.to_json())
    assert again == conversation and list(again) == restored
    return {
        "written": written,
        "dump": stored.model_dump(),
        # The reference's own model_dump writes no contents.
        "messages": [message.model_dump(exclude={"content"}) for message in restored],
        "authors": [message.author.model_dump(mode="json") for message in restored],
        "rendered": encoding.render_conversation(again),
        "each": [encoding.render(message) for message in restored],
    }


# ── loops of calls ──────────────────────────────────────────────────────────────────────────────────────────────────


def opening(harmony: ModuleType) -> list[Any]:
    request: Json = {"tools": [WEATHER], "effort": "low", "builtin": ["browser", "python"], "instructions": "Be brief."}
    question = harmony.Message.from_role_and_content(harmony.Role.USER, "Weather in Paris?")
    return [system_message(harmony, request), developer_message(harmony, request), question]


def result_of_call(harmony: ModuleType, call: Any) -> Any:
    """The answer of a tool, to a call whose arguments may be broken."""
    text = text_of(harmony, call)
    if call.recipient == "python":
        output = f"ran {len(text)} characters"
    else:
        try:
            output = json.dumps({"arguments": json.loads(text)})
        except json.JSONDecodeError as error:
            output = f"The arguments are no JSON: {error}"
    # The recipient is given as the enum, as some programs do.
    return harmony.Message(
        author=harmony.Author.new(harmony.Role.TOOL, call.recipient),
        content=[harmony.TextContent(text=output)],
        recipient=harmony.Role.ASSISTANT,
        channel=call.channel,
    )


def run_tools(harmony: ModuleType, tokens: Sequence[int]) -> Json:
    """A parser for each turn; what it read is added to the conversation, which is rendered again."""
    encoding = encoding_of(harmony)
    messages, prompts = opening(harmony), list[list[int]]()
    for completion in (tokens, encoding.encode(ANSWER_BEHIND_A_TOOL, allowed_special="all")):
        conversation = harmony.Conversation.from_messages(messages)
        prompts.append(encoding.render_conversation_for_completion(conversation, harmony.Role.ASSISTANT))
        parser = parser_of(harmony)
        for token in completion:
            parser.process(token)
        messages += parser.messages
        last = messages[-1]
        if last.author.role != "assistant" or last.recipient is None:
            break
        messages.append(result_of_call(harmony, last))
    return {"prompts": prompts, "messages": [message.to_dict() for message in messages]}


def run_tools_with_one_parser(harmony: ModuleType, tokens: Sequence[int]) -> Json:
    """One parser for all turns: it is also fed the tool's answer as rendered, and the beginning of the next turn."""
    encoding, parser = encoding_of(harmony), parser_of(harmony)
    messages = opening(harmony)
    before = len(messages)
    channels: list[str | None] = []
    last_token = -1

    def take(taken: Iterable[int]) -> None:
        nonlocal last_token
        for token in taken:
            parser.process(token)
            last_token = token
            channels.append(parser.current_channel)
            messages.extend(parser.messages[len(messages) - before :])

    take(tokens)
    is_calling = last_token in encoding.stop_tokens_for_assistant_actions() and messages[-1].recipient is not None
    if is_calling and parser.state == harmony.StreamState.EXPECT_START:
        take(encoding.render(result_of_call(harmony, messages[-1])))
        prompt = encoding.render_conversation_for_completion(
            harmony.Conversation.from_messages(messages), harmony.Role.ASSISTANT
        )
        take(prompt[-2:])
        take(encoding.encode(ANSWER_BEHIND_A_TOOL, allowed_special="all"))
    return {"channels": channels, "messages": [message.to_dict() for message in messages[before:]]}


def is_builtin(recipient: str | None) -> bool:
    return recipient is not None and recipient.startswith(("browser.", "python"))


def left_over(harmony: ModuleType, parser: Any) -> list[str]:
    """The channel and the text of a message that did not end; arguments of a call are of no use."""
    if not parser.current_content or parser.current_role != harmony.Role.ASSISTANT:
        return []
    if is_builtin(parser.current_recipient) or parser.current_channel not in ("analysis", "final"):
        return []
    return [parser.current_channel, parser.current_content]


def stream_chunks_and_run_tools(harmony: ModuleType, tokens: Sequence[int], tokens_at_once: int = 4) -> Json:
    """One parser for all turns, asked only behind each chunk; the conversation is nothing but what it read."""
    encoding, parser = encoding_of(harmony), parser_of(harmony)
    events: list[Json] = []
    prompt: list[int] = []

    def take(completion: Sequence[int]) -> None:
        for start in range(0, len(completion), tokens_at_once):
            for token in completion[start : start + tokens_at_once]:
                parser.process(token)
            if parser.state == harmony.StreamState.EXPECT_START and len(parser.messages) > 0:
                events.append({"done": item_of(parser.messages[-1])})
            if parser.last_content_delta:
                events.append(
                    {
                        "delta": parser.last_content_delta,
                        "channel": parser.current_channel,
                        "to": parser.current_recipient,
                    }
                )

    take(tokens)
    if parser.messages and is_builtin(parser.messages[-1].recipient):
        author = harmony.Author(role=harmony.Role.TOOL, name=parser.messages[-1].recipient)
        result = harmony.Message.from_author_and_content(author, "Nothing was found.")
        if result.author.role == harmony.Role.TOOL and result.recipient is None:
            result.recipient = "assistant"
        rendered = encoding.render(result)
        for token in rendered:
            parser.process(token)
        prompt = encoding.render_conversation_for_completion(
            harmony.Conversation.from_messages(parser.messages), harmony.Role.ASSISTANT
        )
        # What the prompt has behind the result begins the next turn.
        for token in reversed(list(takewhile(lambda token: token != rendered[-1], reversed(prompt)))):
            parser.process(token)
        take(encoding.encode(ANSWER_BEHIND_A_TOOL, allowed_special="all"))
    output = [item_of(message) for message in parser.messages]
    return {"events": events, "prompt": prompt, "output": output, "left_over": left_over(harmony, parser)}


def run_tools_with_a_kept_parser(harmony: ModuleType, tokens: Sequence[int]) -> Json:
    """The answer to a tool is read by the parser of the call, which was not told that a turn begins: the reference
    refuses that. Nor is it seen that the parser gives the messages of the first turn again."""
    encoding, parser = encoding_of(harmony), parser_of(harmony)
    messages = opening(harmony)
    before, refusal = len(messages), ""
    for token in tokens:
        parser.process(token)
    messages.extend(parser.messages)
    if is_builtin(messages[-1].recipient):
        messages.append(result_of_call(harmony, messages[-1]))
        try:
            for token in encoding.encode(ANSWER_BEHIND_A_TOOL, allowed_special="all"):
                parser.process(token)
        except harmony.HarmonyError as error:
            refusal = str(error)
        messages.extend(parser.messages)
    return {
        "output": [item_of(message) for message in messages[before:]],
        "left_over": left_over(harmony, parser),
        "refusal": refusal,
        "next_prompt": prompt_from_store(harmony, messages),
    }


PROGRAMS: dict[str, Program] = {
    "stream_chat": stream_chat,
    "stream_chat, three tokens at once": partial(stream_chat, tokens_at_once=3),
    "joined_chat": joined_chat,
    "stream_response": stream_response,
    "poll_messages": poll_messages,
    "stream_by_difference": stream_by_difference,
    "print_chat": print_chat,
    "split_completion": split_completion,
    "respond": respond,
    "keep_history": keep_history,
    "run_tools": run_tools,
    "run_tools_with_one_parser": run_tools_with_one_parser,
    "stream_chunks_and_run_tools": stream_chunks_and_run_tools,
    "run_tools_with_a_kept_parser": run_tools_with_a_kept_parser,
}
