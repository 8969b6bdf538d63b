"""Markdown in a real browser, under the page's policy: what the sanitizer keeps, code, formulas, links, tables."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, final

_ANSWER = r"""# Title

Some **bold**, *emphasis*, ~~gone~~ and `code`, [a link](https://example.org/a), <b>HTML</b> and &amp; so on.
See 【3†L1】.

```python
def area(radius: float) -> float:
    return 3.14 * radius ** 2  # a comment
```

- one
  - [x] two

| a | b |
|---|--:|
| 1 | **2** |

Costs $5 and $10, and $x_1^2$.

\[
\frac{1}{2}
\]

Broken: \(\frac{1\).
"""


def _answered(start_server: StartServer, open_page: OpenPage, answer: str, **options: object) -> Visit:
    visit = open_page(start_server(ScriptedEngine(final(answer), chunk=2)), **options)
    visit.page.fill("[data-composer]", "go")
    visit.page.press("[data-composer]", "Enter")
    visit.page.wait_for_selector(".from-assistant[aria-busy=false] .markdown > *")
    return visit


def test_a_few_tags_without_attributes_are_read_in_cells_of_tables_above_all(
    start_server: StartServer, open_page: OpenPage
) -> None:
    answer = "| step | keys |\n|---|---|\n| one<br>H<sub>2</sub>O x<sup>2</sup> | <kbd>Ctrl</kbd> |\n\n<br class=x>"
    visit = _answered(start_server, open_page, answer)
    cells = visit.page.locator(".markdown td")
    expect(cells.first).to_have_text("one\nH2O x2", use_inner_text=True)
    expect(cells.first.locator("br")).to_have_count(1)
    expect(cells.first.locator("sub")).to_have_text("2")
    expect(cells.nth(1).locator("kbd")).to_have_text("Ctrl")
    expect(visit.page.locator(".markdown > p")).to_have_text("<br class=x>")


def test_an_answer_is_rich_text(start_server: StartServer, open_page: OpenPage) -> None:
    visit = _answered(start_server, open_page, _ANSWER)
    shown = visit.page.locator(".markdown")
    visit.page.wait_for_selector(".markdown .hljs-keyword")
    visit.page.wait_for_selector(".markdown .math-display.math-set .katex")
    for name, words in (("h3", "Title"), ("strong", "bold"), ("em", "emphasis"), ("del", "gone"), ("p > code", "code")):
        expect(shown.locator(name).first).to_have_text(words)
    link = shown.locator("a").first
    expect(link).to_have_attribute("href", "https://example.org/a")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(link).to_have_attribute("target", "_blank")
    expect(shown).to_contain_text("<b>HTML</b> and & so on")
    expect(shown.locator("span.citation")).to_have_text("3†L1")
    expect(shown.locator("li li.task > input")).to_be_checked()
    expect(shown.locator("th[scope=col]")).to_have_count(2)
    expect(shown.locator("td.align-right strong")).to_have_text("2")
    expect(shown).to_contain_text("Costs $5 and $10")
    expect(shown.locator(".math.math-set .katex")).to_have_count(1)
    expect(shown.locator(".math-source")).to_have_text("\\frac{1")


def test_formulas_have_their_own_letters_and_are_loaded_when_needed(
    start_server: StartServer, open_page: OpenPage
) -> None:
    visit = _answered(start_server, open_page, "No formula, `no` **code**.")
    visit.page.wait_for_selector(".markdown strong")
    loaded = "() => performance.getEntriesByType('resource').map((entry) => entry.name.split('/').pop())"
    assert not [name for name in visit.page.evaluate(loaded) if "KaTeX" in name or "typeset" in name]
    visit = _answered(start_server, open_page, "So $x^2$.")
    visit.page.wait_for_selector(".markdown .katex")
    visit.page.evaluate("() => document.fonts.ready")
    visit.page.wait_for_function("() => document.fonts.check('16px KaTeX_Main')")
    fonts = [name for name in visit.page.evaluate(loaded) if "KaTeX" in name]
    assert fonts
    assert all(name.endswith(".woff2") for name in fonts)


def test_code_is_copied_as_it_was_written(start_server: StartServer, open_page: OpenPage) -> None:
    code = "a < b\n\n    c  # <|end|> & more".replace("<|end|>", "<end>")
    visit = _answered(start_server, open_page, f"```python\n{code}\n```")
    visit.page.wait_for_selector(".markdown .hljs-comment")
    button = visit.page.get_by_role("button", name="Copy code")
    button.click()
    visit.page.locator(".code-head [role=status]").get_by_text("Copied").wait_for()
    assert visit.page.evaluate("() => navigator.clipboard.readText()") == code
    assert visit.page.locator(".markdown pre code").text_content() == code


def test_long_lines_do_not_widen_a_narrow_page(start_server: StartServer, open_page: OpenPage) -> None:
    wide = "w" * 400
    table = f"| {' | '.join('column' + str(at) for at in range(12))} |\n|{'---|' * 12}\n"
    visit = _answered(
        start_server, open_page, f"{wide}\n\n`{wide}`\n\n```\n{wide}\n```\n\n{table}\n\n$${wide}$$", width=320
    )
    visit.page.wait_for_selector(".markdown .katex")
    assert visit.page.evaluate("() => document.documentElement.scrollWidth") == 320
    assert visit.page.evaluate("() => document.querySelector('main').scrollWidth") <= 320
