"""Profiles: which format a model's name stands for, the package's own data, and the user's before it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError
from harmonia.families.profiles import (
    MAX_NAME_CHARS,
    ModelProfile,
    Thinking,
    all_profiles,
    profile_named,
    read_profiles,
    resolve_profile,
)
from harmonia.families.registry import ToolFormat
from harmonia.families.templates import template_names
from harmonia.run.default_paths import profiles_file
from harmonia.run.family_models import user_profiles

TAGS = Thinking("<think>", "</think>")
OPENED = Thinking("<think>", "</think>", opened_by_prompt=True)
MINE = ModelProfile("mine", "mine", ToolFormat.GRANITE, "plain", "my-model")

# Names as hubs, llama.cpp, Ollama and clouds spell them, and what each of these models really writes.
REAL_NAMES = [
    ("openai/gpt-oss-20b", "gpt_oss_harmony", "harmony", "harmony"),
    ("gpt-oss:120b", "gpt_oss_harmony", "harmony", "harmony"),
    ("unsloth/gpt-oss-20b-GGUF/gpt-oss-20b-Q4_K_M.gguf", "gpt_oss_harmony", "harmony", "harmony"),
    ("openai.gpt-oss-120b-1:0", "gpt_oss_harmony", "harmony", "harmony"),
    ("gpt_oss_20b", "gpt_oss_harmony", "harmony", "harmony"),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "deepseek_r1", "text", "plain"),
    ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "deepseek_r1", "text", "plain"),
    ("deepseek-r1:14b", "deepseek_r1", "text", "plain"),
    ("deepseek-ai/DeepSeek-V3.1", "deepseek", "text", "plain"),
    ("NousResearch/Hermes-2-Pro-Llama-3-8B", "hermes", "hermes", "chatml"),
    ("Hermes-2-Pro-Mistral-7B.Q5_K_M.gguf", "hermes", "hermes", "chatml"),
    ("hermes3:8b-llama3.1-q4_K_M", "hermes", "hermes", "chatml"),
    ("NousResearch/Hermes-4-70B", "hermes_4", "hermes", "llama3"),
    ("NousResearch/Hermes-4-14B", "hermes_4_14b", "hermes", "chatml"),
    ("NousResearch/DeepHermes-3-Llama-3-8B-Preview", "hermes_4", "hermes", "llama3"),
    ("Qwen/QwQ-32B", "qwen_thinking", "hermes", "chatml"),
    ("Qwen/Qwen3-235B-A22B-Thinking-2507", "qwen_thinking", "hermes", "chatml"),
    ("Qwen/Qwen3.5-27B", "qwen_thinking", "hermes", "chatml"),
    ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_instruct", "hermes", "chatml"),
    ("qwen3-coder:30b", "qwen3_instruct", "hermes", "chatml"),
    ("Qwen/Qwen3-4B-Instruct-2507-FP8", "qwen3_instruct", "hermes", "chatml"),
    ("qwen3:8b", "qwen3", "hermes", "chatml"),
    ("Qwen/Qwen3-0.6B", "qwen3", "hermes", "chatml"),
    ("hf.co/bartowski/Qwen2.5-7B-Instruct-GGUF:Q4_K_M", "qwen2", "hermes", "chatml"),
    ("qwen2.5-coder:7b", "qwen2", "hermes", "chatml"),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama_4", "openai", "plain"),
    ("meta-llama/Llama-3.1-8B-Instruct", "llama_3", "openai", "llama3"),
    ("llama3.2:3b", "llama_3", "openai", "llama3"),
    ("us.meta.llama3-3-70b-instruct-v1:0", "llama_3", "openai", "llama3"),
    ("Meta-Llama-3.1-70B-Instruct-Q4_K_M-00001-of-00002.gguf", "llama_3", "openai", "llama3"),
    ("nvidia/Llama-3.1-Nemotron-Nano-8B-v1", "llama_nemotron", "openai", "llama3"),
    ("mistralai/Magistral-Small-2506", "magistral_2506", "openai", "mistral"),
    ("mistralai/Magistral-Small-2509", "magistral", "openai", "mistral"),
    ("mistralai/Ministral-3-14B-Reasoning-2512", "magistral", "openai", "mistral"),
    ("mistralai/Mistral-7B-Instruct-v0.2", "mistral_7b_v02", "hermes", "plain"),
    ("mistralai/Mistral-7B-Instruct-v0.3", "mistral", "openai", "mistral"),
    ("devstral:24b", "mistral", "openai", "mistral"),
    ("google/functiongemma-270m-it", "functiongemma", "gemini", "functiongemma"),
    ("google/gemma-4-31B-it", "gemma_4", "gemini", "gemma4"),
    ("google/gemma-3-27b-it", "gemma", "gemini", "gemma"),
    ("gemma3:4b", "gemma", "gemini", "gemma"),
    ("ibm-granite/granite-20b-functioncalling", "granite_function_calling", "granite", "plain"),
    ("ibm-granite/granite-3.2-8b-instruct", "granite_3_2", "granite", "granite3"),
    ("granite3.3:8b", "granite_3", "granite", "granite3"),
    ("ibm-granite/granite-4.0-h-tiny", "granite", "granite", "granite"),
    ("microsoft/Phi-4-mini-reasoning", "phi_reasoning", "text", "plain"),
    ("microsoft/phi-4", "phi", "text", "plain"),
    ("phi3:mini", "phi", "text", "plain"),
    ("HuggingFaceTB/SmolLM3-3B", "smollm3", "hermes", "chatml"),
    ("HuggingFaceTB/SmolLM2-1.7B-Instruct", "smollm", "hermes", "chatml"),
    ("Qwen/Qwen1.5-7B-Chat", "openai_style", "hermes", "chatml"),
    ("codellama/CodeLlama-34b-Instruct-hf", "openai_style", "hermes", "chatml"),
    ("cognitivecomputations/dolphin-2.9", "default", "text", "plain"),
    ("", "default", "text", "plain"),
]


@pytest.mark.parametrize(("model", "name", "tool_format", "template"), REAL_NAMES, ids=[row[0] for row in REAL_NAMES])
def test_real_names_find_what_the_model_writes(model: str, name: str, tool_format: str, template: str) -> None:
    found = resolve_profile(model)
    assert (found.name, found.format.value, found.template) == (name, tool_format, template)


def test_every_profile_of_the_package_is_found_by_a_real_name() -> None:
    assert {row[1] for row in REAL_NAMES} == {profile.name for profile in all_profiles()}


def test_gpt_oss_comes_before_everything() -> None:
    assert all_profiles()[0].name == "gpt_oss_harmony"
    assert [profile.name for profile in all_profiles() if profile.format is ToolFormat.HARMONY] == ["gpt_oss_harmony"]
    # Many names match several; the first one counts.
    assert resolve_profile("gpt-oss-20b-distilled-into-qwen3-instruct").format is ToolFormat.HARMONY


def test_the_general_rules_come_last_and_are_the_seeds() -> None:
    *_, general, default = all_profiles()
    assert (general.name, general.pattern) == ("openai_style", "qwen|llama.*instruct|mistral.*instruct")
    assert general.format is ToolFormat.HERMES
    assert (default.name, default.pattern, default.format) == ("default", "", ToolFormat.TEXT)


def test_every_template_of_the_package_is_there() -> None:
    assert {profile.template for profile in all_profiles()} <= {"harmony", *template_names()}


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("qwen3:8b", TAGS),
        ("QwQ-32B", OPENED),
        ("DeepSeek-R1-Distill-Llama-8B", OPENED),
        ("Qwen2.5-7B-Instruct", None),
        ("Magistral-Small-2509", Thinking("[THINK]", "[/THINK]")),
        ("granite-3.2-8b-instruct", Thinking("Here is my thought process:", "Here is my response:")),
        ("granite-3.3-8b-instruct", TAGS),
        ("a model that nobody knows", TAGS),
    ],
)
def test_thoughts_are_marked_as_the_model_marks_them(model: str, thinking: Thinking | None) -> None:
    assert resolve_profile(model).thinking == thinking


@pytest.mark.parametrize(
    ("model", "name"),
    [
        # Folders say less than the model's own name.
        ("/home/llama/llama.cpp/models/phi-4-instruct.gguf", "phi"),
        ("gpt-oss-experiments/qwen3-8b", "qwen3"),
        ("C:\\models\\llama\\gemma-3-4b-it-Q8_0.gguf", "gemma"),
        ("models/qwen3-8b/", "qwen3"),
        # But where it says nothing, they are all there is.
        ("models--Qwen--Qwen3-8B/snapshots/b968826d9c46dd6066d109eabc6255188de91218", "qwen3"),
        ("/models/gpt-oss-20b/model.safetensors", "gpt_oss_harmony"),
        # The letters of phi in another word.
        ("dolphin-4", "default"),
    ],
)
def test_the_last_part_of_a_path_counts_first(model: str, name: str) -> None:
    assert resolve_profile(model).name == name


def test_the_users_profiles_come_first() -> None:
    own = [ModelProfile("mine", "mine", ToolFormat.GRANITE, "plain", "gpt-oss")]
    assert resolve_profile("gpt-oss-20b", own).name == "mine"
    assert resolve_profile("gpt-oss-20b").name == "gpt_oss_harmony"
    assert [profile.name for profile in all_profiles(own)][:2] == ["mine", "gpt_oss_harmony"]


def test_a_profile_with_one_of_our_names_takes_its_place() -> None:
    own = [
        ModelProfile("default", "mine", ToolFormat.HERMES, "chatml"),
        ModelProfile("openai_style", "mine", ToolFormat.OPENAI, "chatml", "qwen|gpt-oss"),
    ]
    assert resolve_profile("somebody/new", own) == own[0]
    assert resolve_profile("qwen1.5", own) == own[1]
    # It did not come before the special rules.
    assert resolve_profile("gpt-oss-20b", own).name == "gpt_oss_harmony"
    assert len(all_profiles(own)) == len(all_profiles())


def test_a_pattern_with_a_slash_is_about_the_whole_name() -> None:
    own = [ModelProfile("mine", "mine", ToolFormat.GRANITE, "plain", "^my-org/")]
    assert resolve_profile("My-Org/Qwen3-8B", own) == own[0]
    assert resolve_profile("other/my-org", own).name == "default"


def test_profiles_are_found_by_name() -> None:
    assert profile_named("qwen3").format is ToolFormat.HERMES
    assert profile_named("mine", [MINE]) is MINE
    with pytest.raises(InputError) as raised:
        profile_named("nobody")
    assert raised.value.code is ErrorCode.FORMATS_INVALID_OPTION


@given(st.text(max_size=40))
def test_any_name_has_a_profile(model: str) -> None:
    assert resolve_profile(model) in all_profiles()


def test_a_name_without_end_is_looked_at_from_its_end() -> None:
    assert resolve_profile("llama" * 100_000 + "/gpt-oss").name == "gpt_oss_harmony"
    assert resolve_profile("gpt-oss" + "-" * MAX_NAME_CHARS).name == "default"


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

WHOLE = """
[[profile]]
name = "mine"
pattern = 'my-model'
family = "mine"
format = "granite"
template = "plain"
stop = ["END"]
thinking = { opens = "(", closes = ")", opened_by_prompt = true }
"""


def test_a_document_is_read_with_all_its_fields() -> None:
    assert read_profiles(WHOLE) == (
        ModelProfile(
            "mine", "mine", ToolFormat.GRANITE, "plain", "my-model", Thinking("(", ")", opened_by_prompt=True), ("END",)
        ),
    )
    assert read_profiles("") == ()


@pytest.mark.parametrize(
    ("changed", "path", "words"),
    [
        (("name =", "nome ="), "$.profile[0]", ["nome"]),
        (('format = "granite"', 'format = "swahili"'), "$.profile[0].format", ["mine", "hermes, openai", "swahili"]),
        (("'my-model'", "'my-(model'"), "$.profile[0]", ["mine", "pattern"]),
        (("family", "familie"), "$.profile[0]", ["mine", "familie"]),
        (('template = "plain"', ""), "$.profile[0]", ["mine", "template"]),
        (('template = "plain"', 'template = "plian"'), "$.profile[0].template", ["mine", "plian", "chatml", "harmony"]),
        (('template = "plain"', 'template = ""'), "$.profile[0]", ["mine", "template"]),
        (('stop = ["END"]', "stop = [1]"), "$.profile[0].stop[0]", ["mine"]),
        (('opens = "("', 'opens = ""'), "$.profile[0]", ["mine", "thinking"]),
        (('opens = "(", ', ""), "$.profile[0].thinking", ["mine", "opens"]),
        (("[[profile]]", "[profile]"), "$.profile", []),
        (("[[profile]]", "[[profiles]]"), "$.profiles", ["profiles"]),
        (("[[profile]]", "[[profile]"), None, ["TOML"]),
        (("[[profile]]", "profile = [3]\n[x]"), "$.x", []),
    ],
)
def test_a_wrong_document_says_what_is_wrong_where(
    changed: tuple[str, str], path: str | None, words: list[str]
) -> None:
    with pytest.raises(InputError) as raised:
        read_profiles(WHOLE.replace(*changed))
    assert raised.value.code is ErrorCode.FORMATS_INVALID_PROFILE
    assert raised.value.at.path == path
    assert all(word in raised.value.message for word in words), raised.value.message


def test_two_profiles_of_one_name_are_refused() -> None:
    with pytest.raises(InputError) as raised:
        read_profiles(WHOLE + WHOLE)
    assert (raised.value.code, raised.value.at.path) == (ErrorCode.FORMATS_INVALID_PROFILE, "$.profile[1]")


def test_a_profile_made_in_python_is_checked_too() -> None:
    with pytest.raises(InputError) as raised:
        ModelProfile("mine", "mine", ToolFormat.TEXT, "plain", "(")
    assert raised.value.code is ErrorCode.FORMATS_INVALID_PROFILE


# ── the user's file ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_users_file_is_read_from_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert user_profiles() == ()
    profiles_file().parent.mkdir()
    profiles_file().write_bytes(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode())
    assert [profile.name for profile in user_profiles()] == ["mine"]
    # One that is named stands for it.
    other = tmp_path / "other.toml"
    other.write_text(WHOLE.replace('"mine"', '"other"'))
    assert [profile.name for profile in user_profiles(other)] == ["other"]


def test_without_a_configuration_folder_it_is_the_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profiles_file() == tmp_path / ".config" / "harmonia" / "profiles.toml"


@pytest.mark.parametrize("written", [None, b"[[profile]]\nname = 3\n", b"\xff"])
def test_a_named_file_that_cannot_be_read_is_said(tmp_path: Path, written: bytes | None) -> None:
    file = tmp_path / "profiles.toml"
    if written is not None:
        file.write_bytes(written)
    with pytest.raises(InputError, match=re.escape(str(file))) as raised:
        user_profiles(file)
    assert raised.value.code is ErrorCode.FORMATS_INVALID_PROFILE


def test_the_packages_file_is_read_when_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # measuring would load tomllib
    code = (
        "import harmonia, sys\n"
        "import harmonia.run, harmonia.cli.parse\n"
        "assert not [name for name in sys.modules if name.startswith('harmonia.families')]\n"
        "import harmonia.families.profiles as profiles\n"
        "assert 'tomllib' not in sys.modules and 'harmonia.families.gemma' not in sys.modules\n"
        "assert profiles._package_profiles.cache_info().misses == 0\n"
        "profiles.resolve_profile('a'), profiles.resolve_profile('b')\n"
        "assert profiles._package_profiles.cache_info().misses == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
