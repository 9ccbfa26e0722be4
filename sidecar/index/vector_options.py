"""How a corpus gets its vectors, and what of that the settings and the environment say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sidecar.config import Config
from sidecar.config.values import is_here
from sidecar.errors import BadConfig
from sidecar.index.fuse import Method
from sidecar.index.patience import Patience
from sidecar.index.vector_worker import FACTORY
from sidecar.index.wire import Backend, EmbedderOptions, Server

CLOUD_KEY: Final = "CHROMA_API_KEY"
"""The environment variable that Chroma's own programs take the key from, too."""


@dataclass(frozen=True, slots=True)
class VectorOptions:
    """For one corpus or several. `embedder` is what `embed.choose` takes."""

    embedder: str
    models_dir: Path
    environment: Mapping[str, str] = field(repr=False)
    method: Method = "weighted"
    server: Server | None = None
    embedder_options: EmbedderOptions = field(default_factory=EmbedderOptions)
    factory: str = FACTORY
    patience: Patience = field(default_factory=Patience)

    @property
    def backend(self) -> Backend:
        """Where the vectors are kept."""
        return self.server.kind if self.server else "embedded"


def from_settings(config: Config, models_dir: Path, environment: Mapping[str, str]) -> VectorOptions | None:
    """None where search by meaning is switched off.

    Raises:
        BadConfig: settings don't fit together, or a variable that should hold a key is missing.
    """
    if not config.index.rag:
        return None
    name = config.index.embedder
    return VectorOptions(
        f"openai:{_model(config)}" if name == "openai" else name,
        models_dir,
        environment,
        config.index.fusion,
        _server(config, environment),
        _embedder_options(config, environment),
    )


def secret_variables(config: Config) -> list[str]:
    """Environment variables that may hold a secret by these settings; no other process should inherit them."""
    headers = "VAULT_SIDECAR_VECTORS_HEADERS"
    return [name for name in (CLOUD_KEY, headers, config.openai.key_env) if name]


def _server(config: Config, environment: Mapping[str, str]) -> Server | None:
    wanted = config.vectors
    if wanted.backend == "embedded":
        return None
    key = None
    if wanted.backend == "cloud":
        key = environment.get(CLOUD_KEY, "").strip()
        if not key:
            raise BadConfig(
                f'[vectors] backend is "cloud", which needs its key in the environment variable {CLOUD_KEY}'
            )
    headers = {name: value.get_secret_value() for name, value in wanted.headers.items()}
    return Server(wanted.backend, wanted.host, wanted.port, wanted.ssl, headers, wanted.tenant, wanted.database, key)


def _model(config: Config) -> str:
    asked = config.openai
    if not asked.model:
        raise BadConfig('[index] embedder is "openai", which needs [openai] model, the name of the model to ask for')
    parts = urlsplit(asked.base_url)
    here = is_here(parts.hostname or "")
    if not here and not config.index.embedder_network:
        raise BadConfig(
            "[openai] base_url is on another computer, and the text of all notes would be sent there;"
            " [index] embedder_network = true allows that"
        )
    if not here and parts.scheme != "https":
        raise BadConfig("[openai] base_url must begin with https, because it is on another computer")
    return asked.model


def _embedder_options(config: Config, environment: Mapping[str, str]) -> EmbedderOptions:
    asked = config.openai
    key = environment.get(asked.key_env, "").strip() if asked.key_env else ""
    if asked.key_env and not key and config.index.embedder == "openai":
        raise BadConfig(f"[openai] key_env names the environment variable {asked.key_env}, which holds no key")
    if not (key.isascii() and key.isprintable()):
        raise BadConfig(f"the environment variable {asked.key_env} holds something that is no key")
    return EmbedderOptions(
        asked.base_url, key or None, asked.query_prefix, asked.passage_prefix, config.index.embedder_network
    )
