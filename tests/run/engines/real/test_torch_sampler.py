"""The sampler against the processors of transformers, which are the oracle."""

from __future__ import annotations

import importlib
import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.run.engines.base import Sampling, check_sampling
from harmonia.run.engines.transformers.sampler import TorchSampler

pytestmark = [pytest.mark.engines, pytest.mark.usefixtures("engines_installed")]

# Distinct scores, so that nothing depends on how ties are broken.
scores_of_some_tokens = st.lists(
    st.integers(-400, 400).map(lambda number: number / 20), min_size=1, max_size=40, unique=True
)


def sampler(prompt: list[int] | None = None, **sampling: Any) -> TorchSampler:
    return TorchSampler(importlib.import_module("torch"), Sampling(**sampling), prompt or [])


def tensor(values: list[float]) -> Any:
    torch: Any = importlib.import_module("torch")
    return torch.tensor(values)


def narrowed(values: list[float], **sampling: Any) -> list[float]:
    """The chances of the tokens, as they are sampled from."""
    return sampler(**sampling)._narrow(tensor(values)).tolist()  # pyright: ignore[reportPrivateUsage]


def narrowed_by_transformers(values: list[float], temperature: float, processors: list[tuple[str, Any]]) -> list[float]:
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    scores = tensor(values)[None] / temperature
    for name, value in processors:
        scores = getattr(transformers, name)(value)(torch.zeros((1, 0), dtype=torch.long), scores)
    return scores.softmax(dim=-1)[0].tolist()


@given(
    values=scores_of_some_tokens,
    temperature=st.floats(0.2, 3),
    top_k=st.none() | st.integers(1, 50),
    top_p=st.none() | st.integers(1, 99).map(lambda percent: percent / 100),
)
def test_top_k_and_top_p_leave_the_tokens_that_transformers_leaves(
    values: list[float], temperature: float, top_k: int | None, top_p: float | None
) -> None:
    processors: list[tuple[str, Any]] = []
    if top_k is not None:
        processors.append(("TopKLogitsWarper", min(top_k, len(values))))
    if top_p is not None:
        processors.append(("TopPLogitsWarper", top_p))
    expected = narrowed_by_transformers(values, temperature, processors)
    given_chances = narrowed(values, temperature=temperature, top_k=top_k, top_p=top_p)
    total = sum(given_chances)
    # A chance on the edge of top_p falls to either side by the order of addition; the others must agree.
    if not is_on_the_edge(values, temperature, top_k, top_p):
        assert [chance / total for chance in given_chances] == pytest.approx(expected, abs=1e-5)


def is_on_the_edge(values: list[float], temperature: float, top_k: int | None, top_p: float | None) -> bool:
    if top_p is None:
        return False
    weights = sorted((math.exp((value - max(values)) / temperature) for value in values), reverse=True)[:top_k]
    before = 0.0
    for weight in weights:
        if abs(before / sum(weights) - top_p) < 1e-4:
            return True
        before += weight
    return False


@given(values=scores_of_some_tokens, temperature=st.floats(0.2, 3), min_p=st.sampled_from([0.01, 0.1, 0.5]))
def test_min_p_leaves_the_tokens_that_transformers_leaves(
    values: list[float], temperature: float, min_p: float
) -> None:
    weights = [math.exp((value - max(values)) / temperature) for value in values]
    if any(abs(weight - min_p) < 1e-4 for weight in weights):
        return
    given_chances = narrowed(values, temperature=temperature, min_p=min_p)
    expected = narrowed_by_transformers(values, temperature, [("MinPLogitsWarper", min_p)])
    assert [chance / sum(given_chances) for chance in given_chances] == pytest.approx(expected, abs=1e-5)


@given(values=scores_of_some_tokens, seed=st.integers(0, 2**64 - 1))
@pytest.mark.parametrize(
    "sampling",
    [{}, {"temperature": 0}, {"temperature": 1, "top_k": 1}, {"temperature": 1, "top_p": 1e-9}, {"temperature": 1e-30}],
)
def test_the_likeliest_token_is_taken_where_there_is_no_other(
    values: list[float], seed: int, sampling: dict[str, Any]
) -> None:
    token, logprob = sampler(seed=seed, **sampling).pick(tensor(values))
    assert token == values.index(max(values))
    assert logprob is None


def test_the_seed_decides_and_the_global_random_numbers_are_left_alone() -> None:
    torch: Any = importlib.import_module("torch")
    values = tensor([0.0] * 1000)
    before = torch.random.get_rng_state()

    def picks(seed: int) -> list[int]:
        one = sampler(seed=seed, temperature=1.0)
        return [one.pick(values)[0] for _ in range(10)]

    assert picks(1) == picks(1) != picks(2)
    assert picks(-1) == picks(2**64 - 1)
    assert torch.equal(before, torch.random.get_rng_state())


def test_without_a_seed_each_generation_is_different() -> None:
    values = tensor([0.0] * 1000)
    picked = {tuple(one.pick(values)[0] for _ in range(10)) for one in (sampler(temperature=1.0) for _ in range(3))}
    assert len(picked) == 3


def test_tokens_are_sampled_as_often_as_their_chances_say() -> None:
    one = sampler(seed=5, temperature=1.0)
    values = tensor([math.log(0.7), math.log(0.2), math.log(0.1)])
    counts = Counter(one.pick(values)[0] for _ in range(4000))
    assert [counts[token] / 4000 for token in range(3)] == pytest.approx([0.7, 0.2, 0.1], abs=0.03)


def test_presence_is_counted_once_and_frequency_each_time() -> None:
    once, each = sampler(presence_penalty=1.0), sampler(frequency_penalty=1.0)
    values = tensor([2.5, 2.0, 0.0])
    assert [once.pick(values)[0] for _ in range(5)] == [0, 1, 0, 0, 0]
    assert [each.pick(values)[0] for _ in range(6)] == [0, 1, 0, 1, 0, 1]


def test_presence_and_frequency_are_of_what_was_sampled_and_repetition_of_the_prompt_too() -> None:
    values = tensor([2.0, 1.5, -3.0])
    assert sampler([0], presence_penalty=1.0).pick(values)[0] == 0
    assert sampler([0], frequency_penalty=1.0).pick(values)[0] == 0
    assert sampler([0], repetition_penalty=2.0).pick(values)[0] == 1


@given(
    values=scores_of_some_tokens,
    data=st.data(),
    penalty=st.sampled_from([0.5, 1.1, 2.0]),
)
def test_the_repetition_penalty_is_that_of_transformers(
    values: list[float], data: st.DataObject, penalty: float
) -> None:
    transformers: Any = importlib.import_module("transformers")
    prompt = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=10))
    torch: Any = importlib.import_module("torch")
    processor = transformers.RepetitionPenaltyLogitsProcessor(penalty)
    expected = processor(torch.tensor([prompt]), tensor(values)[None])[0]
    weighed = sampler(prompt, repetition_penalty=penalty)._penalise(tensor(values))  # pyright: ignore[reportPrivateUsage]
    assert weighed.tolist() == pytest.approx(expected.tolist())


def test_log_probabilities_are_the_models_before_temperature_and_penalties() -> None:
    values = [math.log(0.5), math.log(0.3), math.log(0.2)]
    one = sampler([0], repetition_penalty=100.0, temperature=1e-9, seed=1, logprobs=2)
    _, logprob = one.pick(tensor(values))
    assert logprob is not None
    assert math.exp(logprob.logprob) == pytest.approx([0.5, 0.3, 0.2][logprob.token or 0])
    assert [entry.token for entry in logprob.top] == [0, 1]
    assert [math.exp(entry.logprob) for entry in logprob.top] == pytest.approx([0.5, 0.3])


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_that_are_no_numbers_are_an_error_and_no_token(value: float, temperature: float) -> None:
    with pytest.raises(ArithmeticError):
        sampler(temperature=temperature).pick(tensor([1.0, value, 2.0]))


def test_a_note_says_what_has_no_effect_on_greedy_sampling() -> None:
    assert sampler(temperature=1.0, top_p=0.5).notes == ()
    assert sampler(presence_penalty=1.0).notes == ()
    (note,) = sampler(top_p=0.5, seed=1).notes
    assert "top_p" in note and "seed" in note


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", -1),
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repetition_penalty", 0.0),
        ("presence_penalty", math.nan),
        ("frequency_penalty", math.inf),
        ("logprobs", -1),
    ],
)
def test_a_parameter_that_means_nothing_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError) as caught:
        check_sampling(Sampling(**{name: value}))  # pyright: ignore[reportArgumentType] -- a name is not typed
    assert caught.value.code is ErrorCode.ENGINE_INVALID_OPTION
    assert caught.value.at == Position(path=f"$.sampling.{name}")


def test_usual_parameters_are_accepted() -> None:
    check_sampling(Sampling())
    check_sampling(Sampling(0, 0.0, 1.0, -1, 0.0, -5, -2.0, 2.0, 1.0, 0))
