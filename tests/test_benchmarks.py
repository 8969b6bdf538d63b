"""The benchmarks measure what they say: results are compared, rivals start equal, every row is reported. No times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import main
from benchmarks.agreement import Disagreement, agree_on_case, agree_on_start, first_difference
from benchmarks.bench_parse import SEED_COMPLETION
from benchmarks.cases import Case, Row
from benchmarks.data import KINDS, text
from benchmarks.lines import judge, make_lines
from benchmarks.measure import Result, Results
from benchmarks.processes import Worker, WorkerProcess, environment, start_fresh
from benchmarks.report import BEGIN, END, Report, write_between_markers
from benchmarks.rivals import ENGINES
from benchmarks.suites import CASES, ROWS, STARTS, cases_of, select

from tests.support.paths import ROOT


class WrongWorker(WorkerProcess):
    """A rival that gets one token wrong."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = super().ask(request)
        if "result" in answer:
            answer["result"][7] += 1
        else:
            answer["digests"][-1] = "0" * 64
        return answer


class ScriptedWorker:
    """A rival that gives the answers it was told to give."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = iter(answers)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return next(self._answers)

    def close(self) -> None:
        pass


def agree(rivals: dict[str, ScriptedWorker], **options: Any) -> tuple[list[list[str]], dict[str, str]]:
    return agree_on_case(Case("scripted", "cold", lambda _random: [], rounds=1, **options), rivals, quick=True)


# A row of each suite. Every one starts a process or more for each rival: the two in which each kind of row is started,
# compared, timed and reported are run always, the others have the same way and cases of their own.
SUITES = (
    "start-20",
    "parse-short-first",
    *(
        pytest.param(name, marks=pytest.mark.exhaustive)
        for name in (
            "parse-stream-16",
            "cold-5-tools",
            "encode-short",
            "dropin-messages",
            "turn-eight",
            "grammar-masks",
        )
    ),
)


@pytest.mark.parametrize("name", SUITES)
def test_each_suite_runs_and_reports(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--only", name, "--json", str(tmp_path / "out.json")]) == 0
    (row,) = select([name])
    assert row.title in capsys.readouterr().out
    report = json.loads((tmp_path / "out.json").read_text())
    assert [found["name"] for found in report["rows"]] == [row.name]
    assert all(report["rows"][0][column]["value"] > 0 for column in ("rival", "core"))
    assert report["versions"]["openai-harmony"] == "0.0.8"


def test_one_wrong_token_ends_the_run_before_anything_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    def open_worker(name: str, variables: dict[str, str]) -> Worker:
        return (WrongWorker if name == "core" else WorkerProcess)(name, variables)

    assert main(["--quick", "--only", "cold-5-tools"], open_worker) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "core and openai-harmony differ from token 7 on" in captured.err
    assert "timing" not in captured.err


def test_a_wrong_token_is_found_in_the_first_render_of_a_process() -> None:
    answers = {
        "openai-harmony": {"tokens": [1, 2, 3], "messages": [{"content": "Hi"}], "engine": None},
        "core": {"tokens": [1, 2, 3], "messages": [{"content": "Hi"}], "engine": "exact"},
    }
    agree_on_start(STARTS["start"], answers)
    for wrong, expected in (
        ({"tokens": [1, 2, 4]}, "from token 2 on"),
        ({"messages": [{"content": "Ho"}]}, r"at messages\[0\].content, from character 1 on"),
        ({"engine": "fast"}, "tokenizer fast"),
    ):
        with pytest.raises(Disagreement, match=expected):
            agree_on_start(STARTS["start"], answers | {"core": answers["core"] | wrong})


def test_harmonia_is_not_its_own_judge() -> None:
    same = {"seconds": [1.0], "digests": ["a"]}
    assert agree({"openai-harmony": ScriptedWorker(same), "core": ScriptedWorker(same)}) == ([["a"]], {})
    with pytest.raises(Disagreement, match="nobody to compare with"):
        agree({"core": ScriptedWorker(same), "fast": ScriptedWorker(same)})


def test_only_a_failure_that_is_known_is_accepted() -> None:
    same = {"seconds": [1.0], "digests": ["a"]}

    def rivals() -> dict[str, ScriptedWorker]:
        return {
            "openai-harmony": ScriptedWorker({"failed": "PanicException: overflow"}),
            "tiktoken": ScriptedWorker(same),
            "core": ScriptedWorker(same),
        }

    _, failed = agree(rivals(), fails=("openai-harmony",))
    assert failed == {"openai-harmony": "PanicException: overflow"}
    with pytest.raises(Disagreement, match="PanicException"):
        agree(rivals())


def test_first_difference_also_finds_a_missing_end() -> None:
    assert first_difference([1, 2], [1, 2, 3]) == "from token 2 on: [] and [3] (2 and 3 in all)"


def test_first_difference_names_the_field_of_a_message() -> None:
    def parsed(channel: str | None, content: str, count: int = 1) -> dict[str, Any]:
        return {"messages": [{"channel": channel, "content": content}] * count, "text": content * count}

    assert first_difference(parsed("final", "Four."), parsed("final", "Fou!.")) == (
        "at messages[0].content, from character 3 on: 'r.' and '!.' (5 and 5 in all)"
    )
    assert first_difference(parsed(None, "Hi"), parsed("final", "Hi")) == "at messages[0].channel, None and 'final'"
    assert first_difference(parsed("final", "Hi"), parsed("final", "Hi", 2)).startswith("at messages, from message 1")
    assert first_difference(parsed("final", "Hi"), parsed("final", "Hi")) == "nowhere"
    assert first_difference({"seen": ["a", "b"]}, {"seen": ["a", "c"]}).startswith("at seen, from token 1 on")


def test_every_rival_starts_from_the_bare_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # measuring would load modules
    with environment() as variables:
        loaded = [
            start_fresh(name, STARTS["start"], variables)["preloaded"]
            for name in ("core", "openai-harmony", "dropin-core")
        ]
    ours, theirs, dropin = ({module for module in modules if not module.startswith("benchmarks")} for modules in loaded)
    assert ours == theirs == dropin
    assert ours.isdisjoint({"json", "typing", "re", "functools", "pathlib", "msgspec", "pydantic", "harmonia"})


def made_up_results() -> Results:
    results: Results = {}
    for name in cases_of(ROWS):
        results[name] = {
            rival: Result({"seconds": [2.0, 1.0], "process_seconds": [1.0], "resident_bytes": [1e6]})
            for rival in (STARTS | CASES)[name].rivals
        }
    results["spaces-1m"]["openai-harmony"] = Result(failed="PanicException: overflow")
    return results


def test_the_report_has_every_row_in_every_form(tmp_path: Path) -> None:
    results = made_up_results()
    machine = {name: "unknown" for name in ("processor", "memory", "system", "python", "load")}
    report = Report(make_lines(ROWS, results), results, machine, {"harmonia": "0"}, quick=False)
    for row in ROWS:
        assert row.title in report.as_text()
        assert f"| {row.title.strip()} |" in report.as_markdown()
    assert "MISSED" in report.as_text()  # everything is as fast as the rival, which is not what was promised
    assert "the rival fails (PanicException: overflow)" in report.as_text()
    assert [row["name"] for row in json.loads(report.as_json())["rows"]] == [row.name for row in ROWS]

    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    write_between_markers(page, report.as_markdown())
    assert page.read_text().startswith(f"before\n{BEGIN}\n\n| what |")
    assert page.read_text().endswith(f"{END}\nafter\n")
    assert "stale" not in page.read_text()


def test_the_promised_rows_are_there() -> None:
    marks = {row.name: (row.must, row.aim) for row in ROWS if row.must is not None}
    assert marks == {
        "start": (1.0, 0.6),
        "cold-short": (5, 20),
        "cold-5kb": (5, 20),
        "append": (50, 200),
        "spaces-100k": (100, None),
        "spaces-1m": (13, None),
        "memory": (1.5, None),
        "parse-short": (15, 30),
        "parse-stream": (4, 8),
        "parse-whole": (10, 15),
        "dropin-cold-short": (4, None),
        "dropin-append": (20, None),
        "dropin-parse-short": (10, None),
        "dropin-stream": (2, None),
        "dropin-content": (20, None),
        "dropin-memory": (1.5, None),
        "turn": (1, None),
        "turn-eight": (1 / 3, None),
        "turn-long": (13, None),
        "tools-again": (1.2, None),
        "tools-first": (13, None),
        "grammar-build": (1, None),
        "grammar-xgrammar": (1, None),
        "grammar-masks": (1.1, None),
    }


def test_the_rivals_of_a_row_take_part_in_its_case() -> None:
    for row in ROWS:
        assert {row.against, *row.ours} <= {*(STARTS | CASES)[row.case].rivals}
        assert all(name.startswith("dropin-") == row.name.startswith("dropin-") for name in row.ours)
        assert [ENGINES[name] for name in row.ours] == ["exact", "fast"]


def test_the_documentation_shows_every_row() -> None:
    page = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    results = page.partition(BEGIN)[2].partition(END)[0]
    assert [row.title for row in ROWS if f"| {row.title.strip()} |" not in results] == []
    assert "quick run" not in results


def test_verdicts() -> None:
    promised = Row("x", "x", "x", must=5, aim=20)
    assert [judge(promised, ratio) for ratio in (4.9, 5, 20)] == ["MISSED", "reached", "aim"]
    share = Row("x", "x", "x", "share", must=1.0, aim=0.6)
    assert [judge(share, ratio) for ratio in (1.1, 1.0, 0.6)] == ["MISSED", "reached", "aim"]
    assert [judge(Row("x", "x", "x"), ratio) for ratio in (0.9, 1.01, 1.1)] == ["LOSES", "even", "better"]
    assert [judge(Row("x", "x", "x", "share"), ratio) for ratio in (0.9, 1.1)] == ["better", "LOSES"]
    growth = Row("x", "x", "x", "growth")
    assert [judge(growth, ratio) for ratio in (0.9, 10)] == ["", ""]  # there is no rival to lose against


def test_inputs_depend_on_nothing_but_case_and_round() -> None:
    case = CASES["cold-short"]
    assert case.inputs(1, quick=True) == case.inputs(1, quick=True)
    assert case.inputs(1, quick=True) != case.inputs(2, quick=True)
    assert case.inputs(1, quick=False)[:4] == case.inputs(1, quick=True)


def test_rounds_that_do_not_vary_have_the_same_inputs() -> None:
    case = Case("same", "parse", lambda random: [random.random()], count=2, varies=False, given=([1],))
    assert case.inputs(0, quick=False) == case.inputs(1, quick=False)
    assert case.inputs(0, quick=False)[0] == [1]


def test_completions_have_the_size_that_the_rows_name() -> None:
    expected = {
        **dict.fromkeys(("parse-short", "dropin-parse-short"), 36),
        **dict.fromkeys(("parse-stream", "dropin-stream", "dropin-content", "dropin-stream-server"), 10_000),
        **dict.fromkeys(("dropin-state", "dropin-messages", "dropin-tokens"), 2000),
    }
    assert {name: {len(it) for it in CASES[name].inputs(0, quick=True)} for name in expected} == {
        name: {size} for name, size in expected.items()
    }
    for name in ("parse-short", "dropin-parse-short"):
        assert CASES[name].inputs(0, quick=True)[0] == list(SEED_COMPLETION)
    (call, *_) = CASES["parse-stream-call"].inputs(0, quick=True)
    assert 10_000 < len(call) < 12_000


@pytest.mark.parametrize("kind", KINDS)
def test_texts_have_the_size_that_was_asked_for(kind: Any) -> None:
    from random import Random

    assert 4998 <= len(text(kind, 5000, Random(0)).encode()) <= 5000


def test_an_unknown_row_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err
