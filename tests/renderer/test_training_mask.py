"""The loss mask: which tokens the model should be trained to produce."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from harmonia import Conversation, ErrorCode, InputError, Message, TrainOn, decode, encode, render
from harmonia.provenance import Sampled
from tests.support.repeated import repeated
from tests.support.strategies.conversations import conversations

QUESTION = Message.user("Weather?")
THOUGHT = Message.assistant("Call it.", channel="analysis")
CALL = Message.call("functions.w", "{}")
RESULT = Message.tool("functions.w", "20 C")
ANSWER = Message.assistant("20 C.")
TWO_TURNS = Conversation([Message.system(), QUESTION, THOUGHT, CALL, RESULT, ANSWER, QUESTION, THOUGHT, ANSWER])


def trained_on(conversation: Conversation | list[Message], **options: Any) -> list[str]:
    """The stretches that are trained on, as text."""
    rendered = render(conversation, training=True, train_on=TrainOn(**options))
    stretches: list[list[int]] = [[]]
    for token, trained in zip(rendered.tokens, rendered.mask, strict=True):
        if trained:
            stretches[-1].append(token)
        elif stretches[-1]:
            stretches.append([])
    return [decode(stretch) for stretch in stretches if stretch]


def test_what_the_prompt_gives_is_not_trained_on_and_the_stop_is() -> None:
    assert trained_on([QUESTION, ANSWER]) == ["<|channel|>final<|message|>20 C.<|return|>"]


def test_after_end_the_model_writes_the_next_start_itself() -> None:
    assert trained_on([QUESTION, THOUGHT, ANSWER]) == [
        "<|channel|>analysis<|message|>Call it.<|end|><|start|>assistant<|channel|>final<|message|>20 C.<|return|>"
    ]


def test_after_a_call_a_new_prompt_begins() -> None:
    assert trained_on([QUESTION, THOUGHT, CALL, RESULT, ANSWER]) == [
        "<|channel|>analysis<|message|>Call it.<|end|>"
        "<|start|>assistant to=functions.w<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
        "<|channel|>final<|message|>20 C.<|return|>",
    ]


def test_the_end_of_an_earlier_answer_is_not_what_the_model_should_say() -> None:
    assert trained_on([QUESTION, ANSWER, QUESTION, ANSWER]) == [
        "<|channel|>final<|message|>20 C.",
        "<|channel|>final<|message|>20 C.<|return|>",
    ]


def test_a_call_stored_with_end_is_not_trained_to_end_so() -> None:
    rendered = render([QUESTION, CALL, RESULT], training=True, call_stop="end")
    span = rendered.spans[1]
    assert rendered.mask[span.stop_token - 1 : span.stop_token + 1] == [True, False]


def test_the_model_is_not_taught_to_go_on_after_an_answer() -> None:
    assert trained_on([QUESTION, ANSWER, ANSWER]) == [
        "<|channel|>final<|message|>20 C.",
        "<|channel|>final<|message|>20 C.<|return|>",
    ]


def test_calls_in_a_row_are_prompted_one_by_one() -> None:
    body = " to=functions.w<|channel|>commentary <|constrain|>json<|message|>{}"
    assert trained_on([QUESTION, CALL, CALL]) == [f"{body}<|call|>", f"{body}<|call|>"]
    rendered = render([QUESTION, CALL, CALL], training=True, call_stop="end")
    first, second = rendered.spans[1:]
    assert not rendered.mask[first.stop_token] and not rendered.mask[second.start_token]


@pytest.mark.parametrize("stop", ["", "<|return|>"])
def test_a_stop_that_the_model_did_not_write_is_not_trained_on(stop: str) -> None:
    tokens = encode(f"<|start|>assistant<|channel|>analysis<|message|>Hm{stop}", special="all")
    thought = Message.assistant("Hm", channel="analysis").with_origin(None, Sampled(tuple(tokens), 2, 5))
    rendered = render([QUESTION, thought, ANSWER], training=True)
    thought_span, answer_span = rendered.spans[1:]
    assert rendered.mask[thought_span.body_token] and not rendered.mask[thought_span.stop_token]
    assert not rendered.mask[answer_span.start_token]


def test_a_sampled_answer_is_trained_to_end_with_return() -> None:
    tokens = encode("<|start|>assistant<|channel|>final<|message|>4<|return|>", special="all")
    answer = Message.assistant("4").with_origin(None, Sampled(tuple(tokens), 2, 5))
    assert trained_on([QUESTION, answer]) == ["<|channel|>final<|message|>4<|return|>"]


def test_any_iterable_will_do() -> None:
    chosen = TrainOn(channels=(channel for channel in ["final"]), roles=iter(["assistant"]))  # pyright: ignore[reportArgumentType] -- lenient
    assert chosen == TrainOn(channels={"final"}, roles={"assistant"})


def test_a_recipient_in_the_role_section_is_the_models() -> None:
    assert trained_on([QUESTION, CALL])[0].startswith(" to=functions.w<|channel|>")


def test_channels_can_be_chosen() -> None:
    assert trained_on([QUESTION, THOUGHT, ANSWER], channels={"final"}) == [
        "<|start|>assistant<|channel|>final<|message|>20 C.<|return|>"
    ]
    assert trained_on([QUESTION, THOUGHT, ANSWER], channels={"analysis"}) == [
        "<|channel|>analysis<|message|>Call it.<|end|>"
    ]


def test_turns_can_be_chosen() -> None:
    everything = trained_on(TWO_TURNS)
    assert len(everything) == 3
    assert trained_on(TWO_TURNS, turns="last") == everything[2:]
    assert trained_on(TWO_TURNS, turns={-1}) == everything[2:]
    assert trained_on(TWO_TURNS, turns={0}) == everything[:2]
    assert trained_on(TWO_TURNS, turns={0, 1}) == everything
    assert trained_on(TWO_TURNS, turns={7}) == []


def test_user_messages_in_a_row_are_one_turn() -> None:
    assert trained_on([QUESTION, QUESTION, ANSWER], turns={0}) == ["<|channel|>final<|message|>20 C.<|return|>"]


def test_other_roles_can_be_chosen() -> None:
    assert trained_on([QUESTION, ANSWER], roles={"user"}) == ["<|message|>Weather?<|end|>"]
    assert trained_on([QUESTION, CALL, RESULT], roles={"tool"}) == [
        " to=assistant<|channel|>commentary<|message|>20 C<|end|>"
    ]


@pytest.mark.parametrize("options", [{"roles": "assistant"}, {"channels": "final"}, {"turns": "first"}])
def test_a_string_is_no_collection(options: Any) -> None:
    with pytest.raises(InputError) as caught:
        TrainOn(**options)
    assert caught.value.code is ErrorCode.RENDER_INVALID_OPTION


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        TrainOn(roles={"robot"})
    assert caught.value.code is ErrorCode.RENDER_INVALID_OPTION


@repeated(given(conversations), some=30, many=150)
def test_the_mask_covers_whole_bodies_of_assistant_messages_and_nothing_of_others(conversation: Conversation) -> None:
    rendered = render(conversation, training=True)
    mask = rendered.mask
    assert len(mask) == len(rendered.tokens)
    for message, span in zip(conversation, rendered.spans, strict=True):
        body = mask[span.body_token - 1 : span.stop_token]
        if message.role == "assistant":
            assert all(body)
        else:
            assert not any(mask[span.start_token : span.end_token])
