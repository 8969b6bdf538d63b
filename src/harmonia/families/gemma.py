"""The formats of Google's Gemma models, and Gemini's JSON in text:

    ```tool_code                                                    Gemma 3, as its documentation asks for: Python in a
    get_weather(city="Oslo")                                        code fence; or a list of calls as the whole answer
    ```
    <start_function_call>call:get_weather{city:<escape>Oslo<escape>}<end_function_call>              FunctionGemma
    <|tool_call>call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>                                    Gemma 4
    {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}                              Gemini's API
    <|channel>thought … <channel|>                                                                   thoughts of Gemma 4

All of them are read, Python without evaluating anything (python_calls.py). They are written as the model was taught:
GEMMA_3 is the family of the tool format `gemini`; FUNCTION_GEMMA and GEMMA_4 are its variants (see registry.py).

Sources: ai.google.dev/gemma/docs/capabilities/function-calling, …/gemma/docs/meme-generator (tool_code, tool_output),
…/gemma/docs/functiongemma/formatting-and-best-practices, and Gemma 4's chat template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, cast

from harmonia.families.call_bodies import Body, HeldBody, ReadCall
from harmonia.families.json_calls import bare_passages, calls_in
from harmonia.families.passages import ANYWHERE, Layout, Passage, all_marks, ends, forged, literal
from harmonia.families.python_calls import LIST_OF_CALLS, parameter_names, python_name, read_cut_list, read_python_calls
from harmonia.families.reader import TextReader
from harmonia.families.registry import DEFAULT_READING, Family, Reader, ReadingOptions, ToolFormat
from harmonia.families.tool_descriptions import described_as_openai, result_text
from harmonia.json_codec import read_json
from harmonia.messages import ToolDescription

# Gemma 4 names the channel of its thoughts, and may close it right after the name: `<|channel>thought<channel|>`.
_CHANNEL: Final = "<|channel>"
_LABEL: Final = "thought"
_THINKING: Final = (
    (f"{_CHANNEL}{_LABEL}\n", "<channel|>"),
    (_CHANNEL, "<channel|>"),
    ("<think>", "</think>"),
)
ESCAPE: Final = "<escape>"
QUOTE: Final = '<|"|>'

_HEAD: Final = re.compile(r"\s*(?:call\s*:\s*)?(?P<name>[\w.:/-]+)\s*(?=\{)")
_QUOTED: Final = re.compile(r"\s*(?:<escape>(.*?)<escape>|<\|\"\|>(.*?)<\|\"\|>|\"((?:[^\"\\]|\\.)*)\")", re.DOTALL)
_BARE: Final = re.compile(r"[^,:{}\[\]]*")
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_DEEPEST: Final = 60


def _code_body(options: ReadingOptions, _mark: str) -> Body:
    parameters = parameter_names(options.descriptions)

    def read(text: str) -> list[ReadCall]:
        # Between these marks some write the JSON that other models would.
        calls = read_python_calls(text, parameters)
        as_json = [] if calls else calls_in(text, options.tools)
        return calls or [
            ReadCall(name, arguments, 0, 0, 0 if index else len(text))
            for index, (name, arguments) in enumerate(as_json)
        ]

    return HeldBody(read, is_python=True)


def _list_body(options: ReadingOptions, _mark: str) -> Body:
    parameters = parameter_names(options.descriptions)
    return HeldBody(
        lambda text: read_python_calls(text, parameters) or None,
        is_python=True,
        ends_itself=True,
        read_cut=lambda text: read_cut_list(text, options.tools),
    )


def _braces_body(_options: ReadingOptions, _mark: str) -> Body:
    return HeldBody(read_gemma_call, has_strings=False)


@cache
def _layout(thinking: tuple[tuple[str, str], ...], with_bare_calls: bool) -> Layout:
    fence_end = literal("```")
    # Without tools, text that no mark announces is an answer.
    python_list = Passage("call", LIST_OF_CALLS, body=_list_body, keeps_mark=True, may_be_text=True)
    return Layout(
        [
            *(
                Passage("thought", literal(opens), literal(closes), label=_LABEL if opens == _CHANNEL else "")
                for opens, closes in thinking
            ),
            Passage("call", literal("```tool_code"), fence_end, body=_code_body, may_stray=False),
            Passage("call", literal("```tool_call"), fence_end, body=_code_body, may_stray=False),
            *(
                Passage("call", literal(opens), literal(closes), ANYWHERE, body=_braces_body)
                for opens, closes in (FunctionGemma.call_marks, Gemma4.call_marks)
            ),
            *([python_list, *bare_passages()] if with_bare_calls else ()),
            *forged("```tool_output"),
            *forged("<start_function_response>", "<|tool_response>", inside=ANYWHERE),
            *ends("<end_of_turn>", "<start_of_turn>", "<turn|>", "<|turn>", "<eos>"),
        ]
    )


class Gemma3(Family):
    """Gemma 3: Python in a code fence, as its documentation asks for."""

    format = ToolFormat.GEMINI
    words = (
        "To call a tool, write a Python call with named arguments in a code fence",
        "Its values are literals. Write nothing after the fence: the result comes in a fence called tool_output, which "
        "you never write yourself.",
    )

    def declare(self, tools: Sequence[ToolDescription]) -> str:
        """Gemma 3's template declares no tools: these are the words of its documentation, around their JSON."""
        listed = "\n".join(map(described_as_openai, tools))
        return (
            "At each turn, if you decide to invoke any of the function(s), it should be wrapped with ```tool_code```. "
            "The functions described below are imported and available, you can only use these. The response to a "
            f"function will be wrapped in ```tool_output```.\n\n{listed}"
        )

    def reader(self, options: ReadingOptions = DEFAULT_READING) -> Reader:
        return TextReader(_layout(all_marks(options.thinking, _THINKING), options.may_call_bare), options)

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        lines = "\n".join(_python_call(name, arguments) for name, arguments in calls)
        return f"```tool_code\n{lines}\n```"

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        return f"```tool_output\n{result_text(text, is_error=is_error)}\n```"


class FunctionGemma(Gemma3):
    """FunctionGemma: braces with texts in <escape>, between marks that are tokens."""

    call_marks = "<start_function_call>", "<end_function_call>"
    declaration = "<start_function_declaration>", "<end_function_declaration>"
    response = "<start_function_response>", "<end_function_response>"
    mark = ESCAPE
    before_declarations = "You are a model that can do function calling with the following functions"
    words = (
        f"To call a tool, write its name and its arguments between marks, every text between two {ESCAPE}",
        "The result follows at once.",
    )

    def declare(self, tools: Sequence[ToolDescription]) -> str:
        """The declarations as the chat template writes them in the developer's turn."""
        opens, closes = self.declaration
        return self.before_declarations + "".join(f"{opens}{self._declared(tool)}{closes}" for tool in tools)

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        opens, closes = self.call_marks
        return "".join(f"{opens}call:{name}{self._braces(arguments)}{closes}" for name, arguments in calls)

    def write_result(self, name: str, text: str, *, is_error: bool) -> str:
        opens, closes = self.response
        member = "error" if is_error else "value"
        return f"{opens}response:{name}{write_braces({member: text}, self.mark)}{closes}"

    def _braces(self, arguments: str) -> str:
        try:
            return write_braces(read_json(arguments), self.mark)
        except ValueError:
            return f"{{{arguments}}}"

    def _declared(self, tool: ToolDescription) -> str:
        members = [f"description:{self.mark}{tool.description or ''}{self.mark}"]
        if isinstance(tool.parameters, dict) and tool.parameters:
            members.append(f"parameters:{self._schema(tool.parameters)}")
        return f"declaration:{tool.name}{{{','.join(members)}}}"

    def _schema(self, value: Any, *, is_properties: bool = False) -> str:
        """A JSON Schema, whose types are written in capitals, as Google's API has them; or a mapping of schemas."""
        if not isinstance(value, dict):
            return write_braces(value, self.mark)
        written: list[str] = []
        for name, member in sorted(cast("dict[str, Any]", value).items()):
            if is_properties or name in ("items", "additionalProperties"):
                said = self._schema(member)
            elif name == "properties":
                said = self._schema(member, is_properties=True)
            elif name == "type":
                kinds = member.upper() if isinstance(member, str) else [str(each).upper() for each in member]
                said = write_braces(kinds, self.mark)
            else:
                said = write_braces(member, self.mark)
            written.append(f"{name}:{said}")
        return f"{{{','.join(written)}}}"


class Gemma4(FunctionGemma):
    """Gemma 4: the same with other marks."""

    call_marks = "<|tool_call>", "<tool_call|>"
    declaration = "<|tool>", "<tool|>"
    response = "<|tool_response>", "<tool_response|>"
    mark = QUOTE
    before_declarations = ""
    words = FunctionGemma.words[0].replace(ESCAPE, QUOTE), FunctionGemma.words[1]


def _python_call(name: str, arguments: str) -> str:
    name = python_name(name)
    try:
        value: Any = read_json(arguments)
    except ValueError:
        return f"{name}({arguments})"
    if not isinstance(value, dict):
        return f"{name}({value!r})"
    members = cast("dict[str, Any]", value)
    if not all(key.isidentifier() for key in members):
        return f"{name}(**{members!r})"
    # Texts have double quotes, as models write them; everything else is as in Python.
    texts = {key: json.dumps(item, ensure_ascii=False) for key, item in members.items() if isinstance(item, str)}
    return f"{name}({', '.join(f'{key}={texts.get(key, repr(item))}' for key, item in members.items())})"


# ── the braces of FunctionGemma and Gemma 4: like JSON, with their own marks around texts ──


def read_gemma_call(text: str) -> list[ReadCall]:
    """The call in a body, or none. Arguments that cannot be read stay as they are written."""
    head = _HEAD.match(text)
    if head is None:
        return []
    start = head.end()
    end = len(text.rstrip())
    written = text[start:end]
    try:
        arguments = json.dumps(read_braces(written), ensure_ascii=False)
    except ValueError:
        arguments = written
    return [ReadCall(head["name"], arguments, 0, start, end)]


def read_braces(text: str) -> Any:
    """The value of a text in braces; ValueError where it is something else. Some models write JSON here."""
    try:
        return read_json(text)
    except ValueError:
        value, end = _value(text, 0, 0)
        if text[end:].strip():
            raise ValueError(f"more behind the value, at {end}") from None
        return value


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise ValueError("nested too deep")
    if quoted := _QUOTED.match(text, at):
        return _text_of(quoted), quoted.end()
    at = _skip_blank(text, at)
    match text[at : at + 1]:
        case "{":
            return _members(text, at + 1, depth)
        case "[":
            return _items(text, at + 1, depth)
        case _:
            word, at = _word(text, at)
            return _bare(word), at


def _word(text: str, at: int) -> tuple[str, int]:
    found = _BARE.match(text, at)
    assert found is not None  # it matches the empty text too
    return found.group().strip(), found.end()


def _members(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    while text[(at := _skip_blank(text, at)) : at + 1] != "}":
        quoted = _QUOTED.match(text, at)
        name, at = (_text_of(quoted), quoted.end()) if quoted else _word(text, at)
        at = _skip_blank(text, at)
        if not name or text[at : at + 1] != ":":
            raise ValueError(f"no member at {at}")
        members[name], at = _value(text, at + 1, depth + 1)
        at = _skip_comma(text, at, "}")
    return members, at + 1


def _items(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while text[(at := _skip_blank(text, at)) : at + 1] != "]":
        item, at = _value(text, at, depth + 1)
        items.append(item)
        at = _skip_comma(text, at, "]")
    return items, at + 1


def _skip_comma(text: str, at: int, closing: str) -> int:
    at = _skip_blank(text, at)
    if text[at : at + 1] == ",":
        return at + 1
    # FunctionGemma forgets the comma after a text at times.
    if text[at : at + 1] == closing or text.endswith((ESCAPE, QUOTE), 0, at):
        return at
    raise ValueError(f"neither a comma nor {closing} at {at}")


def _skip_blank(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _text_of(match: re.Match[str]) -> str:
    escaped, quoted, plain = match.groups()
    return escaped if escaped is not None else quoted if quoted is not None else read_json(f'"{plain}"')


def _bare(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    if not word or ESCAPE in word or QUOTE in word:
        raise ValueError("no value, or a text that is not closed")
    try:
        return read_json(word)
    except ValueError:
        return word


def write_braces(value: Any, mark: str) -> str:
    """A value as the model would write it, its members in the order of their names as the chat templates have them."""
    match value:
        case str():
            return f"{mark}{value}{mark}"
        case dict():
            members = sorted(cast("dict[str, Any]", value).items(), key=lambda member: member[0].lower())
            return f"{{{','.join(f'{name}:{write_braces(item, mark)}' for name, item in members)}}}"
        case list():
            return f"[{','.join(write_braces(item, mark) for item in cast('list[Any]', value))}]"
        case _:
            return json.dumps(value)


GEMMA_3: Final = Gemma3()
FUNCTION_GEMMA: Final = FunctionGemma()
GEMMA_4: Final = Gemma4()
