"""The OpenAPI document: valid, complete in both directions, true of the real server; and the page made of it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import jsonschema
import msgspec
import pytest

from harmonia.run.engines.demo import DemoEngine
from harmonia.serve.app import Application
from harmonia.serve.config.settings import Limits, Settings
from harmonia.serve.http.ports import address_for_clients
from harmonia.serve.openapi.docs_page import STYLE, write_page
from harmonia.serve.openapi.document import build_openapi, error_codes
from tests.support.servers.http_servers import FakeService, running
from tests.support.servers.served import served

Json = dict[str, Any]

DOCUMENT = build_openapi(Settings(), ("gpt-oss-20b",))
METHODS = ("get", "post", "put", "patch", "delete")
# Paths of the two APIs are there without the version as well, for clients that bring it in their base address.
_ALIASES = re.compile(r"/(responses|chat)(/|$)")


def operations(document: Json = DOCUMENT) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        entries = cast("Json", value)
        if isinstance(entries.get("$ref"), str):
            yield entries["$ref"]
        for each in entries.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from references(each)


def resolve(reference: str) -> Any:
    found: Any = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def check(value: Any, schema: Json) -> None:
    """Validate a value against a schema of the document."""
    validator: Any = jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})
    validator.validate(value)


# ── the document ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_has_the_structure_of_openapi() -> None:
    definitions = pytest.importorskip("schemathesis.specs.openapi.definitions")
    validator: Any = jsonschema.Draft202012Validator(definitions.OPENAPI_31)
    validator.validate(DOCUMENT)


def test_it_is_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(DOCUMENT)) == DOCUMENT


def test_every_reference_leads_somewhere_and_every_schema_is_referred_to() -> None:
    found = set(references(DOCUMENT))
    for reference in found:
        assert resolve(reference) is not None
    for kind in ("schemas", "responses", "headers", "parameters"):
        for name in DOCUMENT["components"][kind]:
            assert f"#/components/{kind}/{name}" in found, name


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_every_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


def test_every_route_is_in_it_and_nothing_else() -> None:
    app = Application(FakeService(), Settings(port=0))
    served_here = {
        (re.sub(r":\w+}", "}", route.path), method.lower())
        for route in app.routes
        for method in (route.methods or ())
        if method != "HEAD" and route.name != "page_file"  # the page's own files are no API
    }
    aliases = {(path, method) for path, method in served_here if _ALIASES.match(path)}
    assert {(f"/v1{path}", method) for path, method in aliases} <= served_here
    assert {(path, method) for path, method, _ in operations()} == served_here - aliases


def test_operations_have_ids_of_their_own_tags_and_sentences() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(ids)) == len(ids)
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    for path, _, operation in operations():
        assert set(operation["tags"]) <= tags, path
        assert operation["summary"], path


def test_parameters_of_paths_are_those_of_the_templates() -> None:
    for path, _, operation in operations():
        told = {each["name"] for each in operation.get("parameters", ()) if each.get("in") == "path"}
        assert told == set(re.findall(r"{(\w+)}", path)), path


def test_every_error_has_the_one_shape() -> None:
    for path, _, operation in operations():
        for status, answer in operation["responses"].items():
            answer = resolve(answer["$ref"]) if "$ref" in answer else answer
            assert "x-request-id" in answer["headers"], (path, status)
            if int(status) >= 400 and status not in ("422", "503"):
                assert answer["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}


def test_examples_fit_their_schemas() -> None:
    bodies = [
        each["requestBody"]["content"]["application/json"] for _, _, each in operations() if "requestBody" in each
    ]
    assert len(bodies) >= 8
    for body in bodies:
        check(body["example"], body["schema"])


def test_what_is_refused_is_not_promised() -> None:
    body = {"$ref": "#/components/schemas/CreateResponse"}
    check({"input": "Hi", "temperature": 1, "previous_response_id": None}, body)
    check({"input": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function", "name": "f"}]}, body)
    for wrong in (
        {},
        {"input": None},
        {"input": "Hi", "prompt": {"id": "x"}},
        {"input": "Hi", "background": True},
        {"input": "Hi", "colour": "red"},
        {"input": "Hi", "temperature": 3},
        {"input": [{"type": "message", "content": "Hi"}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            check(wrong, body)
    for wrong in ({}, {"text": "x", "tokens": [1]}, {"text": None}):
        with pytest.raises(jsonschema.ValidationError):
            check(wrong, {"$ref": "#/components/schemas/ParseRequest"})


def test_the_settings_are_in_it_and_no_secret_is() -> None:
    settings = Settings(
        engine="http://user:secret@10.0.0.5:8000",
        engine_api_key="secret",
        engine_options={"headers": "secret"},
        api_key_file="/etc/secret/keys",
        store="sqlite:////var/secret.sqlite3",
        dialect="open-responses",
        limits=Limits(body_bytes=12_345),
    )
    document = build_openapi(settings)
    text = msgspec.json.encode(document).decode()
    assert "secret" not in text and "10.0.0.5" not in text
    assert "12,345" in document["info"]["description"]
    assert document["components"]["parameters"]["Dialect"]["schema"]["default"] == "open-responses"
    assert document["security"] == [{"apiKey": []}]
    assert {} in DOCUMENT["security"]


def test_the_real_server_answers_as_the_document_says(tmp_path: Path) -> None:
    async def talk() -> None:
        async with served(DemoEngine(), tmp_path) as service, running(cast(FakeService, service)) as server:
            document = (await server.ask("GET", "/openapi.json")).json
            assert document == build_openapi(service.settings, service.model_names)
            created = await server.ask("POST", "/v1/responses", {"input": "Hi"})
            response_id = created.json["id"]
            chat_id = (await server.ask("POST", "/v1/chats", {})).json["id"]
            # The last ones delete it: what is inside first.
            steps = sorted(operations(document), key=lambda each: (each[1] == "delete", -each[0].count("/")))
            for path, method, operation in steps:
                content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                known_id = chat_id if path.startswith("/v1/chats/") else response_id
                asked = path.replace("{id}", known_id).replace("{model}", service.model_names[0])
                asked = asked.replace("{turn}", "turn_1")
                answer = await server.ask(method.upper(), asked, content.get("example"))
                assert answer.status == 200, (path, answer.body)
                told = operation["responses"]["200"]["content"]
                media_type = answer.headers["content-type"].partition(";")[0]
                assert media_type in told, path
                if media_type == "application/json":
                    check(answer.json, told[media_type]["schema"])
            strict = {"text": "<|end|>", "mode": "strict", "output": "events"}
            fault = await server.ask("POST", "/v1/harmony/parse", strict)
            check(fault.json, {"$ref": "#/components/schemas/MalformedHarmony"})
            refused = await server.ask("POST", "/v1/responses", {"input": "Hi", "colour": "red"})
            check(refused.json, {"$ref": "#/components/schemas/Error"})

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("render", {"messages": [{"role": "user", "content": "a <|end|>"}], "training": True}),
        ("parse", {"text": "stray<|start|>assistant<|channel|>final<|message|>x", "output": "messages"}),
        ("parse", {"tokens": [200007, 999999, -1], "output": "events"}),
        ("parse", {"text": "<|start|>assistant to=x<|message|>{<|call|>", "output": "parts"}),
        ("parse", {"text": "<|start|>assistant to=x<|message|>{<|call|>", "output": "normalized"}),
        ("inspect", {"tokens": [200007, 999999, -1, 200008, 5], "include": ["ids", "token_table", "text"]}),
        ("inspect", {"text": "<|start|>user<|message|>x<|end|>", "role": "assistant", "include": ["token_table"]}),
        ("tokenize", {"text": "<|end|>", "special": True, "output": "pieces"}),
    ],
)
def test_answers_about_damaged_input_fit_their_schemas(verb: str, body: Json) -> None:
    async def talk() -> None:
        async with running() as server:
            answer = await server.ask("POST", f"/v1/harmony/{verb}", body)
            assert answer.status == 200
            path = DOCUMENT["paths"][f"/v1/harmony/{verb}"]["post"]
            check(answer.json, path["responses"]["200"]["content"]["application/json"]["schema"])

    asyncio.run(talk())


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Read(HTMLParser):
    """The tags, ids, links and texts of a page; an opening tag that is not closed is noticed."""

    VOID = ("meta", "br", "hr")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(document: Json = DOCUMENT) -> str:
    return write_page(document, "http://localhost:8765", error_codes())


def test_the_page_lists_every_endpoint_field_and_error_with_an_example() -> None:
    page = page_of()
    read = Read(page)
    assert read.open == []
    for path, method, operation in operations():
        assert f"{method} {path}" in read.text
        assert operation["operationId"] in read.ids
    assert read.text.count("curl ") == len(list(operations()))
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert f"schema-{name}" in read.ids
        for field in schema.get("properties", ()):
            assert f"&quot;{field}&quot;: " in page
    for _, _, code, ours in error_codes():
        assert code in read.text and ours in read.text


def test_links_of_the_page_lead_to_places_in_it_and_ids_are_unique() -> None:
    read = Read(page_of())
    assert len(set(read.ids)) == len(read.ids)
    for link in read.links:
        assert link == "/openapi.json" or link.removeprefix("#") in read.ids, link


def test_nothing_in_the_page_is_run_or_fetched() -> None:
    read = Read(page_of())
    assert not read.tags & {"script", "img", "link", "iframe", "object", "form", "svg", "base"}
    assert not any(name.startswith("on") or name in ("style", "src") for name in read.attributes)
    assert "url(" not in STYLE and "@import" not in STYLE


def test_everything_in_the_page_is_escaped() -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=y>`</code>'

    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: spoil(each) for name, each in cast("Json", value).items()}
        if isinstance(value, list):
            return [spoil(each) for each in cast("list[Any]", value)]
        return value + evil if isinstance(value, str) and " " in value else value

    document = spoil(DOCUMENT)
    document["components"]["schemas"]["Model"]["properties"][evil] = {"const": evil, "default": evil}
    document["components"]["schemas"][evil] = {"type": "object", "properties": {evil: {"enum": [evil]}}}
    document["info"]["title"] = evil
    page = write_page(document, "http://localhost", [(400, evil, evil, evil)])
    read = Read(page)
    assert not read.tags & {"script", "img"}
    assert "alert(1)" in read.text


def test_an_example_survives_the_shell() -> None:
    document = build_openapi(Settings())
    body = document["paths"]["/v1/harmony/tokenize"]["post"]["requestBody"]["content"]["application/json"]
    body["example"] = {"text": "it's $HOME `id`"}
    read = Read(write_page(document, "http://localhost"))
    assert "'{\"text\": \"it'\\''s $HOME `id`\"}'" in read.text


def test_the_page_is_sent_under_a_policy_that_allows_its_style_alone() -> None:
    async def talk() -> None:
        async with running() as server:
            answer = await server.ask("GET", "/docs")
            assert answer.status == 200
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            found = re.findall(r"<style>(.*?)</style>", answer.body.decode(), re.DOTALL)
            assert len(found) == 1
            digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
            policy = answer.headers["content-security-policy"]
            assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
            assert "unsafe" not in policy and "http" not in policy

    asyncio.run(talk())


def test_examples_are_sent_where_the_server_is() -> None:
    assert address_for_clients("127.0.0.1", 9) == "http://127.0.0.1:9"
    assert address_for_clients("::1", 9) == "http://[::1]:9"
    assert address_for_clients("0.0.0.0", 9) == "http://127.0.0.1:9"


def test_examples_bring_a_key_where_one_is_needed() -> None:
    assert "Bearer" not in page_of()
    page = write_page(build_openapi(Settings(api_key_file="keys.json")), "http://localhost")
    # Not for /health and /ready, nor for the page, which is the same for all.
    assert page.count("Authorization: Bearer") == len(list(operations())) - 3
