"""The `harmonia` command: its verbs, and how errors are printed.

Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 an error, 2 wrong usage, 3 malformed Harmony
(`parse --strict`, and `--check`), 4 no engine found, 130 interrupted.
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
    "check": "Test what a provider supports: token ids, special tokens, Harmony, streaming.",
    "convert": "Convert a conversation to another format, and report what is lost.",
    "detokenize": "Decode token ids to text.",
    "doctor": "Check a setup: what works, what does not, and how to fix it.",
    "grammar": "Print a grammar that constrains an engine to well-formed Harmony.",
    "inspect": "Explain what a model sampled: messages, costs, faults.",
    "keys": "Create, list and remove a server's API keys and sealing keys.",
    "parse": "Parse what a model sampled into messages, parts or events.",
    "record": "Record a run of a model, to replay it in tests and bug reports.",
    "render": "Render a conversation as a prompt: text, tokens or JSON.",
    "serve": "Serve the OpenAI APIs and the chat page in front of any engine.",
    "tokenize": "Encode text as token ids.",
    "tools": "Show how tools will be declared to the model, and what they cost.",
}

_HINTS = {
    ErrorCode.RENDER_AMBIGUOUS_TEXT: "use --output tokens for a model, or --escape to read it yourself",
    ErrorCode.RENDER_UNSAFE_HEADER: "names, channels and recipients are single words; put the text into the content",
    ErrorCode.MESSAGES_INVALID_JSON: 'the input is one JSON object: {"messages": [{"role": "user", "content": "Hi"}]}',
    ErrorCode.INTERCHANGE_UNKNOWN_FORMAT: "name the format of the input with --from; --help lists the formats",
    ErrorCode.ENGINE_UNREACHABLE: "check that the engine is running at that URL, or use demo, which needs no model",
    ErrorCode.PARSE_INVALID_INPUT: "name the kind of input with --as text|tokens|stripped|sse; auto detects it",
    ErrorCode.VOCABULARY_WRONG_FILE: "leave --vocabulary out to use the vocabulary inside the package",
}

_NO_ENGINE = (ErrorCode.ENGINE_NONE_FOUND, ErrorCode.ENGINE_UNREACHABLE)


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
            # Flush now: a write error during interpreter shutdown would not change the exit code.
            if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] -- None means that it is closed
                raise OSError("standard output is closed")
            sys.stdout.flush()
        except HarmonyError as error:
            from harmonia.cli.display import readable  # not at the top, so that `harmonia --help` stays quick

            # The message may quote a model, a tool or a server.
            click.echo(readable(f"error: {error}"), err=True)
            # A note that was added where the error was raised is more specific.
            hint = "; ".join(getattr(error, "__notes__", [])) or _HINTS.get(error.code)
            if hint:
                click.echo(f"hint: {hint}", err=True)
            sys.exit(4 if error.code in _NO_ENGINE else 1)
        except KeyboardInterrupt:
            sys.exit(130)
        except BrokenPipeError:
            raise  # the reader closed the pipe; click handles it
        except OSError as error:
            what = f"cannot open {error.filename}: {error.strerror}" if error.filename and error.strerror else error
            click.echo(f"error: {what}", err=True)
            sys.exit(1)
        return result


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("harmonia"), prog_name="harmonia", message="%(prog)s %(version)s")
def main() -> None:
    """Work with the Harmony format of gpt-oss. FILE is a path, or - for standard input."""
