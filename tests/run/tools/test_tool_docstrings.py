"""Docstrings: three styles, and what is no style."""

from __future__ import annotations

import inspect

import pytest

from harmonia.run.tools.python_functions import Documented, read_docstring

GOOGLE = """
    Fetch the forecast.

    It is made by a model: trust it little.

    Args:
        city: The city's name,
            in English.
        days (int, optional): How long.
        *rest: More.
        silent:

    Raises:
        ValueError: if there is no such city.

    Returns:
        One line a day.
    """

NUMPY = """
    Fetch the forecast.

    It is made by a model: trust it little.

    Parameters
    ----------
    city : str
        The city's name,
        in English.
    days : int, optional
        How long.
    *rest
        More.
    silent : str

    Raises
    ------
    ValueError
        If there is no such city.

    Returns
    -------
    list
        One line a day.
    """

REST = """
    Fetch the forecast.

    It is made by a model: trust it little.

    :param city: The city's name,
        in English.
    :type city: str
    :param int days: How long.
    :param rest: More.
    :param silent:
    :raises ValueError: if there is no such city.
    :returns: One line a day.
    """

EXPECTED = {"city": "The city's name, in English.", "days": "How long.", "rest": "More."}
ABOUT = "Fetch the forecast.\n\nIt is made by a model: trust it little."


@pytest.mark.parametrize(
    ("written", "returns"),
    [
        (GOOGLE, "Returns:\n    One line a day."),
        (NUMPY, "Returns\n-------\nlist\n    One line a day."),
        (REST, ":returns: One line a day."),
    ],
    ids=["google", "numpy", "rest"],
)
def test_a_style_is_understood(written: str, returns: str) -> None:
    documented = read_docstring(inspect.cleandoc(written))
    assert documented.parameters == EXPECTED
    assert documented.description == f"{ABOUT}\n\n{returns}"


@pytest.mark.parametrize(
    "written",
    [
        "Just a line.",
        "Notes: args are hard.\nArgs: not here.",
        "Two parts\n\n    indented: yes",
        "Args:\nNot indented, so no section.",
    ],
)
def test_what_follows_no_style_is_the_description(written: str) -> None:
    assert read_docstring(written) == Documented(written, {})


def test_nothing_gives_no_description() -> None:
    assert read_docstring("") == Documented(None, {})
    assert read_docstring("Args:\n    a: One.") == Documented(None, {"a": "One."})


def test_several_parameters_may_share_a_line_in_numpy_style() -> None:
    assert read_docstring("Parameters\n----------\na, b : int\n    Both.").parameters == {"a": "Both.", "b": "Both."}


def test_text_behind_the_parameters_is_description() -> None:
    text = "One.\n\nParameters\n----------\na : int\n    First.\n\nMore to say, with words.\n"
    assert read_docstring(text) == Documented("One.\n\nMore to say, with words.", {"a": "First."})
