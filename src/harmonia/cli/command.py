"""The group of verbs, and what an error looks like in the shell.

Data goes to stdout, talk to stderr. Exit codes: 0 done, 1 an error of Harmonia's, 2 wrong usage, 3 malformed Harmony
(`parse --strict`, and `--check`), 4 no engine there, 130 interrupted.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version

import click

from harmonia.errors import ErrorCode, HarmonyError

# The module of each verb is imported when the verb is called, so that `harmonia --help` stays quick.
_VERBS = {
    "chat": "Talk with a model in the terminal, or ask one question.",
    "check": "What a provider can do: tokens, special tokens, Harmony, streaming.",
    "convert": "A conversation from one format to another, saying what is lost.",
    "detokenize": "Tokens to text.",
    "doctor": "What of this set-up works, what does not, and what to do about it.",
    "grammar": "The grammar that holds a model to well-formed Harmony, per engine.",
    "inspect": "What a model sampled, for people: messages, costs, faults.",
    "keys": "API keys and sealing keys of a server: make, list, rotate.",
    "parse": "What a model sampled, as messages, parts or events.",
    "record": "Capture a run of a model, to replay it in tests and bug reports.",
    "render": "A conversation to a prompt: text, tokens or JSON.",
    "serve": "An OpenAI-compatible server in front of any engine.",
    "tokenize": "Text to tokens.",
    "tools": "How tools will be declared to the model, and what they cost.",
}

_HINTS = {
    ErrorCode.RENDER_AMBIGUOUS_TEXT: "use --output tokens for a model, or --escape to read it yourself",
    ErrorCode.RENDER_UNSAFE_HEADER: "names, channels and recipients are single words; put the text into the content",
    ErrorCode.MESSAGES_INVALID_JSON: 'the input is one JSON object: {"messages": [{"role": "user", "content": "Hi"}]}',
    ErrorCode.INTERCHANGE_UNKNOWN_FORMAT: "--from says what the input is; --help lists the formats",
    ErrorCode.ENGINE_UNREACHABLE: "see that the engine runs at that address, or name demo, which needs no model",
    ErrorCode.PARSE_INVALID_INPUT: "--as text|tokens|stripped|sse says what the input is; auto finds out",
    ErrorCode.VOCABULARY_WRONG_FILE: "leave --vocabulary out to use the vocabulary inside the package",
}

_NOBODY_THERE = (ErrorCode.ENGINE_NONE_FOUND, ErrorCode.ENGINE_UNREACHABLE)


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        return import_module(f"harmonia.cli.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_VERBS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            result = super().invoke(ctx)
            # What cannot be written must not be found out by the interpreter at its end, where nobody sees the code.
            if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] -- so Python says that it is closed
                raise OSError("standard output is closed")
            sys.stdout.flush()
        except HarmonyError as error:
            from harmonia.cli.display import readable  # not at the top, so that `harmonia --help` stays quick

            # It may quote a model, a tool or a server.
            click.echo(readable(f"error: {error}"), err=True)
            # Whoever raised it may know better what helps.
            hint = "; ".join(getattr(error, "__notes__", [])) or _HINTS.get(error.code)
            if hint:
                click.echo(f"hint: {hint}", err=True)
            sys.exit(4 if error.code in _NOBODY_THERE else 1)
        except KeyboardInterrupt:
            sys.exit(130)
        except BrokenPipeError:
            raise  # whoever reads has seen enough; click knows what to do
        except OSError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(1)
        return result


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("harmonia"), prog_name="harmonia", message="%(prog)s %(version)s")
def main() -> None:
    """The Harmony format of gpt-oss, in the shell. FILE is a path, or - for standard input."""
