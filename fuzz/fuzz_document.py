"""Invariant: every request that our OpenAPI document allows, or just not allows, is answered as the document says.

    python fuzz/fuzz_document.py [--cases N]

schemathesis makes the requests of the document that the server itself gives out, N for each operation and kind. It
checks that there is no server error, that status, content type, headers and body of each answer are in the document,
and that what the document does not allow is refused. Prints how many cases there were.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import requests  # noqa: E402
import schemathesis  # noqa: E402
from fuzz_server import ObedientEngine  # noqa: E402
from hypothesis import HealthCheck, Phase, given, reject, seed, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.core.errors import InvalidSchema  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tests.support.servers.in_process import application, ask  # noqa: E402

# A request that is allowed by the document may still be refused (a call id that nobody knows), so that every one is
# accepted is not checked.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]

# It reads conversations of other programs, and reports what it could not use instead of refusing it.
LENIENT = ("/v1/harmony/render",)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cases", type=int, default=20)
    cases = options.parse_args().cases
    statuses: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        context = application(ObedientEngine(), Path(folder))
        app, _ = runner.run(context.__aenter__())
        try:
            document = runner.run(ask(app, "GET", "/openapi.json")).json
            schema = schemathesis.openapi.from_dict(document)
            schema.config.base_url = "http://localhost"
            for result in schema.get_all_operations():
                operation = result.ok()
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    _probe(runner, app, operation, mode, cases, statuses)
        finally:
            runner.run(context.__aexit__(None, None, None))
    print("schemathesis: statuses " + ", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items())))
    print(f"schemathesis: {sum(statuses.values()):,} cases, 0 failures")


@st.composite
def _cases(draw: Any, strategy: Any) -> Any:
    try:
        return draw(strategy)
    except InvalidSchema:
        reject()  # schemathesis cannot negate every union of arrays: such a case is left out


def _probe(runner: Any, app: Any, operation: Any, mode: Any, cases: int, statuses: Counter[int]) -> None:
    is_strict = mode is GenerationMode.NEGATIVE and operation.path not in LENIENT
    checks = [*CHECKS, negative_data_rejection] if is_strict else CHECKS

    # No shrinking: a failure is shown as it was found.
    @seed(1)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=_cases(operation.as_strategy(generation_mode=mode)))
    def probe(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict) and "model" in case.body:
            case.body["model"] = ObedientEngine.model  # with any other name, that is all that is looked at
        given = case.as_transport_kwargs(base_url="http://localhost")
        given = {name: each for name, each in given.items() if name in _TAKEN}
        prepared = requests.Request(**given).prepare()
        body: Any = prepared.body
        data = body.encode() if isinstance(body, str) else body
        target = urlsplit(str(prepared.url))
        headers = [
            (name.lower().encode("latin-1"), (each if isinstance(each, bytes) else each.encode("latin-1", "replace")))
            for name, each in prepared.headers.items()
        ]
        headers = [each for each in headers if each[0] != b"content-length"]
        path = target.path + (f"?{target.query}" if target.query else "")
        answer = runner.run(ask(app, str(prepared.method), path, data, headers))
        statuses[answer.status] += 1
        headers_of = {name: [each] for name, each in answer.headers.items()}
        made = schemathesis.Response(answer.status, headers_of, answer.body, prepared, 0.0, verify=True)
        try:
            case.validate_response(made, checks=checks)
        except BaseExceptionGroup as error:
            why = "; ".join(map(str, error.exceptions))
            told = f"{prepared.method} {path} {headers}\n{data!r}\n{answer.status} {answer.body[:1500]!r}"
            raise AssertionError(f"{operation.label}, {mode.value}: {why}\n{told}") from None

    # Where there is nothing to get wrong, there are no wrong requests.
    with suppress(Unsatisfiable):
        probe()


_TAKEN = ("method", "url", "headers", "params", "json", "data", "cookies")

if __name__ == "__main__":
    main()
