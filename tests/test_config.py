"""Settings: what is known, what is refused and how it is named, and who wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sidecar.config import Config, Secret, ServeOptions, Source, from_environment, load
from sidecar.errors import BadConfig


def toml(**tables: Any) -> Source:
    return Source("config.toml", tables)


def test_without_any_source_the_defaults_hold() -> None:
    config = load([])
    assert config.http.port is None
    assert config.http.allowed_origins == ["app://obsidian.md"]
    assert (config.http.max_body_mib, config.index.max_note_mib) == (16, 32)
    assert config.surfaces.enabled is None
    assert (config.notes.other_devices, config.notes.allow_writes) == (False, False)
    assert (config.agents.folder, config.agents.memory_note) == ("Agents", "Agents/Memory.md")
    assert config.log.level == "info"


def test_a_later_source_wins_key_by_key() -> None:
    config = load(
        [
            toml(http={"port": 2001, "max_body_mib": 3}, log={"level": "debug"}),
            Source("settings.json", {"http": {"port": 2002}}),
            from_environment({"VAULT_SIDECAR_HTTP_PORT": "2003"}),
            Source("the command line", {"http": {"port": 2004}}),
        ]
    )
    assert config.http.port == 2004
    assert config.http.max_body_mib == 3
    assert config.log.level == "debug"


def test_a_source_can_take_back_what_a_weaker_one_set() -> None:
    assert load([toml(http={"port": 2001}), Source("settings.json", {"http": {"port": None}})]).http.port is None


@pytest.mark.parametrize(
    ("tables", "named", "hint"),
    [
        pytest.param({"http": {"prot": 1}}, "[http] prot", "did you mean [http] port?", id="D17-misspelled"),
        pytest.param({"http": {"host": "0.0.0.0"}}, "[http] host", "there are [http] port,", id="D01-any-address"),
        pytest.param({"http": {"host": "::"}}, "[http] host", "there are [http] port,", id="D01-any-address-v6"),
        pytest.param({"host": "127.0.0.1"}, "host", "there are [http]", id="D01-outside-a-table"),
        pytest.param({"htpp": {"port": 1}}, "[htpp]", "did you mean [http]?", id="D17-misspelled-section"),
        pytest.param({"port": 2000}, "port", "did you mean [http] port?", id="D17-outside-a-table"),
        pytest.param({"index": {"port": 2000}}, "[index] port", "did you mean [http] port?", id="D17-wrong-section"),
        pytest.param({"notes": {"zzz": 1}}, "[notes] zzz", "there are [notes] other_devices", id="D17-like-nothing"),
    ],
)
def test_an_unknown_key_is_named_with_what_is_known(tables: dict[str, Any], named: str, hint: str) -> None:
    with pytest.raises(BadConfig) as refused:
        load([toml(**tables)])
    sentence = str(refused.value)
    assert sentence.startswith(f"config.toml: {named} is not a known setting")
    assert hint in sentence


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        pytest.param({"http": 3}, "http must be a table of settings", id="no-table"),
        pytest.param({"http": {"port": "24783"}}, "[http] port must be a whole number", id="text-for-number"),
        pytest.param({"http": {"port": True}}, "[http] port must be a whole number", id="truth-for-number"),
        pytest.param({"http": {"port": 80}}, "[http] port must be 0 (", id="privileged-port"),
        pytest.param({"http": {"port": 65536}}, "[http] port must be 0 (", id="port-too-high"),
        pytest.param({"http": {"max_body_mib": 0}}, "must be a whole number from 1 to 1024", id="out-of-range"),
        pytest.param({"http": {"allowed_origins": "a"}}, "must be a list of texts", id="text-for-list"),
        pytest.param({"http": {"allowed_origins": [1]}}, "must be a list of texts", id="numbers-in-list"),
        pytest.param({"notes": {"other_devices": 1}}, "must be true or false", id="number-for-truth"),
        pytest.param({"log": {"level": "loud"}}, "must be one of debug, info, warning, error", id="no-such-level"),
        pytest.param({"http": {"bearer_token_env": 3}}, "must be a text", id="number-for-text"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadConfig) as refused:
        load([toml(**tables)])
    assert str(refused.value).startswith("config.toml: ")
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "origin",
    [
        pytest.param("*", id="O30-star"),
        pytest.param("null", id="O30-null"),
        pytest.param(" NULL", id="O30-null-spelled-otherwise"),
        pytest.param("https://*.example", id="O30-pattern"),
        pytest.param("https://obsidian.md/", id="final-slash"),
        pytest.param("obsidian.md", id="no-scheme"),
        pytest.param("", id="empty"),
    ],
)
def test_an_origin_that_is_not_exact_stops_the_start(origin: str) -> None:
    with pytest.raises(BadConfig, match=r"config\.toml: \[http\] allowed_origins must list"):
        load([toml(http={"allowed_origins": ["app://obsidian.md", origin]})])


def test_a_mistake_is_reported_even_where_a_stronger_source_would_hide_it() -> None:
    with pytest.raises(BadConfig, match=r"^config\.toml: \[http\] port"):
        load([toml(http={"port": "x"}), Source("settings.json", {"http": {"port": 2000}})])


def test_an_unknown_surface_stops_the_start_and_names_the_key() -> None:
    with pytest.raises(BadConfig) as refused:
        load([toml(surfaces={"enabled": ["notes", "library"]})], surfaces=("notes",))
    assert str(refused.value) == "config.toml: [surfaces] enabled names 'library'; the surfaces are notes"
    assert load([toml(surfaces={"enabled": ["notes"]})], surfaces=("notes",)).surfaces.enabled == ["notes"]
    assert load([toml(surfaces={"enabled": []})], surfaces=("notes",)).surfaces.enabled == []


def test_environment_variables_become_settings_of_their_type() -> None:
    config = load(
        [
            from_environment(
                {
                    "VAULT_SIDECAR_HTTP_PORT": " 2000 ",
                    "VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV": "MY_TOKEN",
                    "VAULT_SIDECAR_HTTP_ALLOWED_ORIGINS": "app://obsidian.md, http://127.0.0.1:3000",
                    "VAULT_SIDECAR_NOTES_OTHER_DEVICES": "true",
                    "VAULT_SIDECAR_LOG_LEVEL": "warning",
                    "VAULT_SIDECAR_VAULT": "/elsewhere",
                    "VAULT_SIDECAR_STATE": "/elsewhere",
                    "HTTP_PORT": "1",
                }
            )
        ]
    )
    assert config.http.port == 2000
    assert config.http.bearer_token_env == "MY_TOKEN"
    assert config.http.allowed_origins == ["app://obsidian.md", "http://127.0.0.1:3000"]
    assert config.notes.other_devices is True
    assert config.log.level == "warning"


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        ("HTTP_PRT", "1", "is not a known setting; did you mean VAULT_SIDECAR_HTTP_PORT?"),
        ("HTTP_HOST", "::", "is not a known setting; there are VAULT_SIDECAR_HTTP_PORT, VAULT_SIDECAR_HTTP_BEARER"),
        ("HTTP", "1", "is not a known setting"),
        ("HTPP_PORT", "1", "is not a known setting; did you mean VAULT_SIDECAR_HTTP_PORT?"),
        ("PORT", "2000", "is not a known setting; did you mean VAULT_SIDECAR_HTTP_PORT?"),
        ("MAX_NOTE_MIB", "1", "is not a known setting; did you mean VAULT_SIDECAR_INDEX_MAX_NOTE_MIB?"),
        ("HTTP_PORT", "abc", "must be a whole number"),
        ("HTTP_PORT", "", "must be a whole number"),
        ("NOTES_OTHER_DEVICES", "maybe", "must be true or false"),
    ],
)
def test_a_variable_that_is_wrong_is_named_as_it_is_spelled(variable: str, text: str, sentence: str) -> None:
    with pytest.raises(BadConfig) as refused:
        load([from_environment({f"VAULT_SIDECAR_{variable}": text})])
    assert str(refused.value).startswith(f"the environment: VAULT_SIDECAR_{variable} {sentence}")


@pytest.mark.parametrize("name", ["VAULT", "STATE", "CORPORA", "TOKEN", "HOST", "GARDEN_BED", "X", ""])
def test_a_variable_like_no_setting_is_left_alone(name: str) -> None:
    assert load([from_environment({f"VAULT_SIDECAR_{name}": "x"})]) == Config()


@pytest.mark.parametrize("name", ["VAULT_SIDECAR_HTTP_TOKEN", "VAULT_SIDECAR_BEARER_TOKEN"])
def test_the_variable_that_holds_the_token_is_no_setting(name: str) -> None:
    """Whatever it is called, and wherever it is named."""
    with pytest.raises(BadConfig):
        load([from_environment({name: "s3cr3t"})])
    here = {name: "s3cr3t", "VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV": name}
    assert load([from_environment(here)]).http.bearer_token_env == name
    assert load([from_environment({name: "s3cr3t"}, tokens=[name])]) == Config()


def test_a_token_put_in_the_wrong_place_is_not_echoed() -> None:
    secret = "s3cr3t-" * 6
    hexadecimal = "abcdef0123456789" * 4
    with pytest.raises(BadConfig, match="must be the name of an environment variable"):
        load([toml(http={"bearer_token_env": hexadecimal})])
    for tables in ({"http": {"bearer_token_env": secret}}, {"http": {"token": secret}}, {"token": secret}):
        with pytest.raises(BadConfig) as refused:
            load([toml(**tables)])
        assert secret not in str(refused.value)
        assert "s3cr3t" not in repr(refused.value.__cause__)


@pytest.mark.parametrize("show", [repr, str, "{}".format], ids=["repr", "str", "format"])
def test_settings_show_a_token_as_stars(show: Any) -> None:
    """L11."""
    options = ServeOptions(Config(), Path("vault"), Path("state"), "run", injected_token=Secret("s3cr3t"))
    assert "s3cr3t" not in show(options)
    assert "injected_token=***" in show(options)
    assert show(Secret("s3cr3t")) == "***"
