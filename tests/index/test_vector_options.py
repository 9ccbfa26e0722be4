"""Settings that decide where vectors are kept and made: what goes together, and where secrets may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sidecar.config import Config, Source, from_environment, load
from sidecar.errors import BadConfig
from sidecar.index.vector_options import from_settings, secret_variables
from sidecar.index.wire import EmbedderOptions, Server

SECRET = "hush-hush"


def config(**tables: Any) -> Config:
    return load([Source("config.toml", tables)])


def test_by_default_vectors_are_kept_here_and_made_here() -> None:
    options = from_settings(config(), Path("models"), {})
    assert options is not None
    assert (options.embedder, options.server, options.backend) == ("auto", None, "embedded")
    assert options.embedder_options.network is False
    assert from_settings(config(index={"rag": False}, vectors={"backend": "cloud"}), Path(), {}) is None


def test_a_server_gets_what_the_settings_say() -> None:
    given = {"host": "chroma.lan", "port": 443, "ssl": True, "tenant": "t", "database": "d"}
    options = from_settings(config(vectors={"backend": "http", "headers": {"X-Key": SECRET}, **given}), Path(), {})
    assert options is not None
    assert options.server == Server("http", "chroma.lan", 443, True, {"X-Key": SECRET}, "t", "d", None)
    assert options.backend == "http"


def test_the_cloud_gets_its_key_from_the_environment_and_is_refused_without_one() -> None:
    cloud = config(vectors={"backend": "cloud", "database": "notes"})
    options = from_settings(cloud, Path(), {"CHROMA_API_KEY": f" {SECRET}\n"})
    assert options is not None
    assert options.server == Server("cloud", database="notes", api_key=SECRET)
    for environment in ({}, {"CHROMA_API_KEY": " "}):
        with pytest.raises(BadConfig, match="needs its key in the environment variable CHROMA_API_KEY"):
            from_settings(cloud, Path(), environment)


def test_headers_may_come_from_the_environment() -> None:
    source = from_environment({"VAULT_SIDECAR_VECTORS_HEADERS": f"Authorization: Bearer {SECRET}, X-Team: a:b"})
    headers = {name: value.get_secret_value() for name, value in load([source]).vectors.headers.items()}
    assert headers == {"Authorization": f"Bearer {SECRET}", "X-Team": "a:b"}


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"vectors": {"backend": "http", "headers": {"A B": SECRET}}}, "headers must have names of HTTP headers"),
        ({"vectors": {"headers": {"A": f"{SECRET}\r\nB: c"}}}, "headers must have values of visible ASCII"),
        ({"vectors": {"headers": {"A": f"{SECRET}ü"}}}, "headers must have values of visible ASCII"),
        ({"vectors": {"headers": SECRET}}, "headers must be a table of texts"),
        ({"vectors": {"headers": {"A": 3}}}, "headers must be a table of texts"),
        ({"vectors": {"host": f"http://{SECRET}"}}, "host must be the name or the address of a computer"),
        ({"vectors": {"host": f"{SECRET}:80"}}, "host must be the name or the address of a computer"),
        ({"vectors": {"port": 70_000}}, "port must be a port from 1 to 65535"),
        ({"vectors": {"backend": SECRET}}, "backend must be one of embedded, http, cloud"),
        ({"vectors": {"tenant": ""}}, "tenant must be a name, not an empty text"),
        ({"openai": {"base_url": f"http://me:{SECRET}@127.0.0.1/v1"}}, "base_url must be a URL such as"),
        ({"openai": {"base_url": f"file:///{SECRET}"}}, "base_url must be a URL such as"),
        ({"openai": {"base_url": "http://[x"}}, "base_url must be a URL such as"),
        ({"openai": {"key_env": f"{SECRET}-is-no-name"}}, "key_env must be the name of an environment variable"),
        ({"index": {"embedder": "fastembed:../../etc"}}, "embedder must be one of auto, e5, use, hash, openai, fast"),
        ({"index": {"embedder": "openai:x"}}, "embedder must be one of auto"),
        ({"index": {"embedder": SECRET}}, "embedder must be one of auto"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_and_its_value_is_not(tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadConfig) as refused:
        config(**tables)
    assert sentence in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", ["fastembed:BAAI/bge-small-en-v1.5", "sentence-transformers:all-MiniLM-L6-v2"])
def test_a_model_of_a_hub_is_named_behind_its_library(name: str) -> None:
    options = from_settings(config(index={"embedder": name}), Path(), {})
    assert options is not None and options.embedder == name


LOCAL = {"model": "nomic-embed-text"}


def test_a_service_on_this_computer_needs_its_models_name_only() -> None:
    for base_url in (
        "http://127.0.0.1:11434/v1",
        "http://localhost:1234/v1/",
        "http://[::1]:8000/v1",
        "https://127.9.9.9",
    ):
        options = from_settings(
            config(index={"embedder": "openai"}, openai={**LOCAL, "base_url": base_url}), Path(), {}
        )
        assert options is not None
        assert options.embedder == "openai:nomic-embed-text"
        assert options.embedder_options == EmbedderOptions(base_url.rstrip("/"))


def test_the_key_comes_from_the_variable_that_is_named() -> None:
    asked = config(index={"embedder": "openai"}, openai={**LOCAL, "key_env": "MY_KEY", "query_prefix": "q: "})
    options = from_settings(asked, Path(), {"MY_KEY": SECRET})
    assert options is not None
    assert options.embedder_options == EmbedderOptions("http://127.0.0.1:11434/v1", SECRET, "q: ")
    assert set(secret_variables(asked)) == {"CHROMA_API_KEY", "VAULT_SIDECAR_VECTORS_HEADERS", "MY_KEY"}


ELSEWHERE = {"base_url": "https://api.example.org/v1"}


@pytest.mark.parametrize(
    ("openai", "network", "sentence"),
    [
        ({}, False, "needs [openai] model"),
        (
            {**LOCAL, **ELSEWHERE},
            False,
            "the text of all notes would be sent there; [index] embedder_network = true allows",
        ),
        ({**LOCAL, "base_url": "http://10.0.0.7/v1"}, False, "is on another computer"),
        ({**LOCAL, "base_url": "http://127.0.0.1.example.org/v1"}, False, "is on another computer"),
        ({**LOCAL, "base_url": "http://0.0.0.0/v1"}, False, "is on another computer"),
        ({**LOCAL, "base_url": "http://10.0.0.7/v1"}, True, "must begin with https"),
        ({**LOCAL, "key_env": "MY_KEY"}, False, "names the environment variable MY_KEY, which holds no key"),
        ({**LOCAL, "key_env": "BAD_KEY"}, False, "the environment variable BAD_KEY holds something that is no key"),
    ],
)
def test_a_service_that_may_not_be_asked_stops_the_start(openai: dict[str, str], network: bool, sentence: str) -> None:
    asked = config(index={"embedder": "openai", "embedder_network": network}, openai=openai)
    with pytest.raises(BadConfig) as refused:
        from_settings(asked, Path(), {"BAD_KEY": f"{SECRET}\x07"})
    assert sentence in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_service_elsewhere_may_be_asked_when_that_is_allowed() -> None:
    asked = config(index={"embedder": "openai", "embedder_network": True}, openai={**LOCAL, **ELSEWHERE})
    options = from_settings(asked, Path(), {})
    assert options is not None and options.embedder_options.network


def test_no_repr_shows_a_secret() -> None:
    asked = config(
        index={"embedder": "openai"},
        openai={**LOCAL, "key_env": "MY_KEY"},
        vectors={"backend": "cloud", "headers": {"X-Key": SECRET}},
    )
    environment = {"MY_KEY": SECRET, "CHROMA_API_KEY": SECRET}
    options = from_settings(asked, Path(), environment)
    assert options is not None and options.server is not None and options.server.api_key == SECRET
    shown = f"{asked!r} {asked} {options!r} {options.server!r} {options.embedder_options!r}"
    assert SECRET not in shown
    assert "'X-Key': SecretStr('**********')" in shown
