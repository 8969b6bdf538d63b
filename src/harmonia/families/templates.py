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
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, cast

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.families.registry import Family, ToolFormat, variant_of
from harmonia.families.tool_descriptions import flat_tools
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

    def __init__(
        self, spellings: Iterable[str] = (), patterns: Iterable[str] = (), line_starts: Iterable[str] = ()
    ) -> None:
        written = [re.escape(spelling) for spelling in sorted(set(spellings), key=len, reverse=True)]
        # A line may be indented: models read an indented role as one, too.
        starts = [
            rf"(?<![^{_LINE_BREAKS}])[ \t]*{re.escape(word)}"
            for word in sorted(set(line_starts), key=len, reverse=True)
        ]
        either = "|".join([*written, *patterns, *starts]) or "(?!)"
        # Looked ahead at, so that spellings that overlap are all found.
        self._first = re.compile(f"(?={either}).", re.DOTALL)

    def places(self, text: str) -> list[int]:
        """The positions at which spellings begin."""
        return [found.start() for found in self._first.finditer(text)]

    def broken(self, text: str) -> str:
        """The text with a backslash in every spelling: after an opening mark, or before a word."""
        return self._first.sub(lambda found: f"{found[0]}\\" if found[0] in "<[`" else f"\\{found[0]}", text)

    def broken_in_json(self, text: str) -> str:
        """JSON text with the same value that spells nothing."""
        return self._first.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

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
    """A prompt: its text, where the engine stops, and whether the output begins inside a thought. `marks` are the
    spellings with a meaning in it and in the answer; many are special tokens of the model."""

    text: str
    stop: tuple[str, ...]
    opens_thought: bool = False
    marks: tuple[str, ...] = ()


def chat_template(name: str) -> ChatTemplate:
    """The template of this name."""
    templates, _ = _package_templates()
    if name not in templates:
        what = f"unknown chat template {name!r}; known: {', '.join(templates)}"
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, what)
    return templates[name]


def template_names() -> tuple[str, ...]:
    """The names of the templates of the package."""
    return tuple(_package_templates()[0])


def control_spellings(
    template: ChatTemplate, format: ToolFormat, thought_marks: Marks | None = None, *, in_results: bool = False
) -> ControlSpellings:
    """What typed text may not spell in a prompt of this template with calls of this format, and with these marks of
    thoughts if they differ from the template's. Results of tools may be between marks that are harmless elsewhere."""
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
    """The prompt after which the model continues this conversation.

    The tools are those that the conversation declares, as the family declares them; `tools_part` replaces that text,
    and "" omits it. `thought_marks` are the model's own if they differ from the template's, None if it has none and no
    thought is written. `guided` adds the family's guidance after results. `with_begin` writes the template's
    beginning-of-text mark, which engines usually add themselves.
    """
    template = chat_template(template) if isinstance(template, str) else template
    writer = _Writer(template, family, thought_marks, keeps_thoughts, guided=guided)
    return writer.write(tuple(conversation), tools_part, thinking, with_begin=with_begin)


class _Writer:
    """Writes one prompt. `turn` is the open turn: it closes when another one begins."""

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
        self.results_in_turn = self.is_native and template.results_in_turn
        # A format that the template's models were not taught has its results in turns of the user.
        self.result = template.result if self.is_native else (template.user[0], "", template.user[1])
        self.shares_results = template.shares_results or not self.is_native
        self.before_calls = template.before_calls if self.is_native else template.before_calls or "\n"

        self.out: list[str] = []
        self.turn: Literal["assistant", "result"] | None = None
        self.has_words = False  # whether the open turn of the assistant has any text
        self.calls: list[tuple[str, str]] = []
        self.instructions: list[str] = []  # for the next turn of the user

    def write(
        self, messages: Sequence[Message], tools_part: str | None, thinking: PromptThinking, *, with_begin: bool
    ) -> PromptText:
        if with_begin:
            self.out.append(self.template.begin)
        messages = tuple(message for message in messages if not is_forged(message))
        instructive = (Role.SYSTEM, Role.DEVELOPER)
        first = next((i for i, message in enumerate(messages) if message.role not in instructive), len(messages))
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
            contents = [content for message in messages for content in message.contents if not isinstance(content, str)]
            tools = [tool for content in contents for tool in flat_tools((content.tools or {}).values())]
            declared = self.family.tool_part([self._without_spellings(tool) for tool in tools])
        else:
            # The caller's own text: the family's marks count in it, but it cannot open a turn.
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

    def _write_user(self, *texts: str) -> None:
        opening, closing = self.template.user
        self.out += (opening, "\n\n".join([*self.instructions, *texts]), closing)
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
            # Its calls are not JSON, so a JSON escape would not break the spelling.
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
        # The results of our tools already name an error as one.
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
            if self.instructions:
                self._write_user()
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

    def _write_generation_prompt(self, thinking: PromptThinking) -> bool:
        # After a result inside the model's own turn, the model continues that turn.
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


def _system_texts(content: SystemContent) -> list[str]:
    identity, date = content.model_identity, content.conversation_start_date
    # The default identity introduces gpt-oss, which is wrong for another model.
    texts = [] if identity is None or identity == _DEFAULT_IDENTITY else [identity]
    return texts if date is None else [*texts, f"Current date: {date}"]


def _developer_texts(content: DeveloperContent) -> list[str]:
    texts = [] if content.instructions is None else [content.instructions]
    for response_format in content.response_formats or ():
        about = f"{response_format.description}\n" if response_format.description else ""
        schema = json.dumps(response_format.schema, ensure_ascii=False)
        texts.append(f"Answer with JSON of this schema ({response_format.name}):\n{about}{schema}")
    return texts


def _marks_of(format: ToolFormat) -> FormatMarks:
    return _package_templates()[1].get(format.value, FormatMarks())


@cache
def _package_templates() -> tuple[dict[str, ChatTemplate], dict[str, FormatMarks]]:
    import tomllib  # here, because importing this module does not need it
    from importlib.resources import files

    document: dict[str, Any] = tomllib.loads(files("harmonia.families").joinpath("templates.toml").read_text("utf-8"))
    templates = {
        name: msgspec.convert({"name": name, **table}, ChatTemplate) for name, table in document["template"].items()
    }
    marks = {name: msgspec.convert(table, FormatMarks) for name, table in document["format"].items()}
    return templates, marks
