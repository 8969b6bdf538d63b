"""What stands behind the `?` is read exactly, however long it is."""

from __future__ import annotations

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.wire.queries import check_query, limit_of, one_of


def test_a_limit_is_a_number_in_its_range() -> None:
    assert [limit_of(query, 100) for query in ({}, {"limit": ""}, {"limit": "7"}, {"limit": "100"})] == [20, 20, 7, 100]


# The digits behind the first nine count too, and a thousand of them are no error of the server's.
@pytest.mark.parametrize("wrong", ["0", "101", "-1", "1.5", "x", "²", "00000005099999", "0000000" + "50" + "9" * 5000])
def test_no_other_limit_is_one(wrong: str) -> None:
    with pytest.raises(InputError) as caught:
        limit_of({"limit": wrong}, 100)
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_INVALID_FIELD, "$.limit")


def test_parameters_are_known_and_there_once() -> None:
    check_query({"after": "x"}, ("after",))
    with pytest.raises(InputError) as caught:
        check_query({"aftr": "x"}, ("after",))
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_UNKNOWN_FIELD, "$.aftr")
    with pytest.raises(InputError) as caught:
        one_of({"after": ["x", "y"]}, "after")
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_INVALID_FIELD, "$.after")
