"""vLLM: `/v1/completions` with token ids in and out.

It takes the prompt as ids, returns each sampled id (`return_token_ids`, since 0.10.2), and keeps the stop token among
them; where a version leaves it out, `stop_reason` names it.

Its prefix cache is separated by `cache_salt`, which the server derives from the API key of whoever asks.

A grammar is a structural tag of xgrammar's, which vLLM takes as `structured_outputs`. It ends before the stop token;
vLLM lets the model sample any stop token after its end, which is not passed on: Finish reports that it stopped.

vLLM applies a grammar to a reasoning model only after its reasoning, which for gpt-oss is in the middle of an answer.
So grammars are sent only to a server that is known to apply them from the first token on: start it with
`--structured-outputs-config.enable_in_reasoning=True`, and pass `grammar=True`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, Unpack

from harmonia.run.engines.base import ENDS_OF_GENERATION, Chunk, Finish, Request, Traits, grammar_of
from harmonia.run.engines.completions import CompletionAnswer, TextAnswer, WireChoice, logprobs_of
from harmonia.run.engines.http import Server
from harmonia.run.engines.registry import Answers, Kind, Seen
from harmonia.run.engines.response_reader import (
    SAMPLING_NAMES,
    STOP_TOKENS,
    HttpEngine,
    HttpOptions,
    name_parameters,
    salt_of,
    sample,
)
from harmonia.vocabulary import VOCABULARY_SIZE, default_vocabulary

_TOKEN_ID = "token_id:"


class VllmEngine(HttpEngine):
    """A vLLM server at an address such as `http://127.0.0.1:8000`."""

    name = "vllm"

    def __init__(self, url: str, model: str, *, grammar: bool = False, **options: Unpack[HttpOptions]) -> None:
        traits = Traits(gives_logprobs=True, takes_grammar="xgrammar" if grammar else None, takes_text=True)
        super().__init__(url, model, traits, **options)

    def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        more: dict[str, Any] = {
            "return_token_ids": True,
            "stop_token_ids": STOP_TOKENS,
            "include_stop_str_in_output": True,
        }
        if request.sampling.logprobs is not None:
            more["return_tokens_as_token_ids"] = True
        if (grammar := grammar_of(request, self.traits.takes_grammar, "vLLM")) is not None:
            more["structured_outputs"] = {"structural_tag": grammar.text}
        keeps_stop = grammar is None or not grammar.ends_by_engine
        return self._ask(_Answer(self.server, keeps_stop=keeps_stop), list(prompt), request, more)

    def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        more = {"stop": list(stop), "spaces_between_special_tokens": False}
        return self._ask(TextAnswer(self.server, (), "vLLM"), prompt, request, more)

    def _ask(
        self, answer: CompletionAnswer, prompt: list[int] | str, request: Request, more: dict[str, Any]
    ) -> AsyncGenerator[Chunk | Finish, None]:
        parameters, answer.notes = name_parameters(request.sampling, SAMPLING_NAMES, "vLLM")
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": prompt,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": None,  # as many as there is room for; the default is 16
            "skip_special_tokens": False,
            **more,
            **parameters,
            **salt_of(request),
            **self._extra,
        }
        return sample(answer, "/v1/completions", body, "sse")


class _Answer(CompletionAnswer):
    def __init__(self, server: Server, *, keeps_stop: bool) -> None:
        super().__init__(server)
        self._keeps_stop = keeps_stop
        self._last: int | None = None

    def take_choice(self, choice: WireChoice) -> None:
        if choice.token_ids:
            self._last = choice.token_ids[-1]
            is_end = not self._keeps_stop and self._last in ENDS_OF_GENERATION
            self.add_tokens(choice.token_ids[:-1] if is_end else choice.token_ids)
        elif choice.text and choice.token_ids is None:
            raise self.server.bad_answer(
                "it returned text without token ids; for a vLLM older than 0.10.2, use completions:URL"
            )
        if choice.logprobs is not None:
            logprobs = logprobs_of(choice.logprobs, _read_token)
            if not self._keeps_stop and logprobs and logprobs[-1].token in ENDS_OF_GENERATION:
                logprobs.pop()
            self.logprobs += logprobs
        if (reason := choice.finish_reason) is not None:
            stop = choice.stop_reason
            if self._keeps_stop and reason == "stop" and isinstance(stop, int) and stop != self._last:
                self.add_tokens([stop])
            self.end_by(reason, "vLLM")


def _read_token(spelled: str) -> tuple[int | None, str]:
    number = spelled.removeprefix(_TOKEN_ID)
    if number == spelled or not number.isdecimal() or int(number) >= VOCABULARY_SIZE:
        return None, spelled
    token = int(number)
    return token, default_vocabulary().decode([token])


def _recognise(answers: Answers) -> Seen | None:
    version = answers.text("/version", "version")
    if "vllm" in answers.owners or (version and "sglang" not in answers.owners):
        return answers.seen("vllm", version=version)
    return None


KINDS: Final = (
    Kind(
        name="vllm",
        summary="vLLM",
        make=VllmEngine,
        speaks="tokens",
        port=8000,
        pages=("/version",),
        recognise=_recognise,
    ),
)
