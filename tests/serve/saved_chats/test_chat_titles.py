"""Titles are one line, and names of files are no paths."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.serve.saved_chats.titles import clean_title, disposition, made_title, split_title, write_title
from tests.support.strategies.stored_chats import answered, said

HEADER = re.compile(r"attachment; filename=\"([A-Za-z0-9._ -]+)\"; filename\*=UTF-8''([A-Za-z0-9%._~-]+)")


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("  Tea \r\n and\tcoffee\u2028now ", "Tea and coffee now"),
        ("a\x00b\x1b[31mc\x7f", "a b [31mc"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\u2066\u2069", ""),
        ("👩\u200d💻 works", "👩\u200d💻 works"),
    ],
)
def test_a_title_is_one_line_that_turns_nothing_around(given_: str, expected: str) -> None:
    assert clean_title(given_, 200) == expected


@given(st.text())
def test_any_title_is_clean_after_cleaning(text: str) -> None:
    title = clean_title(text, 20)
    assert len(title) <= 20
    assert title == clean_title(title, 20)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", title)


def test_a_title_is_made_of_what_the_user_said_first() -> None:
    assert made_title([answered("no"), said("\n Which\ntea? ")]) == "Which tea?"
    assert made_title([{"type": "message", "role": "user", "content": "Plain"}]) == "Plain"
    long = made_title([said("word " * 100)])
    assert len(long) <= 61 and long.endswith("word…")
    assert made_title([said("x" * 500)]) == "x" * 59 + "…"
    file = {"type": "input_file", "filename": "notes.txt", "file_data": "data:,x"}
    assert made_title([{"type": "message", "role": "user", "content": [file]}]) == "notes.txt"
    assert made_title([{"type": "function_call_output", "call_id": "c", "output": "x"}]) == ""
    assert made_title([{"type": "message", "role": "user", "content": None}, {"type": "message"}]) == ""


@pytest.mark.parametrize(
    ("title", "plain", "full"),
    [
        ("Tea", "Tea.md", "Tea.md"),
        ("", "chat.md", "chat.md"),
        ("../../etc/passwd", "etc-passwd.md", "etc-passwd.md"),
        ("..\\..\\boot.ini", "boot.ini.md", "boot.ini.md"),
        ("C:\\x", "C-x.md", "C-x.md"),
        ('a"; filename="evil.exe', "a- filename-evil.exe.md", "a- filename=-evil.exe.md"),
        ("a\r\nSet-Cookie: x=1", "a- Set-Cookie- x-1.md", "a-Set-Cookie- x=1.md"),
        ("invoice\u202efdp.exe", "invoice-fdp.exe.md", "invoicefdp.exe.md"),
        ("Grüße, Jürgen", "Gru-e- Jurgen.md", "Grüße, Jürgen.md"),
        ("日本語", "chat.md", "日本語.md"),
        ("CON", "chat.md", "chat.md"),
        ("nul.txt", "chat.md", "chat.md"),
        (".htaccess", "htaccess.md", "htaccess.md"),
        ("%2e%2e%2f", "2e-2e-2f.md", "2e-2e-2f.md"),
        ("x" * 300, "x" * 80 + ".md", "x" * 80 + ".md"),
    ],
)
def test_a_name_says_the_title_and_is_no_path(title: str, plain: str, full: str) -> None:
    found = HEADER.fullmatch(disposition(title, ".md"))
    assert found is not None
    assert unquote(found[2]) == full
    if "\r" not in title:
        assert found[1] == plain


@given(st.text())
def test_no_title_gets_out_of_its_header(title: str) -> None:
    found = HEADER.fullmatch(disposition(title.encode("utf-8", "replace").decode(), ".json"))
    assert found is not None
    for name in (found[1], unquote(found[2])):
        assert name.endswith(".json") and len(name) <= 85
        assert not name.startswith((".", "-", " "))
        assert not re.search(r"[/\\:\x00-\x1f\x7f\"<>|?*\u202a-\u202e\u2066-\u2069]", name)


@given(st.text().map(lambda text: clean_title(text, 200)))
def test_a_title_comes_back_from_markdown(title: str) -> None:
    assert split_title(write_title(title) + "## user\n\nHi\n") == (title, "## user\n\nHi\n")


def test_a_title_in_markdown_is_shown_as_text() -> None:
    assert write_title("![x](http://evil) <b>") == "# \\!\\[x\\]\\(http://evil\\) \\<b\\>\n\n"


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("[file: a.txt, 3 bytes]\nOne two\n[end of file]\nWhat is in it?", "What is in it?"),
        ("[file: a.txt, 3 bytes]\nOne two\n[end of file]", "a.txt"),
        ("[file: a.pdf, 3 bytes, pdf; this model reads text only]\nWhat?", "What?"),
        ("[file: a.txt, 3 bytes]\nA\n[end of file]\n[file: b.txt, 3 bytes]\nB\n[end of file]\nBoth?", "Both?"),
        ("See [file: a.txt]", "See [file: a.txt]"),
    ],
)
def test_a_title_is_what_was_asked_and_not_the_file_before_it(content: str, title: str) -> None:
    assert made_title([{"type": "message", "role": "user", "content": content}]) == title
