"""Grammars that are sent to vLLM and llama.cpp, and the stop token that they sample behind the end of one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import WrittenGrammar
from harmonia.run.engines import Request
from harmonia.vocabulary import CALL, END_OF_TEXT, RETURN, encode
from tests.support.engines.engine_protocols import LLAMA_CPP, VLLM, Protocol, completion_message, llama_cpp_end
from tests.support.servers.wire_servers import Asked, Heard, Wire, listen, serving

GBNF = WrittenGrammar("gbnf", 'root ::= "a"', ends_by_engine=True)
TAG = WrittenGrammar("xgrammar", '{"type":"structural_tag"}', ends_by_engine=True)


def converse(protocol: Protocol, messages: list[Any], request: Request, **options: Any) -> tuple[Heard, Asked]:
    async def run() -> tuple[Heard, Asked]:
        async def handle(asked: Asked, wire: Wire) -> None:
            await wire.begin(protocol.content_type)
            for message in messages:
                await wire.chunk(protocol.frame(message))
            await wire.end()

        async with serving(handle) as served:
            return await listen(protocol.open(served.url, **options), [200006, 173781], request), served.asked[0]

    return asyncio.run(run())


@pytest.mark.parametrize("end", [RETURN, CALL, END_OF_TEXT])
def test_llama_cpp_is_given_gbnf_and_its_stop_token_is_not_passed_on(end: int) -> None:
    said = encode("Hi there")
    messages = [*LLAMA_CPP.say([*said, end]), llama_cpp_end(len(said) + 1)]
    heard, asked = converse(LLAMA_CPP, messages, Request(grammar=GBNF))
    assert asked.body["grammar"] == GBNF.text
    assert heard.tokens == said
    assert heard.finish is not None and heard.finish.reason == "stop"


@pytest.mark.parametrize("end", [RETURN, CALL])
@pytest.mark.parametrize("is_named", [True, False])
def test_vllm_is_given_a_structural_tag_and_its_stop_token_is_not_passed_on(end: int, is_named: bool) -> None:
    said = encode("Hi there")
    last = completion_message(
        text="", token_ids=[] if is_named else [end], finish_reason="stop", stop_reason=end if is_named else None
    )
    messages = [*VLLM.say(said), last, b"[DONE]"]
    heard, asked = converse(VLLM, messages, Request(grammar=TAG), grammar=True)
    assert asked.body["structured_outputs"] == {"structural_tag": TAG.text}
    assert heard.tokens == said
    assert heard.finish is not None and heard.finish.reason == "stop"


def test_the_log_probability_of_a_stop_token_is_not_passed_on_either() -> None:
    logprobs = {"tokens": ["token_id:12", f"token_id:{CALL}"], "token_logprobs": [-1.0, -2.0], "top_logprobs": None}
    last = completion_message(text="", token_ids=[12, CALL], finish_reason="stop", logprobs=logprobs)
    heard, _ = converse(VLLM, [last, b"[DONE]"], Request(grammar=TAG), grammar=True)
    assert heard.tokens == [12]
    assert [each.token for chunk in heard.chunks for each in chunk.logprobs] == [12]


def test_without_a_grammar_nothing_is_said_of_one() -> None:
    _, asked = converse(VLLM, VLLM.finish(0), Request(), grammar=True)
    assert "structured_outputs" not in asked.body
    _, asked = converse(LLAMA_CPP, LLAMA_CPP.finish(0), Request())
    assert "grammar" not in asked.body


@pytest.mark.parametrize(("protocol", "grammar"), [(LLAMA_CPP, TAG), (VLLM, TAG), (VLLM, GBNF)])
def test_a_grammar_that_the_engine_does_not_take_is_refused(protocol: Protocol, grammar: WrittenGrammar) -> None:
    engine = protocol.open("http://127.0.0.1:1")
    assert engine.traits.takes_grammar != grammar.kind
    with pytest.raises(InputError) as caught:
        engine.generate([1], Request(grammar=grammar))
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION
