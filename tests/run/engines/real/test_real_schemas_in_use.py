"""Schemas as people send them, in the real xgrammar on the real vocabulary: what fits comes through, nothing else."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from harmonia.grammar.completion import grammar_for
from harmonia.vocabulary import CALL, RETURN
from tests.grammar.damages import sampled
from tests.grammar.schemas_in_use import SCHEMAS_IN_USE, InUse
from tests.grammar.test_schemas_in_use import demand_of
from tests.run.engines.real.test_real_xgrammar import compiler

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("case", SCHEMAS_IN_USE.values(), ids=SCHEMAS_IN_USE.keys())
def test_xgrammar_admits_what_fits_and_nothing_else(case: InUse) -> None:
    compiled = compiler().compile_structural_tag(grammar_for(demand_of(case), "xgrammar").text)
    xgrammar: Any = importlib.import_module("xgrammar")
    for text in (*case.fits, *case.fails):
        matcher = xgrammar.GrammarMatcher(compiled, override_stop_tokens=[RETURN, CALL])
        tokens = sampled(f"<|channel|>commentary to=functions.act <|constrain|>json<|message|>{text}<|call|>")
        assert all(map(matcher.accept_token, tokens)) is (text in case.fits), text
