"""Results before times: rivals must give the same tokens or messages for every input, or nothing is timed.

A result is any JSON value: the tokens that were rendered, or the messages and the text that were parsed.

The answers that are compared come from processes that end before the clock starts. A tokenizer that remembers words
would otherwise have met every word that it is timed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.cases import Case, Start
from benchmarks.processes import Worker
from benchmarks.rivals import ENGINES

# What the rivals said of an input, as digests: by round, then by index.
Digests = list[list[str]]


class Disagreement(Exception):
    """Two rivals gave different results for the same input, or there is none to compare with."""


def agree_on_case(case: Case, workers: Mapping[str, Worker], *, quick: bool) -> tuple[Digests, dict[str, str]]:
    """The results (as digests) that all rivals give for all inputs of `case`, and who failed with what."""
    failed: dict[str, str] = {}
    agreed: Digests = []
    rounds = case.rounds_for(quick=quick)
    for round_ in range(rounds if case.varies else 1):
        request = {"case": case.name, "round": round_, "quick": quick}
        answers: dict[str, list[str]] = {}
        for name, worker in workers.items():
            if name in failed:
                continue
            answer = worker.ask(request)
            if "failed" in answer:
                if name not in case.fails:
                    raise Disagreement(f"{case.name}: {name} fails: {answer['failed']}")
                failed[name] = answer["failed"]
            else:
                answers[name] = answer["digests"]
        agreed.append(_same(case, request, answers, workers))
    return agreed if case.varies else agreed * rounds, failed


def agree_on_start(start: Start, answers: Mapping[str, Mapping[str, Any]]) -> None:
    """The first render of a fresh process must give the same tokens, too, with the tokenizer that was asked for; and
    its first parse the same messages."""
    if not start.bare:
        expected = _result(answers["openai-harmony"])
        for name, answer in answers.items():
            if _result(answer) != expected:
                difference = first_difference(_result(answer), expected)
                raise Disagreement(f"{start.name}: {name} and openai-harmony differ {difference}")
            engine = ENGINES.get(name)
            if answer["engine"] != engine:
                raise Disagreement(f"{start.name}: {name} runs the tokenizer {answer['engine']}, not {engine}")


def _result(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in ("tokens", "messages")}


def first_difference(left: Any, right: Any, path: str = "") -> str:
    """Where two results part, for people: down through lists and objects, to a token or a piece of text."""
    where = f"at {path}, " if path else ""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        name = next((name for name in left if left[name] != right[name]), None)
        return "nowhere" if name is None else first_difference(left[name], right[name], f"{path}.{name}".lstrip("."))
    if not isinstance(left, str | list) or type(left) is not type(right):
        return f"{where}{left!r} and {right!r}"
    pairs = enumerate(zip(left, right, strict=False))
    at = next((index for index, (one, other) in pairs if one != other), min(len(left), len(right)))
    if at < min(len(left), len(right)) and isinstance(left[at], dict | list):
        return first_difference(left[at], right[at], f"{path}[{at}]")
    unit = "character" if isinstance(left, str) else "message" if path.endswith("messages") else "token"
    shown = 20 if isinstance(left, str) else 5
    one, other = left[at : at + shown], right[at : at + shown]
    return f"{where}from {unit} {at} on: {one!r} and {other!r} ({len(left)} and {len(right)} in all)"


def _same(
    case: Case, request: dict[str, Any], answers: dict[str, list[str]], workers: Mapping[str, Worker]
) -> list[str]:
    judge = next((name for name in answers if name not in ENGINES), None)
    if judge is None or len(answers) < 2:
        raise Disagreement(f"{case.name}: nobody to compare with; {', '.join(answers) or 'nobody'} answered")
    expected = answers[judge]
    for name, digests in answers.items():
        if digests == expected:
            continue
        if len(digests) != len(expected):
            raise Disagreement(f"{case.name}: {name} gave {len(digests)} results, {judge} {len(expected)}")
        index = next(at for at, (one, other) in enumerate(zip(digests, expected, strict=True)) if one != other)
        left, right = (workers[each].ask({**request, "index": index})["result"] for each in (name, judge))
        raise Disagreement(
            f"{case.name}, round {request['round']}, input {index}: {name} and {judge} differ "
            + first_difference(left, right)
        )
    return expected
