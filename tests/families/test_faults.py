"""The table of the families' faults: each is documented, in order, and its example shows it."""

from __future__ import annotations

import pytest

from harmonia.errors import ErrorCode
from harmonia.families.hermes import HERMES
from harmonia.families.reader import FAULTS, read_answer
from harmonia.inspection import describe_diagnostic, is_malformed
from harmonia.parser.faults import ALL_FAULTS, FAMILY_FAULTS, Fault

SHOWN = [fault for fault in FAMILY_FAULTS.values() if fault.example]


def test_the_table_has_every_code_of_the_families_in_order() -> None:
    assert list(FAMILY_FAULTS) == [code for code in ErrorCode if code.value.startswith("family.")]
    assert set(FAULTS) <= set(ALL_FAULTS)


@pytest.mark.parametrize("fault", SHOWN, ids=lambda fault: fault.code)
def test_an_example_shows_its_fault_and_no_other(fault: Fault) -> None:
    parsed = read_answer(HERMES, fault.example)
    assert [diagnostic.code for diagnostic in parsed.diagnostics] == [fault.code]
    assert is_malformed(parsed)
    assert describe_diagnostic(parsed.diagnostics[0])["repair"] == fault.tolerant
    assert min(message.origin.trust for message in parsed if message.origin is not None) <= fault.trust


def test_a_fault_that_no_text_shows_says_what_does() -> None:
    assert all(fault.meaning and (fault.example or fault.shown_by) for fault in FAMILY_FAULTS.values())
