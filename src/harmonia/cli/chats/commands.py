"""The commands of a terminal chat: `/help` lists them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from harmonia.cli.chats.chat_files import with_files
from harmonia.cli.chats.session import Session
from harmonia.cli.display import show
from harmonia.errors import ErrorCode, InputError
from harmonia.history import DOCUMENTED, measure, prepare
from harmonia.inspection.saved_streams import count
from harmonia.interchange import format_named
from harmonia.messages import ReasoningEffort, Role
from harmonia.run.events import RunEnded

HELP = """\
/effort low|medium|high   set the reasoning effort
/reasoning                show or hide the reasoning
/file PATH …              add text files to the next question
/tools                    list the tools that the model may call
/continue                 continue an answer that was cut off
/retry                    ask the last question again
/undo                     remove the last question and its answer
/fork                     continue as a new chat; this one stays unchanged
/budget                   show what each part of the conversation costs in tokens
/save PATH                save the conversation as .json, .md, .harmony or .tokens
/exit                     leave (or press Ctrl-D)
//…                       ask a question that begins with a /
Alt-Enter starts a new line; Ctrl-C stops an answer and keeps what arrived."""

_BY_SUFFIX = {".json": "harmony-json", ".md": "markdown", ".harmony": "harmony", ".txt": "harmony", ".tokens": "tokens"}


class Leave(Exception):
    """The person wants to leave."""


class Commands:
    """Runs commands; `files` waits for the next question."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._files: list[Path] = []

    def question(self, typed: str) -> str:
        """What was typed, with the files that were added to it."""
        files, self._files = self._files, []
        return with_files(typed, files)

    def add_files(self, paths: Sequence[Path]) -> None:
        """Add files to the next question. A file that cannot be read is an error now."""
        with_files("", paths)
        self._files += paths
        click.echo(f"with the next question: {', '.join(show(str(path)) for path in self._files)}", err=True)

    async def run(self, typed: str) -> RunEnded | None:
        """Run a command; the end of a run where it was one that asks the model."""
        session = self._session
        name, _, rest = typed.strip().partition(" ")
        rest = rest.strip()
        match name:
            case "/help":
                click.echo(HELP, err=True)
            case "/effort":
                if rest and rest not in tuple(ReasoningEffort):
                    raise _refuse(f"unknown effort {rest!r}: use low, medium or high")
                if rest:
                    session.change(effort=rest)
                now = session.options.effort or "the default; change it with /effort low|medium|high"
                click.echo(f"effort: {now}", err=True)
            case "/reasoning":
                session.screen.reasoning = not session.screen.reasoning
                click.echo(f"reasoning is {'shown' if session.screen.reasoning else 'hidden'}", err=True)
            case "/file" if rest:
                try:
                    words = shlex.split(rest)  # as in a shell, so that a name may have spaces
                except ValueError as error:
                    raise _refuse(f"cannot read {rest!r}: {error}") from error
                self.add_files([Path(word).expanduser() for word in words])
            case "/tools":
                for tool in session.tools:
                    said = (tool.description or "").partition("\n")[0]
                    click.echo(f"{show(session.tools.recipient_of(tool))}  {show(said)}", err=True)
                if not len(session.tools):
                    click.echo("no tools; add some with -T or --mcp", err=True)
            case "/continue":
                return await session.resume()
            case "/retry":
                return await session.retry()
            case "/undo":
                session.undo()
                click.echo("removed the last question", err=True)
            case "/fork":
                click.echo(f"this chat is now {session.fork()}", err=True)
            case "/budget":
                _show_budget(session)
            case "/save" if rest:
                _export(session, Path(rest).expanduser())
            case "/file" | "/save":
                usage = next(line for line in HELP.splitlines() if line.startswith(name))
                click.echo(f"usage: {usage}", err=True)
            case "/exit" | "/quit":
                raise Leave
            case _:
                click.echo(
                    f"unknown command {show(name)}; /help lists the commands; to ask what begins with /, type //",
                    err=True,
                )
        return None


def _refuse(message: str) -> InputError:
    return InputError(ErrorCode.RUN_INVALID_OPTION, message)


def _show_budget(session: Session) -> None:
    budget = measure(session.conversation)
    for name, tokens in budget.parts.items():
        if tokens:
            click.echo(f"{tokens:>8,}  {name}", err=True)
    click.echo(f"{budget.total:>8,}  in all", err=True)
    prepared = prepare(session.conversation, DOCUMENTED)
    if prepared.dropped:
        sent = measure(prepared.conversation).total
        click.echo(f"{sent:>8,}  in the next prompt, which leaves out reasoning before an answer", err=True)


def _export(session: Session, path: Path) -> None:
    name = _BY_SUFFIX.get(path.suffix)
    if name is None:
        raise InputError(
            ErrorCode.INTERCHANGE_UNKNOWN_FORMAT,
            f"{path.suffix or 'no suffix'} is not a known file format; use one of {', '.join(_BY_SUFFIX)}",
        )
    exported = format_named(name).write(session.conversation)
    try:
        path.write_text(exported.text, encoding="utf-8")
    except OSError as error:
        raise _refuse(f"cannot write {path}: {error.strerror}") from error
    for loss in exported.losses:
        click.echo(f"note: {loss}", err=True)
    questions = sum(message.role is Role.USER for message in session.conversation)
    click.echo(f"wrote {path}: {count(questions, 'question')}", err=True)
