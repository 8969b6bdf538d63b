"""The benchmarks of the server measure what they say: both give the same, and every row is reported. No times."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.report import END, write_between_markers
from benchmarks.server.__main__ import main
from benchmarks.server.cases import Sample, check_same, check_stream, completion, make_cases, requests_for
from benchmarks.server.client import Answer, Connection, Streams, WrongAnswer, fetch
from benchmarks.server.processes import ServerProcess
from benchmarks.server.report import BEGIN, Report, make_line
from benchmarks.server.rows import ROWS, Row, select

from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the client of the benchmarks polls as Linux does")


def made_up_rounds(ours: float) -> dict[str, list[Sample]]:
    return {row.name: [Sample(ours, 4.0, 9.0)] * 3 for row in ROWS}


def report_of(ours: float) -> Report:
    machine = {name: "unknown" for name in ("processor", "memory", "system", "python", "load")}
    return Report(ROWS, made_up_rounds(ours), machine, {"harmonia": "0"}, is_pinned=True, quick=False)


def test_the_promised_rows_are_there() -> None:
    promised = {
        "events": ("events", "share", 0.25),
        "first": ("seconds", "budget", 1),
        "first-99": ("seconds", "budget", 1),
        "burst": ("seconds", "budget", 1),
        "burst-99": ("seconds", "budget", 1),
        "memory": ("bytes", "value", 100_000),
    }
    assert {row.name: (row.quantity, row.measure, row.must) for row in ROWS if row.must is not None} == {
        f"{api}-{name}": mark for api in ("responses", "chat") for name, mark in promised.items()
    }
    assert {"responses-cpu", "chat-cpu", "responses-requests", "responses-stored"} <= {row.name for row in ROWS}


def test_every_row_has_its_case() -> None:
    assert {row.case for row in ROWS} == set(make_cases(quick=True))


def test_the_report_has_every_row_in_every_form(tmp_path: Path) -> None:
    report = report_of(0.5)
    for row in ROWS:
        assert row.title in report.as_text()
        assert f"| {row.title} |" in report.as_markdown()
    assert [row["name"] for row in json.loads(report.as_json())["rows"]] == [row.name for row in ROWS]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    write_between_markers(page, report.as_markdown(), BEGIN)
    assert page.read_text().startswith(f"before\n{BEGIN}\n\n| what |")
    assert "stale" not in page.read_text()


def test_the_documentation_shows_every_row() -> None:
    page = (ROOT / "docs" / "reference" / "benchmarks-server.md").read_text(encoding="utf-8")
    results = page.partition(BEGIN)[2].partition(END)[0]
    assert [row.title for row in ROWS if f"| {row.title} |" not in results] == []


def test_verdicts() -> None:
    def verdict(row: Row, *samples: Sample) -> str:
        return make_line(row, list(samples)).verdict

    events = Row("x", "x", "x", "events", must=0.25)
    assert [verdict(events, Sample(ours, 4.0)) for ours in (0.9, 1.0)] == ["MISSED", "reached"]
    first = Row("x", "x", "x", "seconds", "budget", 1)
    assert [verdict(first, Sample(ours, 4.0, 9.0)) for ours in (9.1, 9.0)] == ["MISSED", "reached"]
    memory = Row("x", "x", "x", "bytes", "value", 100)
    assert [verdict(memory, Sample(ours, 4.0)) for ours in (101, 100)] == ["MISSED", "reached"]
    assert verdict(Row("x", "x", "x", "cpu"), Sample(9.0, 4.0)) == ""


def test_a_ratio_compares_within_a_round() -> None:
    line = make_line(Row("x", "x", "x", "events"), [Sample(1, 2), Sample(10, 100), Sample(6, 10)])
    assert (line.ours, line.prepared, line.ratio) == (6, 10, 0.5)


def test_a_name_selects_the_rows_that_it_begins() -> None:
    assert [row.name for row in select(["chat-first"])] == ["chat-first", "chat-first-99"]
    assert select([]) == ROWS


def test_an_unknown_row_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


class FakeConnection(Connection):
    """Reads what it is given."""

    def __init__(self) -> None:
        self.frames = self.size_bytes = 0
        self.first_at = None
        self.is_over = False
        self._tail, self._head, self._left = b"", b"", None


def test_events_are_counted_however_their_bytes_arrive() -> None:
    frames = [b'event: a\ndata: {"x":"\\n\\n"}\n\n', b": keep-alive\n\n", b"data: [DONE]\n\n"]
    wire = b"HTTP/1.1 200 OK\r\nx-request-id: req_0\r\n\r\n"
    wire += b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames) + b"0\r\n\r\n"
    for size in range(1, len(wire) + 1):
        connection = FakeConnection()
        for start in range(0, len(wire), size):
            assert not connection.is_over
            connection.take(wire[start : start + size])
        assert (connection.frames, connection.size_bytes, connection.is_over) == (3, len(wire), True)


def test_an_answer_that_is_not_ok_ends_the_run() -> None:
    with pytest.raises(WrongAnswer, match="503"):
        FakeConnection().take(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a_missing_or_a_changed_token_is_found(api: Any) -> None:
    said = completion(5)
    with ServerProcess("ours") as ours:
        ours.ask("follow", tokens=said.tokens)
        answer = fetch(ours.port, requests_for(api, "test", 1)[0])
    check_stream(api, answer, said)
    at = next(at for at, piece in enumerate(answer.pieces) if b"delta" in piece and said.words[:2].encode() in piece)
    fewer = Answer(answer.headers, [*answer.pieces[:at], *answer.pieces[at + 1 :]], answer.size_bytes)
    joined = [*answer.pieces[:at], b"".join(answer.pieces[at : at + 2]), *answer.pieces[at + 2 :]]
    for wrong in (fewer, Answer(answer.headers, joined, answer.size_bytes)):
        with pytest.raises(WrongAnswer):
            check_stream(api, wrong, said)
        with pytest.raises(WrongAnswer):
            check_same(answer, wrong)


def test_the_render_is_that_of_the_prompt_that_the_engine_gets() -> None:
    from benchmarks.server.cases import body_for, questions

    bodies = [body_for("responses", question) for question in questions("test", 2)]
    with ServerProcess("ours") as ours:
        ours.ask("follow", tokens=completion(2).tokens)
        fetch(ours.port, requests_for("responses", "test", 2)[1])
        prompt = ours.ask("prompt")["prompt"]
        assert ours.ask("render", requests=bodies)["tokens"] == prompt
        fetch(ours.port, requests_for("chat", "test", 2)[1])
        assert ours.ask("prompt")["prompt"] == prompt


def test_streams_wait_where_they_are_told_to() -> None:
    said = completion(3)
    with ServerProcess("ours") as ours:
        ours.ask("follow", tokens=said.tokens, holds_behind=4)
        streams = Streams(ours.port, 3)
        try:
            streams.ask(requests_for("chat", "test", 3))
            streams.wait_for_frames(2)
            ours.ask("release")
            streams.wait_for_end()
        finally:
            streams.close()


class TalkativeServer(ServerProcess):
    """A prepared application that repeats its last event."""

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        if do == "follow" and self.name == "prepared":
            import marshal

            headers, pieces = marshal.loads(Path(fields["file"]).read_bytes())
            Path(fields["file"]).write_bytes(marshal.dumps((headers, [*pieces, pieces[-1]])))
        return super().ask(do, **fields)


def test_a_server_that_gives_something_else_ends_the_run_before_anything_is_timed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = os.sched_getaffinity(0)
    assert main(["--quick", "--only", "chat-events"], TalkativeServer) == 1
    assert os.sched_getaffinity(0) == before
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "does not give the bytes that ours gave" in captured.err


def test_a_row_is_measured_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--only", "responses-events", "--json", str(tmp_path / "out.json")]) == 0
    (row,) = select(["responses-events"])
    assert row.title in capsys.readouterr().out
    (line,) = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert line["name"] == row.name
    assert line["ours"] > 0 and line["prepared"] > 0 and line["ratio"] > 0
