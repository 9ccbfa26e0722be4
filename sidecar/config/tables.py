"""The tables of the settings, one class each, and `Config`, which holds them all.

To add a setting: a line here. Its name is known to the environment, to the
command line and in messages from then on.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from sidecar.config import values

LogLevel = Literal["debug", "info", "warning", "error"]


class Section(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)


class HttpConfig(Section):
    """Where clients connect, and who may."""

    port: Annotated[int, AfterValidator(values.port)] | None = None
    """None: found at first start and pinned then. 0: another random one at each start."""
    bearer_token_env: Annotated[str, AfterValidator(values.variable)] | None = None
    """Name of the environment variable that holds the token; None: the keyring, else a file."""
    allowed_origins: list[Annotated[str, AfterValidator(values.origin)]] = ["app://obsidian.md"]
    max_body_mib: Annotated[int, Field(ge=1, le=1024)] = 16


class SurfacesConfig(Section):
    """Which tool families are offered."""

    enabled: list[str] | None = None
    """None: all there are."""


FusionName = Literal["weighted", "rrf"]


class IndexConfig(Section):
    """What is made searchable, and how."""

    rag: bool = True
    """Search by meaning as well. Off: no vectors are made, and `semantic_search` is not offered."""
    embedder: Annotated[str, AfterValidator(values.embedder)] = "auto"
    embedder_network: bool = False
    """Let the embedder make connections to other computers."""
    fusion: FusionName = "weighted"
    max_note_mib: Annotated[int, Field(ge=1, le=1024)] = 32


class VectorsConfig(Section):
    """Where the vectors are kept. What is None is the backend's own default."""

    backend: Literal["embedded", "http", "cloud"] = "embedded"
    host: Annotated[str, AfterValidator(values.host)] | None = None
    port: Annotated[int, AfterValidator(values.server_port)] | None = None
    ssl: bool | None = None
    headers: dict[
        Annotated[str, AfterValidator(values.header_name)], Annotated[SecretStr, AfterValidator(values.header_value)]
    ] = {}
    """Sent with each request."""
    tenant: Annotated[str, AfterValidator(values.filled)] | None = None
    database: Annotated[str, AfterValidator(values.filled)] | None = None


class OpenaiConfig(Section):
    """The service that the embedder `openai` asks."""

    base_url: Annotated[str, AfterValidator(values.base_url)] = "http://127.0.0.1:11434/v1"
    model: Annotated[str, AfterValidator(values.filled)] | None = None
    key_env: Annotated[str, AfterValidator(values.variable)] | None = None
    """Name of the environment variable that holds the key; None: the service wants none."""
    query_prefix: str = ""
    passage_prefix: str = ""


class NotesConfig(Section):
    """How notes are read, and whether clients may write them."""

    other_devices: bool = False
    """Read notes on other devices mounted inside the vault."""
    allow_writes: bool = False
    """Offer `write_note`. Switched while the daemon runs by `vault-sidecar writes`."""


class AgentsConfig(Section):
    """Where the vault keeps what concerns its agents, which clients can't write; and by what an agent runs."""

    folder: str = "Agents"
    memory_note: str = "Agents/Memory.md"
    provider: Annotated[str, AfterValidator(values.filled)] | None = None
    """Of agents that name none. None: the only one there is."""
    model: Annotated[str, AfterValidator(values.filled)] | None = None
    """Of agents that name none, or `inherit`."""
    max_turns: Annotated[int, Field(ge=1, le=20)] = 8
    use_proxy: bool = False
    """Ask providers through the proxy that the environment names."""
    aliases: dict[Annotated[str, AfterValidator(values.filled)], Annotated[str, AfterValidator(values.filled)]] = {}
    """What an agent's file calls a model, and what the provider calls it."""


class ProviderConfig(Section):
    """A service that runs agents' models; one table `[providers.NAME]` for each."""

    kind: Literal["openai", "anthropic"]
    """The protocol: chat completions as of OpenAI, Ollama and LM Studio, or messages as of Anthropic."""
    base_url: Annotated[str, AfterValidator(values.provider_url)] | None = None
    """None: that of the protocol's inventor."""
    key_env: Annotated[str, AfterValidator(values.variable)] | None = None
    """Name of the environment variable that holds the key; None: the keyring's entry, if there is one."""


class DigestConfig(Section):
    """What a daily digest picks, and when it is made."""

    at: Annotated[str, AfterValidator(values.clock)] | None = None
    """Local time of each day's digest; None: only when asked for."""
    folder: Annotated[str, AfterValidator(values.vault_path)] = "digests"
    anchor: Annotated[str, AfterValidator(values.vault_path)] = "now.md"
    """A note on what matters now: what is close to it in meaning comes first."""
    decay_days: Annotated[int, Field(ge=1, le=3650)] = 14
    """After so many days a note counts for 1/e."""
    top_k: Annotated[int, Field(ge=1, le=100)] = 12


class LogConfig(Section):
    """What is written to stderr."""

    level: LogLevel = "info"


class Config(Section):
    """All settings, checked. `repr` shows no secret: keys are named by their variables, headers by stars."""

    http: HttpConfig = HttpConfig()
    surfaces: SurfacesConfig = SurfacesConfig()
    index: IndexConfig = IndexConfig()
    vectors: VectorsConfig = VectorsConfig()
    openai: OpenaiConfig = OpenaiConfig()
    notes: NotesConfig = NotesConfig()
    agents: AgentsConfig = AgentsConfig()
    digest: DigestConfig = DigestConfig()
    providers: dict[Annotated[str, AfterValidator(values.provider_name)], ProviderConfig] = {}
    log: LogConfig = LogConfig()
