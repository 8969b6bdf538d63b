"""Programs written for openai-harmony give the same with the drop-in, and go on where the reference stops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import harmonia
from harmonia import encode, openai_harmony
from tests.openai_harmony import programs
from tests.support.oracle_cases import compared
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding


TRACES: dict[str, str] = {
    trace["id"]: trace["raw"]
    for trace in map(json.loads, (ROOT / "tests" / "data" / "wild-traces.jsonl").read_text().splitlines())
}

REASONING = "<|channel|>analysis<|message|>They ask for Paris.<|end|><|start|>assistant"
CALL = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>'
COMPLETIONS = {
    "an answer": "<|channel|>final<|message|>Paris is the capital of France.<|return|>",
    "an answer without a channel": "<|message|>Hello.<|return|>",
    "reasoning and an answer": f"{REASONING}<|channel|>final<|message|>It is **sunny**.\n<|return|>",
    "a call": REASONING + CALL,
    "a call with its recipient first": f"{REASONING} to=functions.get_weather<|channel|>commentary json<|message|>"
    '{"city": "Paris", "unit": "celsius"}<|call|>',
    "a call with broken arguments": '<|channel|>commentary to=functions.get_weather<|message|>{"city": <|call|>',
    "a preamble and a call": f"{REASONING}<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant{CALL}",
    "two calls of one function": f"{CALL}<|start|>assistant{CALL}",
    "a call and its result": f"{REASONING}{CALL}<|start|>functions.get_weather to=assistant<|channel|>commentary"
    '<|message|>{"sunny": true}<|end|><|start|>assistant<|channel|>final<|message|>Sunny.<|return|>',
    "python": "<|channel|>analysis to=python code<|message|>import math\nprint(math.pi)\n<|call|>",
    "the browser": '<|channel|>analysis to=browser.search code<|message|>{"query": "Paris"}<|call|>',
    "characters of several tokens": "<|channel|>analysis<|message|>🦜, 日本語, 👩🏽‍🚀, e\u0301.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>こんにちは 🫠, naïve 🜁𒀀!<|return|>",
    "nothing said": "<|channel|>final<|message|><|return|>",
    "unfinished reasoning": "<|channel|>analysis<|message|>They ask",
    "an unfinished answer": f"{REASONING}<|channel|>final<|message|>It is",
    "unfinished arguments": REASONING + CALL.removesuffix('is"}<|call|>'),
    "an unfinished header": f"{REASONING}<|channel|>fi",
    "no header": REASONING,
    "nothing": "",
}
TOKENS: dict[str, list[int]] = {name: encode(text, special="all") for name, text in COMPLETIONS.items()}
TOKENS["half a character"] = [*TOKENS["an unfinished answer"], *encode("🜁")[:-1]]

USER = {"role": "user", "content": "Weather in Paris?"}
TOOL_CALL = {"id": "call_a", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
TURN_WITH_A_CALL: list[dict[str, Any]] = [
    USER,
    {"role": "assistant", "reasoning": "Look it up.", "content": "One moment.", "tool_calls": [TOOL_CALL]},
    {"role": "tool", "tool_call_id": "call_a", "content": '{"sunny": true}'},
]
# As a server of tools has it when choices of types became lists.
READ: dict[str, Any] = {
    "name": "read",
    "description": "Read a file.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": ["string"]}, "lines": {"type": ["integer", "string"], "default": 10}},
    },
}
REQUESTS: dict[str, dict[str, Any]] = {
    "a question": {"messages": [USER]},
    "effort, date and identity": {
        "effort": "high",
        "date": "2025-12-24",
        "identity": "You are Ada.",
        "instructions": "Speak like a pirate.",
        "messages": [{"role": "user", "content": [{"text": "Look: "}, {"text": "🦜 <|end|>"}]}],
    },
    "functions": {"tools": [programs.WEATHER], "effort": "low", "messages": [USER]},
    "built-in tools": {"builtin": ["browser", "python"], "tools": [programs.WEATHER], "messages": [USER]},
    "tools of servers": {
        "builtin": ["notebook"],
        "namespaces": [{"name": "files", "description": None, "tools": [READ]}, {"name": "clock", "tools": []}],
        "messages": [USER],
    },
    "a result": {"tools": [programs.WEATHER], "messages": TURN_WITH_A_CALL},
    "a second question": {
        "tools": [programs.WEATHER],
        "messages": [
            *TURN_WITH_A_CALL,
            {"role": "assistant", "reasoning": "Sunny.", "content": "It is sunny."},
            {"role": "developer", "content": "Answer in French."},
            {"role": "user", "content": "And Rome?"},
        ],
    },
    "a conversation that ends with an answer": {
        "messages": [USER, {"role": "assistant", "reasoning": "Sunny.", "content": "It is sunny."}]
    },
}


@pytest.fixture(scope="module")
def reference(reference_encoding: HarmonyEncoding) -> ModuleType:
    return import_module(type(reference_encoding).__module__)


@pytest.fixture(scope="module")
def tolerant() -> Iterator[ModuleType]:
    """The drop-in as it is imported under HARMONIA_TOLERANT: a second copy, because the variable is read once."""
    name = openai_harmony.__name__
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARMONIA_TOLERANT", "1")
        for module in [module for module in sys.modules if module.startswith(name)]:
            patch.delitem(sys.modules, module)
        patch.setattr(harmonia, "openai_harmony", None)
        copy = import_module(name)
        assert copy is not openai_harmony
        added = [module for module in sys.modules if module.startswith(name)]
        yield copy
        for module in added:
            del sys.modules[module]


class Raised(NamedTuple):
    kind: str
    message: str


def outcome(program: Any, harmony: ModuleType, given: Any) -> Any:
    """What a program gives, or what it raises; the classes of errors are not the same."""
    try:
        return program(harmony, given)
    except Exception as error:
        return Raised(type(error).__name__, str(error))


def raised(result: Any) -> Raised | None:
    return result if isinstance(result, Raised) else None


# ── well-formed: the same with both ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_request_becomes_the_same_prompt(reference: ModuleType, request_name: str) -> None:
    given = REQUESTS[request_name]
    theirs = programs.prompt_from_chat(reference, given)
    assert programs.prompt_from_chat(openai_harmony, given) == theirs
    assert theirs["text"].endswith("<|start|>assistant")
    compared("prompts that programs made of requests")


@pytest.mark.parametrize("completion", TOKENS)
@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_program_gives_the_same(reference: ModuleType, name: str, completion: str) -> None:
    program, tokens = programs.PROGRAMS[name], TOKENS[completion]
    theirs = outcome(program, reference, tokens)
    assert outcome(program, openai_harmony, tokens) == theirs
    # Only the end of a stream in a header is refused, so that the programs were run and not their errors compared.
    assert raised(theirs) is None or completion in ("an unfinished header", "no header", "nothing")
    compared(f"outputs of programs: {name}")


# ── broken: strict as the reference, tolerant without an error ──────────────────────────────────────────────────────


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_program_stops_at_what_the_reference_refuses(reference: ModuleType, name: str) -> None:
    program, refused = programs.PROGRAMS[name], 0
    for trace, text in TRACES.items():
        tokens = encode(text, special="all")
        theirs = raised(outcome(program, reference, tokens))
        assert raised(outcome(program, openai_harmony, tokens)) == theirs, trace
        refused += theirs is not None
    assert refused > 30
    compared(f"errors of programs: {name}", refused)


@pytest.mark.parametrize("trace", TRACES)
def test_no_program_fails_if_faults_are_tolerated(tolerant: ModuleType, trace: str) -> None:
    tokens = encode(TRACES[trace], special="all")
    for program in programs.PROGRAMS.values():
        json.dumps(program(tolerant, tokens))
    # Nor is anything lost by a server that sends what was added to messages.
    messages = programs.encoding_of(tolerant).parse_messages_from_completion_tokens(tokens, tolerant.Role.ASSISTANT)
    said = [(message.channel, message.recipient, message.content[0].text) for message in messages]
    assert _joined(programs.stream_by_difference(tolerant, tokens)) == [message for message in said if message[2]]


def _joined(deltas: Sequence[dict[str, Any]]) -> list[tuple[str | None, str | None, str]]:
    joined: list[tuple[str | None, str | None, str]] = []
    for _, group in groupby(deltas, lambda delta: delta["message"]):
        parts = list(group)
        joined.append((parts[-1]["channel"], parts[-1]["recipient"], "".join(part["text"] for part in parts)))
    return joined


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "role": "assistant", "text": text}


def answer(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "text": text}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": arguments}


BERLIN = 'We need to use the get_weather function. Provide city "Berlin".'
COUNT = '{"sql":"SELECT COUNT(*) AS product_count FROM products;"}'
GREETING = 'User says "Hello World!" Probably greeting. Should respond politely.'
# What a server answers, and what a client saw of it before: reasoning, content, calls.
EXPECTED: dict[str, tuple[list[dict[str, Any]], tuple[str, str, list[list[str]]]]] = {
    # The reference refuses these.
    "cap-13": (
        [thought(BERLIN), call("get_weather", '{"city":"Berlin"}')],
        (BERLIN, "", [["get_weather", '{"city":"Berlin"}']]),
    ),
    "rec-08": ([thought("x"), answer("42")], ("x", "42", [])),
    "x-08": ([call("read", '{"path":"SPEC.md"}')], ("", "", [["read", '{"path":"SPEC.md"}']])),
    "x-67": ([thought("thinking"), answer("done")], ("thinking", "done", [])),
    "x-68": (
        [call("database.tables", "{}"), call("database.run", COUNT)],
        ("", "", [["database.tables", "{}"], ["database.run", COUNT]]),
    ),
    # It makes a tool of these names, to which no program has one.
    "rec-23": (
        [thought("I'm\nthinking"), answer("Hello, world!\nWhat's up?")],
        ("I'm\nthinking", "Hello, world!\nWhat's up?", []),
    ),
    "x-01": ([call("query_dataset", '{"sql":"SELECT 1"}')], ("", "", [["query_dataset", '{"sql":"SELECT 1"}']])),
    # Text in a header is known for such when the message or the stream ends, and then comes whole. Who asks for the
    # last delta alone never sees it; with the reference, too, such a message has no delta.
    "rec-19": ([thought("thinking"), answer('{"answer": "hi"}')], ("thinking", "", [])),
    "cap-19": ([thought(GREETING), answer("Hello! 👋 How can I help you today?")], ("", "", [])),
}


@pytest.mark.parametrize("trace", EXPECTED)
def test_what_is_emitted_of_a_broken_completion(tolerant: ModuleType, trace: str) -> None:
    tokens = encode(TRACES[trace], special="all")
    output, (reasoning, content, calls) = EXPECTED[trace]
    assert programs.respond(tolerant, tokens)["output"] == output
    assert programs.joined_chat(tolerant, tokens) == {"reasoning": reasoning, "content": content, "calls": calls}


def test_a_call_with_a_broken_header_is_answered_and_the_loop_goes_on(tolerant: ModuleType) -> None:
    tokens = encode(TRACES["x-08"], special="all")
    expected = [
        ("assistant", None, "commentary", "functions.read", '{"path":"SPEC.md"}'),
        ("tool", "functions.read", "commentary", "assistant", '{"arguments": {"path": "SPEC.md"}}'),
        ("assistant", None, "analysis", None, "It is sunny."),
        ("assistant", None, "final", None, "Sunny, 22 °C."),
    ]
    for program in (programs.run_tools, programs.run_tools_with_one_parser):
        last = program(tolerant, tokens)["messages"][-4:]
        said = [
            (said["role"], said["name"], said["channel"], said.get("recipient"), said["content"][0]["text"])
            for said in last
        ]
        assert said == expected


def test_an_answer_is_read_by_a_parser_that_was_not_told_of_a_new_turn(
    reference: ModuleType, tolerant: ModuleType
) -> None:
    theirs, ours = (
        programs.run_tools_with_a_kept_parser(harmony, TOKENS["the browser"]) for harmony in (reference, tolerant)
    )
    assert theirs["refusal"] and not ours["refusal"]
    assert ours["output"][-2:] == [thought("It is sunny."), answer("Sunny, 22 °C.")]


# ── a program that nobody edits ─────────────────────────────────────────────────────────────────────────────────────

UNCHANGED_PROGRAM = """
import sys
from openai_harmony import HarmonyEncodingName, HarmonyError, Message, Role, SystemContent, load_harmony_encoding
import openai_harmony

encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
system = Message.from_role_and_content(Role.SYSTEM, SystemContent.new())
question = Message.from_role_and_content(Role.USER, "Weather?")
conversation = openai_harmony.Conversation.from_messages([system, question])
print(encoding.render_conversation_for_completion(conversation, Role.ASSISTANT))
parser = openai_harmony.StreamableParser(encoding, role=Role.ASSISTANT)
try:
    for token in encoding.encode(sys.argv[1], allowed_special="all"):
        parser.process(token)
        print(parser.current_channel, repr(parser.last_content_delta))
    parser.process_eos()
except HarmonyError as error:
    print("refused:", error)
print([message.to_json() for message in parser.messages])
"""
START_WITH_THE_DROP_IN = """
import runpy, sys, harmonia
harmonia.install_as_openai_harmony()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
WELL_FORMED, BROKEN = COMPLETIONS["a call"], TRACES["rec-08"]


@pytest.mark.parametrize(("completion", "is_tolerant"), [(WELL_FORMED, False), (BROKEN, False), (BROKEN, True)])
@pytest.mark.usefixtures("reference_encoding")
def test_an_unchanged_program_runs_with_the_drop_in(tmp_path: Path, completion: str, is_tolerant: bool) -> None:
    path = tmp_path / "program.py"
    path.write_text(UNCHANGED_PROGRAM)

    def run(*arguments: str, **variables: str) -> str:
        command = [sys.executable, *arguments, str(path), completion]
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8", **variables}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    # Without its vocabulary the original cannot run, so this is the drop-in.
    variables = {"TIKTOKEN_ENCODINGS_BASE": str(tmp_path), "HARMONIA_TOLERANT": str(int(is_tolerant))}
    theirs, ours = run(), run("-c", START_WITH_THE_DROP_IN, **variables)
    if is_tolerant:
        assert "refused:" in theirs and "refused:" not in ours
        assert ours.splitlines()[-1].count('"channel": "final"') == 1
    else:
        assert ours == theirs
