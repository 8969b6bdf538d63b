"""Settings from flags, variables and a file: which one wins, what is refused, and that nothing secret is shown."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError
from harmonia.run.engines.http import redact
from harmonia.run.engines.registry import usual_ports
from harmonia.serve.config.dump import describe, to_toml
from harmonia.serve.config.settings import Limits, Settings
from harmonia.serve.config.sources import SETTINGS, Flag, Loaded, is_loopback, load_settings
from tests.support.paths import ROOT

SECRET = "sk-SECRET-3141592653"


def load(
    toml: str | None = None, folder: Path | None = None, flags: dict[str, Flag] | None = None, /, **variables: str
) -> Loaded:
    config = None
    if toml is not None:
        assert folder is not None
        config = folder / "harmonia.toml"
        config.write_text(toml)
    return load_settings(flags, environment=variables, config=config)


def refused(toml: str | None = None, folder: Path | None = None, /, **variables: str) -> InputError:
    with pytest.raises(InputError) as caught:
        load(toml, folder, None, **variables)
    assert caught.value.code is ErrorCode.SERVE_INVALID_OPTION
    return caught.value


def test_without_anything_set_the_settings_are_the_defaults() -> None:
    loaded = load()
    assert loaded.settings == Settings()
    assert {source.kind for source in loaded.sources.values()} == {"default"}


def test_the_default_port_is_none_that_an_engine_has() -> None:
    assert Settings().port not in usual_ports().values()


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    toml = 'port = 1\nmodel = "file"\ndialect = "open-responses"\n[limits]\ndepth = 5\n'
    flags = {"port": Flag("--port", 3)}
    loaded = load(toml, tmp_path, flags, HARMONIA_PORT="2", HARMONIA_MODEL="environment")
    settings = loaded.settings
    assert (settings.port, settings.model, settings.dialect, settings.limits.depth) == (
        3,
        "environment",
        "open-responses",
        5,
    )
    assert {name: loaded.sources[name] for name in ("port", "model", "dialect", "limits.depth", "host")} == {
        "port": ("flag", "--port"),
        "model": ("environment", "HARMONIA_MODEL"),
        "dialect": ("file", f"{tmp_path / 'harmonia.toml'}: dialect"),
        "limits.depth": ("file", f"{tmp_path / 'harmonia.toml'}: limits.depth"),
        "host": ("default", ""),
    }


def test_the_file_is_named_by_a_flag_or_by_a_variable_and_never_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "harmonia.toml").write_text("port = 1")
    other = tmp_path / "other.toml"
    other.write_text("port = 2")
    monkeypatch.chdir(tmp_path)
    assert load().settings.port == Settings().port
    assert load(HARMONIA_CONFIG="other.toml").settings.port == 2
    assert load_settings(environment={"HARMONIA_CONFIG": "other.toml"}, config="harmonia.toml").settings.port == 1


def test_every_setting_has_a_variable_of_its_own() -> None:
    variables = [setting.variable for setting in SETTINGS.values()]
    assert len(set(variables)) == len(variables) == len(Settings.__struct_fields__) - 1 + len(Limits.__struct_fields__)
    assert "HARMONIA_LIMITS_BODY_BYTES" in variables


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("HARMONIA_PORT", " 0 ", "port", 0),
        ("HARMONIA_HOST", "[::1]", "host", "::1"),
        ("HARMONIA_ALIASES", "gpt-4o, gpt-5,", "aliases", ("gpt-4o", "gpt-5")),
        ("HARMONIA_INSECURE", "Yes", "insecure", True),
        ("HARMONIA_LOG_CONTENT", "0", "log_content", False),
        ("HARMONIA_ENGINE_OPTIONS", '{"context_tokens": 9}', "engine_options", {"context_tokens": 9}),
        ("HARMONIA_MCP_APPROVAL", '{"a": {"b": "ask"}, "*": "run"}', "mcp_approval", {"a.b": "ask", "*": "run"}),
        ("HARMONIA_SEAL_DAYS", "0.5", "seal_days", 0.5),
        ("HARMONIA_MCP", "~/mcp.json", "mcp", str(Path("~/mcp.json").expanduser())),
        ("HARMONIA_STORE", "sqlite:///~/x", "store", f"sqlite:///{Path('~/x').expanduser()}"),
        ("HARMONIA_MODEL", "", "model", None),
        ("HARMONIA_ORIGINS", "https://a.example, http://[::1]:80", "origins", ("https://a.example", "http://[::1]:80")),
    ],
)
def test_a_variable_is_read_as_its_type(variable: str, text: str, name: str, value: Any) -> None:
    assert getattr(load(**{variable: text}).settings, name) == value


def test_a_limit_with_a_default_can_be_left_out_on_purpose(tmp_path: Path) -> None:
    assert load(HARMONIA_LIMITS_STORED_DAYS="none").settings.limits.stored_days is None
    assert load('[limits]\nstored_days = "none"', tmp_path).settings.limits.stored_days is None
    # A store is no number: who asks for none must not get the usual file.
    assert refused(HARMONIA_STORE="none").at.path == "$.store"


@pytest.mark.parametrize(
    ("variable", "text", "path"),
    [
        ("HARMONIA_PORT", "65536", "$.port"),
        ("HARMONIA_PORT", "80.5", "$.port"),
        ("HARMONIA_PORT", "tcp://10.0.0.1:80", "$.port"),
        ("HARMONIA_HOST", "http://localhost", "$.host"),
        ("HARMONIA_ANALYSIS", "visible", "$.analysis"),
        ("HARMONIA_INSECURE", "perhaps", "$.insecure"),
        ("HARMONIA_STORE", "postgres://x", "$.store"),
        ("HARMONIA_STORE", "sqlite:///", "$.store"),
        ("HARMONIA_HOSTS", "https://example.org/", "$.hosts"),
        ("HARMONIA_ORIGINS", "https://example.org/path", "$.origins"),
        ("HARMONIA_ORIGINS", "https://me:pw@example.org", "$.origins"),
        ("HARMONIA_ORIGINS", "*", "$.origins"),
        ("HARMONIA_ENGINE_OPTIONS", "context_tokens=3", "$.engine_options"),
        ("HARMONIA_MCP_APPROVAL", '{"files": "maybe"}', "$.mcp_approval"),
        ("HARMONIA_LIMITS_DEPTH", "0", "$.limits.depth"),
        ("HARMONIA_LIMITS_REQUEST_S", "inf", "$.limits.request_s"),
        ("HARMONIA_LIMITS_REQUEST_S", "nan", "$.limits.request_s"),
        ("HARMONIA_LIMITS_REQUEST_S", "1e300", "$.limits.request_s"),
        ("HARMONIA_LIMITS_STORED_DAYS", "1e300", "$.limits.stored_days"),
        ("HARMONIA_SEAL_DAYS", "36501", "$.seal_days"),
        ("HARMONIA_LIMITS_OUTPUT_TOKENS", "null", "$.limits.output_tokens"),
        ("HARMONIA_MODEL", "a\x1b[31mb", "$.model"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_its_source(variable: str, text: str, path: str) -> None:
    error = refused(**{variable: text})
    assert error.at.path == path and variable in error.message


@pytest.mark.parametrize(
    ("toml", "path"),
    [
        ("port = '80'", "$.port"),  # a text is no number
        ("port = true", "$.port"),
        ("insecure = 1", "$.insecure"),
        ("aliases = 'x'", "$.aliases"),
        ("model = ''", "$.model"),
        ("limits = 3", "$.limits"),
        ("limits.depth = inf", "$.limits.depth"),
        ("limits.request_s = nan", "$.limits.request_s"),
    ],
)
def test_a_wrong_value_in_the_file_is_refused_with_the_file_and_the_key(tmp_path: Path, toml: str, path: str) -> None:
    error = refused(toml, tmp_path)
    assert error.at.path == path and str(tmp_path) in error.message


@pytest.mark.parametrize(
    ("toml", "path", "meant"),
    [
        ("prot = 1", "$.prot", "port"),
        ("[limits]\ndepht = 1", "$.limits.depht", "limits.depth"),
        ("depth = 1", "$.depth", "limits.depth"),
        ("[limits]\nport = 1", "$.limits.port", "port"),
        ("[limits.depth]\nx = 1", "$.limits.depth", ""),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(tmp_path: Path, toml: str, path: str, meant: str) -> None:
    error = refused(toml, tmp_path)
    assert error.at.path == path and meant in error.message


@pytest.mark.parametrize("content", [b"port = ", b"\xff", b"a = [" * 5000])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    for config in (path, tmp_path / "missing.toml", tmp_path):
        with pytest.raises(InputError) as caught:
            load_settings(environment={}, config=config)
        assert caught.value.code is ErrorCode.SERVE_INVALID_OPTION and str(config) in caught.value.message


def test_tables_are_put_together_key_by_key_and_lists_are_not(tmp_path: Path) -> None:
    toml = 'aliases = ["a"]\n[engine_options]\ncontext_tokens = 1\nstreaming = true\n'
    loaded = load(toml, tmp_path, HARMONIA_ENGINE_OPTIONS='{"context_tokens": 2}', HARMONIA_ALIASES="b")
    assert loaded.settings.engine_options == {"context_tokens": 2, "streaming": True}
    assert loaded.settings.aliases == ("b",)


def test_an_unknown_flag_of_a_program_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        load(None, None, {"limits.dept": Flag("--limit dept", "3")})
    assert caught.value.at.path == "$.limits.dept" and "limits.depth" in caught.value.message


# ── who may reach it ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.example.org", "127.1"])
def test_an_address_that_others_reach_needs_keys_or_a_word(host: str) -> None:
    error = refused(HARMONIA_HOST=host)
    assert error.at.path == "$.host" and "HARMONIA_HOST" in error.message
    ways_out = " ".join(error.__notes__)
    assert "--api-key-file" in ways_out and "--insecure" in ways_out
    assert load(HARMONIA_HOST=host, HARMONIA_API_KEY_FILE="keys").settings.host == host
    assert load(HARMONIA_HOST=host, HARMONIA_INSECURE="true").settings.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_loopback_needs_no_keys(host: str) -> None:
    assert is_loopback(load(HARMONIA_HOST=host).settings.host)


# ── secrets ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_secret_is_shown_in_a_description_a_repr_or_an_error(tmp_path: Path) -> None:
    toml = f'engine = "vllm:http://me:{SECRET}@127.0.0.1:9/v1?key={SECRET}"\n[engine_options.headers]\nx = "{SECRET}"\n'
    loaded = load(toml, tmp_path, HARMONIA_ENGINE_API_KEY=SECRET)
    described = describe(loaded)
    assert SECRET not in to_toml(described) and SECRET not in repr(described)
    assert SECRET not in repr(loaded)
    assert {each.name for each in described if each.hides} == {"engine", "engine_api_key", "engine_options"}
    for error in (
        refused(HARMONIA_ENGINE_API_KEY=f"{SECRET}\x00"),
        refused(HARMONIA_ENGINE_OPTIONS=f'{{"headers": "{SECRET}'),
        refused(f'engine_api_key = ["{SECRET}"]', tmp_path),
        refused(f'api_key = "{SECRET}"', tmp_path),
    ):
        assert SECRET not in str(error) and error.__cause__ is None


@pytest.mark.parametrize(
    ("engine", "shown"),
    [
        ("auto", "auto"),
        ("transformers:/a@b", "transformers:/a@b"),
        ("http://h:1/v1", "http://h:1/v1"),
        ("vllm:https://u:p@h/a@b?k=v", "vllm:https://…@h/a@b?…"),
        ("http://h:1?key=k", "http://h:1?…"),
        ("http://u:p/q@h:1/v1", "http://…@h:1/v1"),
        ("http//u:p@h", "…@h"),
        ("vllm:u:p@h:80", "…@h:80"),
        ("htp://u:p@q@h", "htp://…@h"),
        ("http://[::1]:8000/a@b", "http://[::1]:8000/a@b"),
    ],
)
def test_an_engine_is_shown_without_its_password(engine: str, shown: str) -> None:
    assert redact(engine) == shown


# ── notes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_variable_that_looks_like_a_slip_is_noted_and_others_are_left_alone() -> None:
    slip = load(HARMONIA_API_KEYS_FILE="x").notes
    assert len(slip) == 1 and "HARMONIA_API_KEY_FILE" in slip[0]
    known = ("HARMONIA_API_KEY", "HARMONIA_VOCABULARY", "HARMONIA_TOLERANT", "HARMONIA_SERVICE_HOST")
    assert load(**dict.fromkeys(known, "x")).notes == ()


def test_what_kubernetes_puts_into_the_environment_is_explained() -> None:
    assert "enableServiceLinks" in refused(HARMONIA_PORT="tcp://10.0.0.1:80").__notes__[0]


# ── what is printed is what is read ─────────────────────────────────────────────────────────────────────────────────

words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)
numbers = st.floats(0.001, 36_500)
values = st.fixed_dictionaries(
    {},
    optional={
        "port": st.integers(0, 65535),
        "model": words,
        "aliases": st.lists(words, max_size=3),
        "dialect": st.sampled_from(["openai", "open-responses"]),
        "calls": st.sampled_from(["certain", "unverified"]),
        "insecure": st.booleans(),
        "seal_days": numbers,
        "engine_options": st.dictionaries(words, st.integers() | st.booleans() | st.floats(-1e9, 1e9), max_size=3),
        "mcp_approval": st.dictionaries(words, st.sampled_from(["run", "ask", "refuse"]), max_size=3),
        "limits.depth": st.integers(1, 10**9),
        "limits.output_tokens": st.none() | st.integers(1, 10**9),
        "limits.stored_days": st.none() | numbers,
    },
)


@given(values)
def test_the_printed_settings_read_again_are_the_same(tmp_path_factory: pytest.TempPathFactory, given_: Any) -> None:
    flags = {name: Flag(f"--{name}", value) for name, value in given_.items()}
    loaded = load_settings(flags, environment={})
    printed = to_toml(describe(loaded))
    tomllib.loads(printed)
    path = tmp_path_factory.mktemp("printed") / "again.toml"
    path.write_text(printed, encoding="utf-8")
    assert load_settings(environment={}, config=path).settings == loaded.settings


def test_the_page_lists_every_setting_with_its_default_where_that_is_a_number() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    table = page.partition("## All settings")[2]
    listed: dict[str, str] = {}
    for row in table.splitlines():
        cells = row.split("|")
        names: list[str] = re.findall(r"`([a-z_.]+)`", cells[1]) if len(cells) == 5 else []
        above = ""
        for name in names:
            above = name.rpartition(".")[0] or above
            listed[above + name if name.startswith(".") else name] = cells[2]
    assert set(listed) == set(SETTINGS)
    units = {" MiB": 2**20, " KiB": 2**10}
    for name, cell in listed.items():
        default = SETTINGS[name].default
        if isinstance(default, int | float) and not isinstance(default, bool):
            said = [part.strip().replace(" 000", "000") for part in cell.split(",")]
            spelled = {f"{default:g}", str(default), *(f"{default / unit:g}{word}" for word, unit in units.items())}
            assert spelled & set(said), name


def test_the_page_lists_every_metric_with_its_labels() -> None:
    from harmonia.serve.http.telemetry import Metrics

    page = (ROOT / "docs" / "guides" / "server.md").read_text()
    registry: Any = vars(Metrics())["_registry"]
    for metric in registry._collector_to_names:
        name = metric._name + ("_total" if metric._type == "counter" else "")
        row = next((row for row in page.splitlines() if row.startswith("|") and f"`{name}`" in row), None)
        assert row is not None, name
        assert tuple(re.findall(r"`(\w+)`", row.split("|")[2])) == metric._labelnames, name


def test_the_example_file_is_read() -> None:
    loaded = load_settings(environment={}, config=ROOT / "examples" / "harmonia.toml")
    assert loaded.settings.limits != Limits()
