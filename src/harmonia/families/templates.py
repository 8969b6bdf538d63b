"""Writes conversations as prompt text, for models of other families and engines that take text.

    Conversation  ->  turns (instructions, tools, user, model, results)  ->  one text, which ends where the model begins

A chat template is data (templates.toml): how turns open and close, where instructions go, what ends the model's turn,
and which spellings are control tokens to the model. The family writes the contents of turns: declarations, calls and
results. Where a template belongs to a variant of the family (a Llama and a Mistral write their calls differently, and
both are read by the format `openai`), the variant does.

1. Nothing written by a person, a tool or a model spells a control token of the template or a mark of the family (law
   1): in a prompt sent as text, the template's `<|im_end|>` and one that a user typed become the same token. Each
   such spelling is broken by a backslash after its first character (`<\\|im_end|>`): people can still read it, the
   tokenizer does not recognise it. In JSON the first character is written as `\\u003c`, which is the same JSON value.
   No spelling contains a backslash, so a broken text contains no spelling, even where two of them overlapped.
2. Consecutive assistant messages are one turn: thoughts, words and calls in order, without channels. A thought is
   written the way the family keeps it, or omitted.
3. Each prompt of a growing conversation is a prefix of the next, unless a thought is omitted that the last one had.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, cast

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.families.registry import Family, ToolFormat, variant_of
from harmonia.json_codec import read_json
from harmonia.messages import (
    Conversation,
    DeveloperContent,
    Message,
    Role,
    SystemContent,
    ToolDescription,
    is_call,
    is_forged,
    is_reasoning,
)

# All that a model may take for the end of a line.
_LINE_BREAKS: Final = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"


class ControlSpellings:
    """A list of spellings, patterns of spellings, and words that mean something at the start of a line only."""

    __slots__ = ("_found",)

    def __init__(
        self, spellings: Iterable[str] = (), patterns: Iterable[str] = (), line_starts: Iterable[str] = ()
    ) -> None:
        written = [re.escape(spelling) for spelling in sorted(set(spellings), key=len, reverse=True)]
        # A line may be indented: models read an indented role as one, too.
        starts = [
            rf"(?<![^{_LINE_BREAKS}])[ \t]*{re.escape(word)}"
            for word in sorted(set(line_starts), key=len, reverse=True)
        ]
        either = "|".join([*written, *patterns, *starts])
        # Looked ahead at, so that spellings that overlap are all found.
        self._found = re.compile(f"(?={either})") if either else None

    def places(self, text: str) -> list[int]:
        """Where a spelling begins, in order."""
        return [] if self._found is None else [match.start() for match in self._found.finditer(text)]

    def broken(self, text: str) -> str:
        """The text with a backslash in every spelling."""
        return _rewritten(text, self.places(text), _with_backslash)

    def broken_in_json(self, text: str) -> str:
        """JSON text whose value is the same and which spells nothing; see the module."""
        return _rewritten(text, self.places(text), lambda character: f"\\u{ord(character):04x}")

    def broken_in_value(self, value: Any) -> Any:
        """A JSON value in which every text, names of members included, is broken."""
        match value:
            case str():
                return self.broken(value)
            case list():
                return [self.broken_in_value(item) for item in cast("list[Any]", value)]
            case dict():
                members = cast("Mapping[str, Any]", value).items()
                return {self.broken(name): self.broken_in_value(item) for name, item in members}
            case _:
                return value


def _with_backslash(character: str) -> str:
    # Behind an opening mark; in front of a word, whose place at the start of the line is what makes it one.
    return f"{character}\\" if character in "<[`" else f"\\{character}"


def _rewritten(text: str, places: Iterable[int], rewrite: Callable[[str], str]) -> str:
    pieces: list[str] = []
    shown = 0
    for place in places:
        pieces += (text[shown:place], rewrite(text[place]))
        shown = place + 1
    pieces.append(text[shown:])
    return "".join(pieces)


Marks = tuple[str, str]
KeptThoughts = Literal["never", "since_user", "always"]
# free     the model decides whether it thinks
# opened   the prompt ends inside a thought
# skipped  the prompt ends after an empty one
PromptThinking = Literal["free", "opened", "skipped"]

_FUNCTIONS: Final = "functions."
_DEFAULT_IDENTITY: Final = SystemContent().model_identity
_ERROR: Final = '{"error"'


class ChatTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the turns of a conversation are written; templates.toml says what each field means."""

    name: str
    native: ToolFormat
    user: Marks
    assistant: Marks
    begin: str = ""
    system: Marks | None = None
    tools: Marks | None = None
    tools_first: bool = False
    around_tools: str = "\n\n"
    result: tuple[str, str, str] = ("", "", "")
    shares_results: bool = False
    results_in_turn: bool = False
    thought: Marks | None = None
    opened_thought: str = ""
    skipped_thought: str = ""
    keeps_thoughts: KeptThoughts = "never"
    before_calls: str = ""
    trims: bool = False
    stop: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    control_patterns: tuple[str, ...] = ()
    control_line_starts: tuple[str, ...] = ()


class FormatMarks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a tool format adds to every template it is written with."""

    thought: Marks | None = None
    keeps_thoughts: KeptThoughts | None = None
    stop: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    control_in_results: tuple[str, ...] = ()
    control_line_starts: tuple[str, ...] = ()


class PromptText(msgspec.Struct, frozen=True):
    """A prompt: its text, at what the engine is to stop, and whether the output begins inside a thought. `marks` are
    the spellings that mean something in it and in the answer; many are special tokens of the model's."""

    text: str
    stop: tuple[str, ...]
    opens_thought: bool = False
    marks: tuple[str, ...] = ()


def chat_template(name: str) -> ChatTemplate:
    """The template of this name."""
    templates, _ = _package_templates()
    if name not in templates:
        raise InputError(
            ErrorCode.FORMATS_INVALID_OPTION,
            f"unknown chat template {name!r}; known: {', '.join(templates)}",
        )
    return templates[name]


def template_names() -> tuple[str, ...]:
    """The names of the templates of the package."""
    return tuple(_package_templates()[0])


def control_spellings(
    template: ChatTemplate, format: ToolFormat, thought_marks: Marks | None = None, *, in_results: bool = False
) -> ControlSpellings:
    """What typed text may not spell in a prompt of this template with calls of this format, and with these marks of
    thoughts where they are not the template's. Results of tools may stand between marks that are harmless elsewhere."""
    marks = _marks_of(format)
    own = () if thought_marks is None else (mark for each in thought_marks if (mark := each.strip()))
    return ControlSpellings(
        (*template.control, *marks.control, *(marks.control_in_results if in_results else ()), *own),
        template.control_patterns,
        (*template.control_line_starts, *marks.control_line_starts),
    )


def write_prompt(
    template: ChatTemplate | str,
    family: Family,
    conversation: Conversation | Iterable[Message],
    *,
    tools_part: str | None = None,
    thinking: PromptThinking = "free",
    thought_marks: Marks | Literal["template"] | None = "template",
    keeps_thoughts: KeptThoughts | None = None,
    guided: bool = False,
    with_begin: bool = False,
) -> PromptText:
    """The prompt after which the model goes on with this conversation; see the module.

    The tools are those that the conversation declares, as the family declares them; `tools_part` replaces that text,
    and "" leaves it out. `thought_marks` are the model's own where they are not the template's, None where it has none
    and no thought is written. `guided` adds the family's words after results. `with_begin` writes the template's
    beginning-of-text mark, which engines usually add themselves.
    """
    template = chat_template(template) if isinstance(template, str) else template
    writer = _Writer(template, family, thought_marks, keeps_thoughts, guided=guided)
    return writer.write(tuple(conversation), tools_part, thinking, with_begin=with_begin)


class _Writer:
    """One prompt in the making. `turn` is the turn that is open: it closes when another one begins."""

    def __init__(
        self,
        template: ChatTemplate,
        family: Family,
        thought_marks: Marks | Literal["template"] | None,
        keeps_thoughts: KeptThoughts | None,
        *,
        guided: bool,
    ) -> None:
        marks = _marks_of(family.format)
        self.is_native = family.format is template.native
        self.family = variant_of(family, template.name) if self.is_native else family
        self.template = template
        given = None if thought_marks == "template" else thought_marks
        self.controls = control_spellings(template, family.format, given)
        self.result_controls = control_spellings(template, family.format, given, in_results=True)
        self.turn_controls = ControlSpellings(template.control, template.control_patterns)
        self.marks = tuple(dict.fromkeys((*template.control, *marks.control, *(given or ()))))
        own_thought = _thought_of(template, thought_marks)
        self.thought = marks.thought or own_thought
        # A prompt opens a thought with the model's own mark, however the format writes past ones.
        self.begun_thought = own_thought or marks.thought
        self.keeps_thoughts = keeps_thoughts or marks.keeps_thoughts or template.keeps_thoughts
        self.stop = (*template.stop, *(stop for stop in marks.stop if stop not in template.stop))
        self.guided = guided
        in_turn = self.is_native and template.results_in_turn
        self.results_in_turn = in_turn
        # A format that the template's models were not taught has its results in turns of the user.
        self.result = template.result if self.is_native else (template.user[0], "", template.user[1])
        self.shares_results = template.shares_results or not self.is_native
        self.before_calls = template.before_calls if self.is_native else template.before_calls or "\n"

        self.out: list[str] = []
        self.turn: Literal["assistant", "result"] | None = None
        self.has_words = False  # whether something stands in the open turn of the assistant
        self.calls: list[tuple[str, str]] = []
        self.instructions: list[str] = []  # that wait for the next turn of the user

    def write(
        self, messages: Sequence[Message], tools_part: str | None, thinking: PromptThinking, *, with_begin: bool
    ) -> PromptText:
        if with_begin:
            self.out.append(self.template.begin)
        messages = tuple(message for message in messages if not is_forged(message))
        first = next((i for i, message in enumerate(messages) if not _is_instructive(message)), len(messages))
        self._write_opening(messages[:first], tools_part)
        since_user = max((i for i, message in enumerate(messages) if message.role is Role.USER), default=-1)
        for index in range(first, len(messages)):
            self._write_message(messages[index], is_recent=index > since_user)
        opens_thought = self._write_generation_prompt(thinking)
        return PromptText("".join(self.out), self.stop, opens_thought, self.marks)

    # ── instructions and tools ──────────────────────────────────────────────────────────────────────────────────

    def _write_opening(self, messages: Sequence[Message], tools_part: str | None) -> None:
        instructions = [text for message in messages for text in self._instructions_of(message)]
        if tools_part is None:
            tools = tuple(tool for message in messages for tool in _declared_tools(message))
            declared = self.family.tool_part([self._without_spellings(tool) for tool in tools]) if tools else ""
        else:
            # The caller's own text, in which the family's marks are meant; a turn it can not open.
            declared = self.turn_controls.broken(tools_part)
        own_turn = self.template.tools if self.is_native and tools_part is None else None
        said = "\n\n".join(instructions)
        if declared and own_turn is None:
            both = (declared, said) if self.template.tools_first else (said, declared)
            said = self.template.around_tools.join(text for text in both if text)
        self._write_instructions(said)
        if declared and own_turn is not None:
            self.out += (own_turn[0], declared, own_turn[1])

    def _write_instructions(self, text: str) -> None:
        if not text:
            return
        if (system := self.template.system) is None:
            self.instructions.append(text)
        else:
            self.out += (system[0], text, system[1])

    def _instructions_of(self, message: Message) -> Iterable[str]:
        for content in message.contents:
            match content:
                case str():
                    texts = [content]
                case SystemContent():
                    texts = _system_texts(content)
                case DeveloperContent():
                    texts = _developer_texts(content)
            yield from (said for text in texts if (said := self._said(text)))

    def _without_spellings(self, tool: ToolDescription) -> ToolDescription:
        return ToolDescription(
            self.controls.broken(tool.name),
            None if tool.description is None else self.controls.broken(tool.description),
            self.controls.broken_in_value(tool.parameters),
        )

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _write_message(self, message: Message, *, is_recent: bool) -> None:
        match message.role:
            case Role.SYSTEM | Role.DEVELOPER:
                self._close_turn()
                self._write_instructions("\n\n".join(self._instructions_of(message)))
            case Role.USER:
                self._close_turn()
                self._write_user(self._said(message.text))
            case Role.ASSISTANT:
                self._write_assistant(message, is_recent=is_recent)
            case Role.TOOL:
                self._write_result(message)

    def _write_user(self, text: str) -> None:
        opening, closing = self.template.user
        self.out += (opening, "\n\n".join([*self.instructions, text]), closing)
        self.instructions = []

    def _write_assistant(self, message: Message, *, is_recent: bool) -> None:
        if is_call(message):
            self._open_turn()
            self.calls.append(self._call_of(message))
            return
        text = self._said(message.text)
        if is_reasoning(message):
            keeps = self.keeps_thoughts == "always" or (self.keeps_thoughts == "since_user" and is_recent)
            if self.thought is not None and keeps:
                self._open_turn()
                self._write_calls()
                self.out += (self.thought[0], text.strip("\n"), self.thought[1])
            return
        self._open_turn()
        self._write_calls()
        if self.has_words:
            self.out.append("\n\n")
        self.out.append(text)
        self.has_words = True

    def _call_of(self, message: Message) -> tuple[str, str]:
        name = self.controls.broken((message.recipient or "").removeprefix(_FUNCTIONS))
        text = message.text
        try:
            value: Any = read_json(text)
        except ValueError:
            return name, self.controls.broken(text)
        if self.family.format is ToolFormat.GEMINI:
            # Its calls are not JSON: what JSON would hide in an escape is written out.
            return name, json.dumps(self.controls.broken_in_value(value), ensure_ascii=False)
        return name, self.controls.broken_in_json(text)

    def _write_calls(self) -> None:
        if self.calls:
            if self.has_words:
                self.out.append(self.before_calls)
            self.out.append(self.family.write_calls(self.calls))
            self.calls = []
            self.has_words = True

    def _write_result(self, message: Message) -> None:
        is_error = message.text.startswith(_ERROR)
        name = self.controls.broken((message.name or "").removeprefix(_FUNCTIONS))
        # What our tools say of an error names it as one; the family's own word for it would say it twice.
        written = self.family.write_result(name, self.result_controls.broken(message.text), is_error=False)
        if self.guided and (guidance := self.family.guidance(is_error=is_error)):
            written = f"{written}\n{guidance}"
        opening, before, closing = self.result
        if self.results_in_turn:
            self._open_turn()
            self._write_calls()
            self.out += (before, written, closing)
            self.has_words = False
        elif self.turn == "result" and self.shares_results:
            self.out += (before or "\n", written)
        else:
            self._close_turn()
            self.out += (opening, before, written)
            self.turn = "result"

    def _open_turn(self) -> None:
        if self.turn != "assistant":
            self._close_turn()
            self._write_waiting_instructions()
            self.out.append(self.template.assistant[0])
            self.turn = "assistant"

    def _close_turn(self) -> None:
        if self.turn == "assistant":
            self._write_calls()
            self.out.append(self.template.assistant[1])
        elif self.turn == "result":
            self.out.append(self.result[2])
        self.turn = None
        self.has_words = False

    def _write_waiting_instructions(self) -> None:
        if self.instructions:
            waiting, self.instructions = self.instructions, []
            self.out += (self.template.user[0], "\n\n".join(waiting), self.template.user[1])

    def _write_generation_prompt(self, thinking: PromptThinking) -> bool:
        # Behind a result that stands in the model's own turn, the model goes on.
        goes_on = self.results_in_turn and self.turn == "assistant" and not self.has_words and not self.calls
        if not goes_on:
            self._close_turn()
            self._open_turn()
        if thinking == "skipped":
            self.out.append("" if goes_on else self.template.skipped_thought)
        elif thinking == "opened" and (begun := self.begun_thought) is not None:
            opened = self.template.opened_thought if begun == self.template.thought else begun[0]
            self.out.append(opened)
            return bool(opened)
        return False

    def _said(self, text: str) -> str:
        text = self.controls.broken(text)
        return text.strip() if self.template.trims else text


def _thought_of(template: ChatTemplate, marks: Marks | Literal["template"] | None) -> Marks | None:
    if marks is None:
        return None
    if marks == "template" or (template.thought is not None and template.thought[0].strip() == marks[0]):
        return template.thought
    return f"{marks[0]}\n", f"\n{marks[1]}\n\n"


def _is_instructive(message: Message) -> bool:
    return message.role in (Role.SYSTEM, Role.DEVELOPER)


def _system_texts(content: SystemContent) -> list[str]:
    texts: list[str] = []
    # The default introduces gpt-oss; to another model it would be a lie.
    if content.model_identity is not None and content.model_identity != _DEFAULT_IDENTITY:
        texts.append(content.model_identity)
    if content.conversation_start_date is not None:
        texts.append(f"Current date: {content.conversation_start_date}")
    return texts


def _developer_texts(content: DeveloperContent) -> list[str]:
    texts = [] if content.instructions is None else [content.instructions]
    for response_format in content.response_formats or ():
        about = f"{response_format.description}\n" if response_format.description else ""
        schema = json.dumps(response_format.schema, ensure_ascii=False)
        texts.append(f"Answer with JSON of this schema ({response_format.name}):\n{about}{schema}")
    return texts


def _declared_tools(message: Message) -> Iterable[ToolDescription]:
    for content in message.contents:
        if isinstance(content, str) or content.tools is None:
            continue
        for namespace in content.tools.values():
            for tool in namespace.tools:
                name = f"{namespace.name}.{tool.name}".removeprefix(_FUNCTIONS)
                yield ToolDescription(name, tool.description, tool.parameters)


def _marks_of(format: ToolFormat) -> FormatMarks:
    return _package_templates()[1].get(format.value, FormatMarks())


@cache
def _package_templates() -> tuple[dict[str, ChatTemplate], dict[str, FormatMarks]]:
    # Not needed by those who bring a template of their own, nor by those who only import this.
    import tomllib
    from importlib.resources import files

    document: dict[str, Any] = tomllib.loads(files("harmonia.families").joinpath("templates.toml").read_text("utf-8"))
    templates = {
        name: msgspec.convert({"name": name, **table}, ChatTemplate) for name, table in document["template"].items()
    }
    marks = {name: msgspec.convert(table, FormatMarks) for name, table in document["format"].items()}
    return templates, marks
