"""Texts that attack the page, in every place where it shows text: nothing runs, nothing leaves, everything can be read.

Each visit watches for what an attack would do: a call of `pwned`, a dialog, a window, a violation of the page's policy
(which would mean that only the policy stood in the way), a request to another server, another address of the page. The
fixtures add that the page says nothing to its console.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import FilePayload, expect

from tests.support.clients.page_payloads import PAYLOADS, mark_of, marked, named
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine
from tests.support.servers.page_server import PageServer


def _groups(size: int) -> list[range]:
    return [range(at, min(at + size, len(PAYLOADS))) for at in range(0, len(PAYLOADS), size)]


GROUPS: Final = _groups(19)  # a message takes twenty files

_WATCH: Final = """
  globalThis.attacks = [];
  globalThis.pwned = (how) => attacks.push(`ran: ${how}`);
  for (const name of ["alert", "confirm", "prompt", "print", "open"])
    globalThis[name] = (...given) => { attacks.push(`${name}: ${given}`); return null; };
  addEventListener("securitypolicyviolation", (event) =>
    attacks.push(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`), true);
"""

# What no text may have made. The page's own parts are buttons, inputs, forms without an address, SVG without handlers.
_LOOK: Final = """() => {
  const found = [...attacks];
  const bad = "script, iframe, frame, object, embed, img, image, use, video, audio, source, base, math, style, xmp, " +
    "form[action], [formaction], [ping], [srcdoc], meta[http-equiv], svg a, marquee, noscript, template";
  for (const element of document.getElementById("app").querySelectorAll(bad))
    if (element.closest(".katex-mathml") === null) found.push(`element: ${element.outerHTML.slice(0, 200)}`);
  for (const element of document.body.querySelectorAll("*"))
    for (const { name, value } of element.attributes)
      if (/^on/i.test(name)) found.push(`handler: ${name}=${value}`);
  for (const link of document.body.querySelectorAll("a[href]")) {
    const isOwn = link.getAttribute("href").startsWith("#/") || link.matches("a.skip:first-child");
    const isOut = /^(https?|mailto):$/.test(link.protocol) && link.target === "_blank" &&
      link.rel === "noopener noreferrer nofollow" && link.origin !== location.origin;
    if (!isOwn && !isOut) found.push(`link: ${link.outerHTML.slice(0, 200)}`);
    if (link.closest(".markdown") && isOwn) found.push(`link into the page: ${link.outerHTML.slice(0, 200)}`);
  }
  for (const link of document.querySelectorAll("link[rel~=stylesheet], script[src]"))
    if (!(link.href || link.src).startsWith(location.origin)) found.push(`loaded: ${link.outerHTML}`);
  if (({}).polluted !== undefined || Object.prototype.hasOwnProperty("x")) found.push("the prototype is polluted");
  if (document.getElementById("app")?.parentElement !== document.body) found.push("the page's root is hidden");
  for (const element of document.body.children)
    if (!element.matches("#app, noscript, script[src]")) found.push(`beside the page: ${element.localName}`);
  if (document.cookie !== "") found.push(`cookie: ${document.cookie}`);
  return found;
}"""

_OPEN_ALL: Final = """() => {
  const closed = [...document.querySelectorAll(":is(main, dialog) details:not([open]) > summary")];
  for (const summary of closed) summary.click();
  return closed.length;
}"""


def _open(open_page: OpenPage, server: PageServer, at: str = "") -> Visit:
    return open_page(server, at, init_script=_WATCH)


def _check(visit: Visit, at: str) -> None:
    visit.page.wait_for_timeout(100)  # handlers of elements that failed to load would run by now
    assert visit.page.evaluate(_LOOK) == []
    assert visit.page.url.split("#")[0] == f"{visit.server.url}/", at
    assert len(visit.context.pages) == 1


def _open_all(visit: Visit) -> None:
    for _ in range(4):  # what opens may have something to open
        if visit.page.evaluate(_OPEN_ALL) == 0:
            return
        visit.page.wait_for_timeout(50)


def _ask(server: PageServer, method: str, path: str, body: object) -> Any:
    request = Request(
        f"{server.url}/v1/{path}",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
        method=method,
    )
    with urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def _text(text: str, type_: str = "output_text", **more: object) -> dict[str, object]:
    return {"type": type_, "text": text, **more}


def _user_items(index: int) -> list[dict[str, Any]]:
    data = b64encode(marked(index).encode()).decode()
    file = {"type": "input_file", "filename": named(index), "file_data": f"data:text/plain;base64,{data}"}
    return [{"type": "message", "role": "user", "content": [_text(marked(index), "input_text"), file]}]


def _answer_items(index: int) -> list[dict[str, Any]]:
    """The payload as all that an answer can have."""
    text, name = marked(index), named(index)
    arguments = json.dumps({name: [text, {"__proto__": {"polluted": name}}], "__proto__": {"polluted": 1}})
    address = {"type": "url_citation", "start_index": 0, "end_index": 2, "url": PAYLOADS[index], "title": name}
    far = {**address, "url": "https://evil.example/" + PAYLOADS[index]}
    return [
        {"type": "reasoning", "id": f"rs_{index}", "summary": [], "content": [_text(text, "reasoning_text")]},
        {
            "type": "message",
            "role": "assistant",
            "phase": "commentary",
            "id": f"msg_c{index}",
            "content": [_text(text, annotations=[])],
        },
        {
            "type": "function_call",
            "id": f"fc_{index}",
            "call_id": f"call_{index}",
            "name": name,
            "arguments": arguments,
        },
        {"type": "function_call_output", "call_id": f"call_{index}", "output": text},
        {
            "type": "mcp_call",
            "id": f"mcp_{index}",
            "name": name,
            "server_label": name,
            "arguments": text,
            "output": arguments,
            "error": None,
        },
        {
            "type": "mcp_call",
            "id": f"mcq_{index}",
            "name": name,
            "server_label": "__proto__",
            "arguments": arguments,
            "output": None,
            "error": text,
        },
        {"type": "mcp_approval_request", "id": f"ask_{index}", "name": name, "server_label": name, "arguments": text},
        {"type": name[:64], "id": name, "text": text},
        {
            "type": "message",
            "role": "assistant",
            "phase": "final_answer",
            "id": f"msg_{index}",
            "content": [_text(text, annotations=[address, far])],
        },
    ]


def _stored_chat(server: PageServer, group: range) -> str:
    first = named(group[0])[:200]
    settings = {
        "identity": marked(group[0]),
        "instructions": marked(group[0]),
        "tools_off": [first],
        "functions": [{"type": "function", "name": first}],
    }
    chat = _ask(server, "POST", "chats", {"title": first, "settings": settings})["id"]
    parent = None
    for index in group:
        for role, items in (("user", _user_items(index)), ("assistant", _answer_items(index))):
            turn = f"turn_{role}{index}"
            words = named(index)
            details = {
                "model": words,
                "error": {"kind": "engine", "message": words, "code": words},
                "incomplete": words,
                "warnings": [words],
            }
            body = {
                "id": turn,
                "parent": parent,
                "role": role,
                "items": items,
                "status": "failed" if role == "assistant" and index % 2 else "completed",
                "created_at": 1.0 + index,
                "details": details if role == "assistant" else {},
            }
            _ask(server, "PUT", f"chats/{chat}/turns/{turn}", body)
            parent = turn
    return chat


@pytest.mark.parametrize("group", _groups(46), ids=lambda group: mark_of(group[0]))
def test_a_stored_chat_full_of_attacks_does_nothing(
    start_server: StartServer, open_page: OpenPage, group: range
) -> None:
    server = start_server()
    chat = _stored_chat(server, group)
    visit = _open(open_page, server, f"#/chat/{chat}")
    visit.page.wait_for_selector(f"#turn_assistant{group[-1]} .markdown > *")
    _open_all(visit)
    for index in group:
        for role in ("user", "assistant"):
            # Not the inner text: what is far away is not laid out.
            shown = visit.page.locator(f"#turn_{role}{index}").text_content() or ""
            assert mark_of(index) in shown, (role, PAYLOADS[index])
    _check(visit, chat)
    visit.page.emulate_media(media="print")
    _check(visit, chat)


def test_titles_full_of_attacks_do_nothing(start_server: StartServer, open_page: OpenPage) -> None:
    server = start_server()
    for index in range(len(PAYLOADS)):
        _ask(server, "POST", "chats", {"title": named(index)[:200]})
    visit = _open(open_page, server)
    sidebar = visit.page.locator(".sidebar")
    sidebar.get_by_text(mark_of(len(PAYLOADS) - 1)).first.wait_for()
    while (older := sidebar.get_by_role("button", name="Older chats")).count():
        older.click()
        visit.page.wait_for_timeout(100)
    shown = sidebar.inner_text()
    assert [index for index in range(len(PAYLOADS)) if mark_of(index) not in shown] == []
    _check(visit, "titles")
    visit.page.keyboard.press("Control+k")
    visit.page.locator("dialog input").first.fill("mark0")
    visit.page.locator("dialog").get_by_text("mark0").first.wait_for()
    _check(visit, "search")


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: mark_of(group[0]))
def test_an_answer_that_streams_attacks_does_nothing(
    start_server: StartServer, open_page: OpenPage, group: range
) -> None:
    # The engine may say what it likes; control tokens it spells out are tokens, so their spelling is broken here.
    text = "\n\n".join(marked(index) for index in group).replace("<|", "<\u200b|")
    answer = f"<|channel|>analysis<|message|>{text}<|end|><|start|>assistant<|channel|>final<|message|>{text}<|return|>"
    server = start_server(ScriptedEngine(answer, chunk=3))
    visit = _open(open_page, server)
    box = visit.page.locator("[data-composer]")
    box.fill(text)
    box.press("Enter")
    visit.page.locator(".from-assistant[aria-busy=false] .markdown").get_by_text(mark_of(group[-1])).first.wait_for()
    _open_all(visit)
    shown = visit.page.locator("main").text_content() or ""
    assert [index for index in group if shown.count(mark_of(index)) < 2] == []
    _check(visit, "stream")


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: mark_of(group[0]))
def test_attached_and_imported_files_full_of_attacks_do_nothing(
    start_server: StartServer, open_page: OpenPage, group: range
) -> None:
    server = start_server()
    visit = _open(open_page, server)
    files: list[FilePayload] = []
    for index in group:
        messages = [{"role": "user", "content": marked(index)}, {"role": "assistant", "content": marked(index)}]
        name = named(index).replace("/", "\u2215").replace("\\", "\u2216").replace("\0", "")[:200]
        files.append({"name": name, "mimeType": "text/plain", "buffer": json.dumps({"messages": messages}).encode()})
    visit.page.set_input_files(".composer input[type=file]", files)
    visit.page.locator(".composer .files").get_by_text(mark_of(group[-1])).first.wait_for()
    _check(visit, "attached")
    visit.page.locator(".sidebar").get_by_role("button", name="Import").click()
    visit.page.set_input_files("dialog input[type=file]", files)
    visit.page.get_by_role("dialog").get_by_role("button", name="Import", exact=True).click()
    visit.page.locator("dialog [role=status]").get_by_text(mark_of(group[-1])).first.wait_for()
    _open_all(visit)
    shown = visit.page.locator("dialog [role=status]").inner_text()
    assert [index for index in group if mark_of(index) not in shown] == []
    _check(visit, "imported")


def _harmony(index: int) -> str:
    text, name = marked(index), PAYLOADS[index].replace("\n", " ")
    return (
        f"<|start|>user:{name}<|message|>{text}<|end|>"
        f"<|start|>assistant<|channel|>analysis<|message|>{text}<|end|>"
        f"<|start|>assistant to=functions.{name}<|channel|>commentary <|constrain|>{name}<|message|>{text}<|call|>"
        f"<|start|>{name} to=assistant<|channel|>{name}<|message|>{text}<|end|>"
    )


@pytest.mark.parametrize("kind", ["harmony", "chat", "text"])
@pytest.mark.parametrize("group", _groups(46), ids=lambda group: mark_of(group[0]))
def test_a_trace_full_of_attacks_does_nothing(
    start_server: StartServer, open_page: OpenPage, group: range, kind: str
) -> None:
    if kind == "harmony":
        given = "".join(_harmony(index) for index in group)
    elif kind == "chat":
        given = json.dumps({"messages": [message for index in group for message in _completion(index)]})
    else:
        given = "\n".join(marked(index) for index in group)
    visit = _open(open_page, start_server(), "#/inspect")
    form = visit.page.get_by_role("form", name="What to inspect")
    form.locator("textarea").first.fill(given)
    form.get_by_role("button", name="Inspect", exact=True).click()
    found = "(mark) => document.querySelector('main').textContent.includes(mark)"
    visit.page.wait_for_function(found, arg=mark_of(group[0]))
    _open_all(visit)
    _check(visit, kind)
    for index in range(visit.page.get_by_role("tab").count()):
        visit.page.get_by_role("tab").nth(index).click()
        visit.page.wait_for_timeout(100)
        _check(visit, f"{kind}, tab {index}")


def _completion(index: int) -> list[dict[str, object]]:
    text, name = marked(index), named(index)
    call = {
        "id": f"call_{index}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps({name: text})},
    }
    return [
        {"role": "user", "content": text, "name": name},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{index}", "content": text},
        {"role": "assistant", "content": text},
    ]


def test_the_watch_sees_what_an_attack_would_do(start_server: StartServer, open_page: OpenPage) -> None:
    visit = _open(open_page, start_server())
    visit.expects_complaints = True
    visit.page.evaluate("""() => {
      const main = document.querySelector("main");
      pwned("it");
      alert("it");
      const link = document.createElement("a");
      link.href = "javascript:pwned(1)";
      const frame = document.createElement("iframe");
      const image = document.createElement("img");
      image.src = "https://evil.example/x.png";
      main.append(link, frame, image);
    }""")
    visit.page.wait_for_timeout(200)
    found = [line.split(":")[0] for line in visit.page.evaluate(_LOOK)]
    assert {"ran", "alert", "policy", "element", "link"} <= set(found)
    visit.strayed.clear()


def test_a_stored_chat_whose_items_have_wrong_types_is_shown_as_far_as_it_can_be_read(
    start_server: StartServer, open_page: OpenPage
) -> None:
    server = start_server()
    odd: list[dict[str, Any]] = [
        {"type": "message", "role": "assistant", "content": 7},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": {"no": "text"}}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": 7}]},
        {"type": "reasoning", "content": "a text", "summary": {"no": "list"}},
        {"type": "function_call", "name": ["f"], "call_id": 7, "arguments": {}},
        {"type": "function_call_output", "call_id": {}, "output": {"no": "text"}},
        {"type": "mcp_call", "name": 1, "server_label": 2, "arguments": 3, "output": 4, "error": 5},
        {"type": "mcp_approval_request", "name": {}, "server_label": [], "arguments": None},
    ]
    chat = _ask(server, "POST", "chats", {"title": "Odd", "settings": {"instructions": 7, "tools_off": "x"}})["id"]
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Still here."}]}
    details: dict[str, Any] = {
        "usage": "much",
        "warnings": 7,
        "item_s": [],
        "sampled": {},
        "error": "broken",
        "model": ["m"],
    }
    turn: dict[str, Any] = {
        "id": "turn_1",
        "parent": None,
        "role": "assistant",
        "items": [*odd, said],
        "status": "completed",
        "created_at": 1.0,
        "details": details,
    }
    _ask(server, "PUT", f"chats/{chat}/turns/turn_1", turn)
    # The visit fails at its end if anything was thrown.
    visit = _open(open_page, server, f"#/chat/{chat}")
    expect(visit.page.locator("#turn_1")).to_contain_text("Still here.")
    expect(visit.page.locator("#turn_1")).to_contain_text(f"{len(odd)} items of this turn could not be read")
