"""The rooms of architecture.md: who may import whom, what is public, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harmonia

PACKAGE = Path(harmonia.__file__).parent

# The order of the corridor. A room may import the rooms before it, and everybody may import `errors`.
ROOMS = (
    "errors",
    "json_codec",
    "vocabulary",
    "provenance",
    "messages",
    "schema",
    "tool_definitions",
    "renderer",
    "events",
    "parser",
    "parts",
    "history",
    "interchange",
    "families",
    "grammar",
    "inspection",
    "alias",
    "openai_harmony",
    "run",
    "serve",
    "cli",
    "__main__",
)
# The same order inside the two rooms that have folders for their features.
INNER: dict[str, tuple[str, ...]] = {
    "run": (
        "default_paths",
        "private_files",
        "cancellation",
        "tools",
        "engines",
        "providers",
        "events",
        "constraints",
        "family_models",
        "provider_check",
        "sampling",
        "tool_calls",
        "options",
        "loop",
        "agent",
    ),
    "serve": (
        "security",
        "store",
        "config",
        "models",
        "wire",
        "http",
        "chat_completions",
        "responses",
        "inspector",
        "saved_chats",
        "openapi",
        "doctor",
        "service",
        "app",
        "server",
    ),
}
# The one place that opens whatever a name means, engines and providers alike.
LOOKS_AHEAD = {("run/engines/registry.py", "providers")}
# Only the command line may import click; msgspec and tiktoken are the core's; the others are extras. A tool may be
# made of a pydantic model.
ALLOWED_PACKAGES = {
    "msgspec": None,
    "tiktoken": ("vocabulary",),
    "gigatoken": ("vocabulary",),
    "click": ("cli",),
    "json_repair": ("parts",),
    "pydantic": ("openai_harmony", "run"),
    "httpx2": ("run",),
    "jsonschema": ("run",),
    "referencing": ("run",),
    "mcp": ("run",),
    "llguidance": ("grammar", "run"),
    "torch": ("run",),
    "transformers": ("run",),
    "prompt_toolkit": ("cli",),
    "starlette": ("serve",),
    "uvicorn": ("serve",),
    "cryptography": ("serve",),
    "prometheus_client": ("serve",),
    "imagesize": ("serve",),
}


def modules() -> Iterator[Path]:
    return PACKAGE.rglob("*.py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_by(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def test_every_module_belongs_to_a_room() -> None:
    assert {room_of(path) for path in modules()} - {"__init__"} == set(ROOMS)


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in modules()])
def test_imports_point_to_earlier_rooms_only(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    for name in imported_by(path):
        package, _, rest = name.partition(".")
        if package == "harmonia":
            imported = rest.partition(".")[0]
            assert imported, f"{path}: imports the whole package"
            assert ROOMS.index(imported) <= ROOMS.index(room), f"{path}: {room} imports {imported}"
        elif package not in sys.stdlib_module_names:
            assert package in ALLOWED_PACKAGES, f"{path}: imports {package}"
            rooms = ALLOWED_PACKAGES[package]
            assert rooms is None or room in rooms, f"{path}: {room} imports {package}"


@pytest.mark.parametrize("room", INNER)
def test_imports_inside_a_room_point_to_earlier_folders_only(room: str) -> None:
    order = INNER[room]
    found: set[str] = set()
    for path in (PACKAGE / room).rglob("*.py"):
        inside = path.relative_to(PACKAGE / room).parts[0].removesuffix(".py")
        if inside == "__init__":
            continue
        found.add(inside)
        for name in imported_by(path):
            imported = name.removeprefix(f"harmonia.{room}.").partition(".")[0]
            if not name.startswith(f"harmonia.{room}.") or (str(path.relative_to(PACKAGE)), imported) in LOOKS_AHEAD:
                continue
            assert order.index(imported) <= order.index(inside), f"{path}: {inside} imports {imported}"
    assert found == set(order)


def test_nothing_inside_the_server_knows_the_whole_service() -> None:
    """Each part gets what it needs; only the command, which opens it, imports the object that holds everything."""
    importers = {path for path in modules() if "harmonia.serve.service" in imported_by(path)}
    assert importers == {PACKAGE / "cli" / "serve.py"}


def test_init_modules_only_re_export() -> None:
    for path in PACKAGE.rglob("__init__.py"):
        for node in ast.parse(path.read_text()).body:
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            is_all = (
                isinstance(node, ast.Assign)
                and isinstance(target := node.targets[0], ast.Name)
                and target.id == "__all__"
            )
            assert is_docstring or is_all or isinstance(node, ast.ImportFrom), f"{path}:{node.lineno}"


def test_public_names_are_pinned() -> None:
    assert harmonia.__all__ == [
        "BROWSER",
        "INSTRUCTION_ORDER",
        "PYTHON",
        "ArgumentsDelta",
        "Author",
        "Call",
        "ChannelConfig",
        "Conversation",
        "DeveloperContent",
        "Diagnostic",
        "EngineError",
        "ErrorCode",
        "Event",
        "HarmonyError",
        "Header",
        "HeaderCompleted",
        "IncrementalDecoder",
        "InputError",
        "Limits",
        "Message",
        "MessageEnded",
        "MessageSpan",
        "MessageStarted",
        "Origin",
        "Parsed",
        "Parser",
        "Part",
        "PartDelta",
        "PartEnded",
        "PartStarted",
        "PartStream",
        "Position",
        "ReasoningEffort",
        "Rendered",
        "Renderer",
        "Repaired",
        "ResponseFormat",
        "Role",
        "Sampled",
        "Skipped",
        "Span",
        "StoreError",
        "StreamError",
        "SystemContent",
        "Text",
        "TextDelta",
        "Think",
        "ToolCall",
        "ToolDescription",
        "ToolError",
        "ToolNamespace",
        "Trace",
        "TrainOn",
        "Trust",
        "TurnEnded",
        "Vocabulary",
        "call_of",
        "decode",
        "decode_bytes",
        "encode",
        "install_as_openai_harmony",
        "is_special",
        "is_visible",
        "normalise",
        "normalise_history",
        "normalise_trace",
        "parse",
        "parts_of",
        "read_traces",
        "render",
        "to_typescript",
        "visible_text",
    ]
    assert all(hasattr(harmonia, name) for name in harmonia.__all__)


IMPORT_AND_RENDER = """
import sys

def refuse_sockets(event, arguments):
    if event.startswith("socket."):
        raise AssertionError(f"{{event}} {{arguments}}")

sys.addaudithook(refuse_sockets)
before = set(sys.modules)
import harmonia
{then}
packages = {{name.partition(".")[0] for name in set(sys.modules) - before}} - {{"__mp_main__"}}
print(*sorted(packages - set(sys.stdlib_module_names)))
print(harmonia.vocabulary.default_vocabulary()._ordinary is None)
"""


def packages_loaded_after(then: str) -> tuple[set[str], str]:
    """Which packages were imported, and whether the vocabulary is still unread."""
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_AND_RENDER.format(then=then)], capture_output=True, text=True, check=True
    )
    packages, is_unread = run.stdout.splitlines()
    return set(packages.split()), is_unread


def test_importing_loads_no_extra_no_vocabulary_and_opens_no_socket() -> None:
    packages, is_unread = packages_loaded_after("")
    assert packages <= {"harmonia", "msgspec", "typing_extensions"}
    assert is_unread == "True"


def test_a_first_render_opens_no_socket_and_loads_no_engine() -> None:
    packages, _ = packages_loaded_after("harmonia.render([harmonia.Message.user('Hi')]).tokens")
    assert packages <= {"harmonia", "msgspec", "typing_extensions"}


def test_much_rendering_opens_no_socket_and_loads_the_tokenizer_only() -> None:
    packages, _ = packages_loaded_after("harmonia.render([harmonia.Message.user('Hi' * 100_000)]).tokens")
    assert packages <= {
        "harmonia",
        "msgspec",
        "typing_extensions",
        "tiktoken",
        "regex",
        "gigatoken",
        "numpy",
    }
