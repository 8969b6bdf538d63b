"""The documentation page: one HTML text, made of the OpenAPI document.

No script, no font, no image, nothing from elsewhere: it is read without JavaScript, and under a policy that forbids all
of these. Everything that stands in it is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final, cast

from harmonia.messages import Json

STYLE: Final = """
:root { color-scheme: light dark; --line: #8885; --soft: #8882; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
h3 { margin: 2.5rem 0 .25rem; } nav ul { columns: 22rem; padding-left: 1.2rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; margin: .75rem 0; display: block; overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
.method { text-transform: uppercase; font-weight: 700; } summary { cursor: pointer; margin: .5rem 0; }
a:focus-visible, summary:focus-visible { outline: 2px solid; outline-offset: 2px; }
"""

_METHODS: Final = ("get", "post", "put", "patch", "delete")
_MOST_WORDS: Final = 12


def write_page(document: Json, base_url: str, error_codes: Sequence[tuple[int, str, str, str]] = ()) -> str:
    """The page. `base_url` is where the examples send their requests."""
    return "\n".join(_Page(document, base_url).lines(error_codes)) + "\n"


class _Page:
    def __init__(self, document: Json, base_url: str) -> None:
        self._document = document
        self._base_url = base_url
        self._needs_key = {} not in document["security"]

    def lines(self, error_codes: Sequence[tuple[int, str, str, str]]) -> Iterator[str]:
        info = self._document["info"]
        title = f"{info['title']} {info['version']}"
        yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
        yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
        yield f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>"
        yield f"<header><h1>{escape(title)}</h1>\n{_prose(info['description'])}"
        yield '<p>The same as <a href="/openapi.json">OpenAPI</a>, for programs.</p></header>'
        yield from self._contents()
        yield "<main>"
        for tag in self._document["tags"]:
            yield f"<section><h2>{escape(tag['name'])}</h2>\n{_prose(tag['description'])}"
            for path, method, operation in self._operations(tag["name"]):
                yield from self._describe(path, method, operation)
            yield "</section>"
        yield from _errors(error_codes)
        yield from self._schemas()
        yield "</main>\n</body>\n</html>"

    def _operations(self, tag: str) -> Iterator[tuple[str, str, Json]]:
        for path, methods in self._document["paths"].items():
            for method in _METHODS:
                if method in methods and tag in methods[method]["tags"]:
                    yield path, method, methods[method]

    def _contents(self) -> Iterator[str]:
        yield '<nav aria-label="Endpoints"><ul>'
        for tag in self._document["tags"]:
            for path, method, operation in self._operations(tag["name"]):
                target = escape(operation["operationId"])
                yield f'<li><a href="#{target}"><code>{method.upper()} {escape(path)}</code></a></li>'
        yield '<li><a href="#errors">Errors</a></li><li><a href="#schemas">Schemas</a></li></ul></nav>'

    def _describe(self, path: str, method: str, operation: Json) -> Iterator[str]:
        target = escape(operation["operationId"])
        yield f'<article><h3 id="{target}">{escape(operation["summary"])}</h3>'
        yield f'<p><code><span class="method">{method}</span> {escape(path)}</code></p>'
        yield _prose(operation.get("description", ""))
        if parameters := operation.get("parameters"):
            rows = [self._parameter(self._resolved(each)) for each in parameters]
            yield _table(("Parameter", "In", "Type", ""), rows)
        body = operation.get("requestBody")
        if body is not None:
            schema = body["content"]["application/json"]["schema"]
            yield f"<details><summary>Fields of the body</summary>{self._fields(schema)}</details>"
        yield f"<pre>{escape(self._curl(path, method, operation))}</pre>"
        rows = [self._answer(status, self._resolved(each)) for status, each in operation["responses"].items()]
        yield _table(("Status", "Body", ""), rows)
        yield "</article>"

    def _parameter(self, parameter: Json) -> Sequence[str]:
        said = _words(parameter.get("description", ""))
        return (_code(parameter["name"]), escape(parameter["in"]), self._kind(parameter["schema"]), said)

    def _answer(self, status: str, answer: Json) -> Sequence[str]:
        kinds = [
            self._kind(each["schema"]) if media_type == "application/json" else _code(media_type)
            for media_type, each in answer["content"].items()
        ]
        return escape(status), " or ".join(kinds), _words(answer["description"])

    def _curl(self, path: str, method: str, operation: Json) -> str:
        shown = (
            path.replace("{id}", "chat_123" if "/chats/" in path else "resp_123")
            .replace("{turn}", "turn_1")
            .replace("{model}", "gpt-oss-20b")
        )
        lines = [f"curl {self._base_url}{shown}"]
        if method != "get":
            lines[0] = f"curl -X {method.upper()} {self._base_url}{shown}"
        if self._needs_key and operation.get("security") != []:
            lines.append("-H 'Authorization: Bearer YOUR_KEY'")
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]["application/json"]
            example = json.dumps(content.get("example", {}), ensure_ascii=False).replace("'", "'\\''")
            if method == "post":
                lines[0] = f"curl {self._base_url}{shown}"  # data makes it one
            lines += ["-H 'Content-Type: application/json'", f"-d '{example}'"]
        return " \\\n  ".join(lines)

    # ── schemas ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _schemas(self) -> Iterator[str]:
        yield '<section><h2 id="schemas">Schemas</h2>'
        for name, schema in self._document["components"]["schemas"].items():
            shown = escape(name)
            yield f'<article><h3 id="schema-{shown}"><code>{shown}</code></h3>{_prose(schema.get("description", ""))}'
            yield f"{self._fields(schema)}</article>"
        yield "</section>"

    def _fields(self, schema: Json) -> str:
        schema = self._resolved(schema)
        properties = schema.get("properties")
        if not properties:
            return f"<p>{self._kind(schema)}</p>"
        required = schema.get("required", ())
        rows = [
            (_code(name) + (" (required)" if name in required else ""), self._kind(each), self._said(each))
            for name, each in properties.items()
        ]
        return _table(("Field", "Type", ""), rows)

    def _said(self, schema: Json) -> str:
        said = _words(schema.get("description", ""))
        if "default" in schema:
            said += f" By default {_code(json.dumps(schema['default']))}."
        return said.strip()

    def _kind(self, schema: Json) -> str:
        """The type in a few words, with links to what has a name."""
        if "$ref" in schema:
            name = escape(schema["$ref"].rpartition("/")[2])
            return f'<a href="#schema-{name}">{name}</a>'
        for word in ("anyOf", "oneOf"):
            if word in schema and "properties" not in schema:
                return " or ".join(dict.fromkeys(self._kind(each) for each in schema[word]))
        if "allOf" in schema:
            return " with ".join(self._kind(each) for each in schema["allOf"])
        if "const" in schema:
            return _code(json.dumps(schema["const"]))
        if "enum" in schema:
            values = [_code(json.dumps(value)) for value in schema["enum"]]
            return ", ".join(values[:_MOST_WORDS]) + (", …" if len(values) > _MOST_WORDS else "")
        match schema.get("type"):
            case "array":
                return f"list of {self._kind(schema.get('items') or {})}"
            case "object" if schema.get("properties"):
                return "object of " + ", ".join(_code(name) for name in schema["properties"])
            case str() as kind:
                bounds = _bounds(schema)
                return escape(kind) + (f" ({escape(bounds)})" if bounds else "")
            case _:
                return "anything"

    def _resolved(self, value: Json) -> Json:
        if "$ref" not in value:
            return value
        found: Any = self._document
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return self._resolved(cast(Json, found))


def _bounds(schema: Json) -> str:
    words = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "more than",
        "minLength": "characters: at least",
        "maxLength": "characters: at most",
    }
    return ", ".join(f"{said} {schema[name]}" for name, said in words.items() if name in schema)


def _errors(codes: Sequence[tuple[int, str, str, str]]) -> Iterator[str]:
    yield '<section><h2 id="errors">Errors</h2>'
    yield _prose('All have one shape: `{"error": {"message", "type", "param", "code"}}`. Programs go by `code`.')
    rows = [(str(status), _code(kind), _code(code), _code(ours)) for status, kind, code, ours in codes]
    yield _table(("Status", "Type", "Code", "In docs/reference/errors.md"), rows)
    yield "</section>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f'<th scope="col">{escape(each)}</th>' for each in head)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead>\n<tbody>{body}</tbody></table>"


def _prose(text: str) -> str:
    return "\n".join(f"<p>{_words(each)}</p>" for each in text.split("\n\n") if each)


def _words(text: str) -> str:
    """A sentence, in which backticks mark code."""
    return "".join(_code(piece) if number % 2 else escape(piece) for number, piece in enumerate(text.split("`")))


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
