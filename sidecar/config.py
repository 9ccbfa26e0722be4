"""The settings the product knows, and how their sources are laid over each other.

Pure: nothing here opens a file or looks at the process environment. A source
is a name for people and a mapping `{section: {key: value}}`; the caller reads
`config.toml`, `settings.json` and the environment and hands them in, weakest
first. Whatever is unknown or of the wrong type stops the start by name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from sidecar.errors import BadConfig

ENVIRONMENT_PREFIX = "VAULT_SIDECAR_"

LogLevel = Literal["debug", "info", "warning", "error"]

Owner = Literal["serve", "bridge", "auto", "command"]
"""Who has a vault's lock: a daemon of a person or service, of the editor plugin, of a relay that needed one; or a
command that changes something while no daemon runs, and will be done in a moment."""


def _port(value: int) -> int:
    if value != 0 and not 1024 <= value <= 65535:
        raise ValueError("must be 0 (a random port at each start) or a port from 1024 to 65535")
    return value


def _variable(name: str) -> str:
    # no name is that long, but a token put here by mistake is, and later messages would show it
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,47}", name):
        raise ValueError("must be the name of an environment variable, not the token itself")
    return name


def _origin(value: str) -> str:
    """Origins are compared as whole strings, so a pattern can only be a mistake; `null` is every sandboxed page."""
    if "*" in value or value.strip().lower() == "null":
        raise ValueError('must list exact origins; "*" and "null" would let any web page in')
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", value):
        raise ValueError("must list origins such as 'app://obsidian.md', without a path or a final '/'")
    return value


_BUILT_IN = ("auto", "e5", "use", "hash", "openai")
_FROM_A_HUB = ("fastembed", "sentence-transformers")


def _embedder(name: str) -> str:
    kind, _, model = name.partition(":")
    # a model's name never leads out of the models folder
    is_model = re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", model)
    if name in _BUILT_IN or (kind in _FROM_A_HUB and is_model):
        return name
    raise ValueError(f"must be one of {', '.join([*_BUILT_IN, *(f'{hub}:MODEL' for hub in _FROM_A_HUB)])}")


def _host(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+", value):
        raise ValueError("must be the name or the address of a computer, without 'http://' and port")
    return value


def _server_port(value: int) -> int:
    if not 1 <= value <= 65535:
        raise ValueError("must be a port from 1 to 65535")
    return value


def _filled(value: str) -> str:
    if not value or not value.isprintable():
        raise ValueError("must be a name, not an empty text")
    return value


def _header_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", value):
        raise ValueError("must have names of HTTP headers as its keys")
    return value


def _header_value(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]([ -~]*[!-~])?", value.get_secret_value()):
        raise ValueError("must have values of visible ASCII characters, and of blanks between them")
    return value


def _base_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, fits = urlsplit(""), False
    if not fits or parts.username is not None or parts.query or parts.fragment or not value.isprintable():
        raise ValueError("must be a URL such as 'http://127.0.0.1:11434/v1', without a name, a password and a '?'")
    return value.rstrip("/")


_ELSEWHERE = frozenset({"vectors", "openai"})
"""Sections that name other computers: whoever misplaces `host` must not be led to them."""


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)


class HttpConfig(_Section):
    """Where clients connect, and who may."""

    port: Annotated[int, AfterValidator(_port)] | None = None
    """None: found at first start and pinned then. 0: another random one at each start."""
    bearer_token_env: Annotated[str, AfterValidator(_variable)] | None = None
    """Name of the environment variable that holds the token; None: the keyring, else a file."""
    allowed_origins: list[Annotated[str, AfterValidator(_origin)]] = ["app://obsidian.md"]
    max_body_mib: Annotated[int, Field(ge=1, le=1024)] = 16


class SurfacesConfig(_Section):
    """Which tool families are offered."""

    enabled: list[str] | None = None
    """None: all there are."""


FusionName = Literal["weighted", "rrf"]


class IndexConfig(_Section):
    """What is made searchable, and how."""

    rag: bool = True
    """Search by meaning as well. Off: no vectors are made, and `semantic_search` is not offered."""
    embedder: Annotated[str, AfterValidator(_embedder)] = "auto"
    embedder_network: bool = False
    """Let the embedder make connections to other computers."""
    fusion: FusionName = "weighted"
    max_note_mib: Annotated[int, Field(ge=1, le=1024)] = 32


class VectorsConfig(_Section):
    """Where the vectors are kept. What is None is the backend's own default."""

    backend: Literal["embedded", "http", "cloud"] = "embedded"
    host: Annotated[str, AfterValidator(_host)] | None = None
    port: Annotated[int, AfterValidator(_server_port)] | None = None
    ssl: bool | None = None
    headers: dict[
        Annotated[str, AfterValidator(_header_name)], Annotated[SecretStr, AfterValidator(_header_value)]
    ] = {}
    """Sent with each request."""
    tenant: Annotated[str, AfterValidator(_filled)] | None = None
    database: Annotated[str, AfterValidator(_filled)] | None = None


class OpenaiConfig(_Section):
    """The service that the embedder `openai` asks."""

    base_url: Annotated[str, AfterValidator(_base_url)] = "http://127.0.0.1:11434/v1"
    model: Annotated[str, AfterValidator(_filled)] | None = None
    key_env: Annotated[str, AfterValidator(_variable)] | None = None
    """Name of the environment variable that holds the key; None: the service wants none."""
    query_prefix: str = ""
    passage_prefix: str = ""


class NotesConfig(_Section):
    """How notes are read, and whether clients may write them."""

    other_devices: bool = False
    """Read notes on other devices mounted inside the vault."""
    allow_writes: bool = False
    """Offer `write_note`. Switched while the daemon runs by `vault-sidecar writes`."""


class AgentsConfig(_Section):
    """Where the vault keeps what concerns its agents; clients can't write there."""

    folder: str = "Agents"
    memory_note: str = "Agents/Memory.md"


class LogConfig(_Section):
    """What is written to stderr."""

    level: LogLevel = "info"


class Config(_Section):
    """All settings, checked. `repr` shows no secret: keys are named by their variables, headers by stars."""

    http: HttpConfig = HttpConfig()
    surfaces: SurfacesConfig = SurfacesConfig()
    index: IndexConfig = IndexConfig()
    vectors: VectorsConfig = VectorsConfig()
    openai: OpenaiConfig = OpenaiConfig()
    notes: NotesConfig = NotesConfig()
    agents: AgentsConfig = AgentsConfig()
    log: LogConfig = LogConfig()


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that must not be shown: `repr` and `str` are `***`."""

    value: str

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """All that one run of the daemon needs to know."""

    config: Config
    vault: Path
    state_dir: Path
    instance: str
    """The name of this run, under which it holds the vault's lock."""
    port: int | None = None
    """For this run only, and never stored; 0 is a random one."""
    owner: Owner = "serve"
    linger_s: float | None = None
    """How long to stay when no relay is left; None: until told to end."""
    models_dir: Path = Path()
    """Where the embedding models are kept, for all vaults."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Of this process; what a child process needs of it is passed on."""
    injected_token: Secret | None = None
    """The value of the variable named by `[http] bearer_token_env`, already checked; None: use the token store."""


@dataclass(frozen=True, slots=True)
class Source:
    """Settings from one place. `keys` gives the name a person knows a setting by, where it isn't `[section] key`."""

    name: str
    values: Mapping[str, Any]
    keys: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])


def load(sources: Iterable[Source], *, surfaces: Collection[str] | None = None) -> Config:
    """Lay `sources` over each other, the weakest first, and over the defaults.

    Each source is checked by itself before it is laid on, so that a mistake is
    reported with its place even where a stronger source would hide it.
    `surfaces` are the valid names for `[surfaces] enabled`; None leaves that key
    to a caller who knows them, since the surfaces live above this module.

    Raises:
        BadConfig: names the source and the key, and the nearest known key if there is one.
    """
    merged: dict[str, dict[str, Any]] = {}
    for source in sources:
        checked = _check(source)
        if surfaces is not None:
            _check_surfaces(source, checked, surfaces)
        for section, values in checked.model_dump(exclude_unset=True).items():
            merged.setdefault(section, {}).update(values)
    return Config.model_validate(merged)


def from_environment(environ: Mapping[str, str], *, tokens: Collection[str] = ()) -> Source:
    """The settings among environment variables `VAULT_SIDECAR_<SECTION>_<KEY>`; lists are comma-separated, and so are
    headers, each as `Name: value`.

    A variable with our prefix that begins with a section name must be known.
    One that doesn't isn't ours to judge (`VAULT_SIDECAR_VAULT`, `VAULT_SIDECAR_STATE`),
    unless it is almost a setting. A variable that holds the token is named by
    its owner: here, or in a file that is weaker (`tokens`).

    Raises:
        BadConfig: almost a setting. What else is wrong is found by `load`.
    """
    values: dict[str, dict[str, Any]] = {}
    keys: dict[tuple[str, str], str] = {}
    named = {*tokens, environ.get(f"{ENVIRONMENT_PREFIX}HTTP_BEARER_TOKEN_ENV")}
    for variable, text in sorted(environ.items()):
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        section, _, key = name.partition("_")
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in named:
            continue
        if section not in Config.model_fields:
            _refuse_near_miss(variable, name)
            continue
        keys[section, key] = variable
        values.setdefault(section, {})[key] = _from_text(section, key, text)
    return Source("the environment", values, keys)


def _refuse_near_miss(variable: str, name: str) -> None:
    """Silently passed over, a misspelled section would seem to have been obeyed."""
    spelled = {"_".join(pair): pair for section in Config.model_fields for pair in _settings(section)}
    close = difflib.get_close_matches(name, spelled, n=1, cutoff=0.8)
    meant = spelled[close[0]] if close else _nearest_setting("", name)
    if meant:
        meant_variable = f"{ENVIRONMENT_PREFIX}{'_'.join(meant)}".upper()
        raise BadConfig(f"the environment: {variable} is not a known setting; did you mean {meant_variable}?")


def _from_text(section: str, key: str, text: str) -> Any:
    """A variable's text as the type of its setting; what doesn't fit stays text, for the model to refuse."""
    known = _section_model(section).model_fields.get(key)
    if known is None:
        return text
    kinds = {get_origin(kind) or kind for kind in _plain_types(known.annotation)}
    stripped = text.strip()
    if list in kinds:
        return [part.strip() for part in text.split(",") if part.strip()]
    if dict in kinds:
        pairs = [part.partition(":") for part in text.split(",") if part.strip()]
        return {name.strip(): value.strip() for name, _, value in pairs}
    if bool in kinds and stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if int in kinds and re.fullmatch(r"[0-9]{1,9}", stripped):
        return int(stripped)
    return text


def _plain_types(annotation: Any) -> Iterable[Any]:
    """The members of a union, without what `Annotated` adds."""
    if get_origin(annotation) is Annotated:
        yield from _plain_types(get_args(annotation)[0])
    elif get_origin(annotation) not in (None, list, dict, Literal):
        for member in get_args(annotation):
            yield from _plain_types(member)
    else:
        yield annotation


def _section_model(section: str) -> type[BaseModel]:
    return cast("type[BaseModel]", Config.model_fields[section].annotation)


def _check(source: Source) -> Config:
    try:
        return Config.model_validate(dict(source.values))
    except ValidationError as bad:
        # the text of pydantic's error is not used: it may quote a value, and a value may be a secret
        first = bad.errors(include_url=False, include_input=False)[0]
        raise BadConfig(_sentence(source, first)) from None


def _sentence(source: Source, error: ErrorDetails) -> str:
    section, key = (*(str(part) for part in error["loc"]), "")[:2]
    is_table = isinstance(source.values.get(section), Mapping)
    # a key outside any table comes as a "section" that is no table
    name = source.keys.get((section, key)) or (f"[{section}] {key}".strip() if is_table else section)
    if error["type"] != "extra_forbidden":
        return f"{source.name}: {name} {_wanted(section, key, error)}"
    nearest = _nearest_section(section) if is_table and section not in Config.model_fields else None
    nearest = nearest or (_nearest_setting(section, key) if is_table else _nearest_setting("", section))
    if nearest:
        return f"{source.name}: {name} is not a known setting; did you mean {_written(source, *nearest)}?"
    known = _settings(section) or [(table, "") for table in Config.model_fields]
    return f"{source.name}: {name} is not a known setting; there are {', '.join(_written(source, *k) for k in known)}"


def _written(source: Source, section: str, key: str) -> str:
    """A setting the way this source spells it."""
    return f"{ENVIRONMENT_PREFIX}{section}_{key}".upper() if source.keys else f"[{section}] {key}".strip()


def _settings(section: str) -> list[tuple[str, str]]:
    """The keys of a section; none for an unknown one."""
    return [(section, key) for key in _section_model(section).model_fields] if section in Config.model_fields else []


def _nearest_section(section: str) -> tuple[str, str] | None:
    close = difflib.get_close_matches(section, Config.model_fields, n=1)
    return (close[0], "") if close else None


def _nearest_setting(section: str, key: str) -> tuple[str, str] | None:
    """The known setting most like an unknown one: of the same section, else one that only sits in the wrong section."""
    everywhere = [pair for name in Config.model_fields if name not in _ELSEWHERE for pair in _settings(name)]
    for known, cutoff in ((_settings(section), 0.6), (everywhere, 0.75)):
        by_key = {pair[1]: pair for pair in known}
        close = difflib.get_close_matches(key, by_key, n=1, cutoff=cutoff)
        if close:
            return by_key[close[0]]
    return None


def _wanted(section: str, key: str, error: ErrorDetails) -> str:
    """What is right, in words."""
    if error["type"] == "value_error":
        return str(error.get("ctx", {}).get("error", "is wrong"))
    if section not in Config.model_fields or not key:
        return "must be a table of settings"
    known = _section_model(section).model_fields[key]
    kinds: Sequence[Any] = list(_plain_types(known.annotation))
    if any(get_origin(kind) is list for kind in kinds):
        return "must be a list of texts"
    if any(get_origin(kind) is dict for kind in kinds):
        return "must be a table of texts"
    for kind in kinds:
        if get_origin(kind) is Literal:
            return "must be one of " + ", ".join(get_args(kind))
    if bool in kinds:
        return "must be true or false"
    if int in kinds:
        low, high = (getattr(next((m for m in known.metadata if hasattr(m, b)), None), b, None) for b in ("ge", "le"))
        return "must be a whole number" + (f" from {low} to {high}" if low is not None and high is not None else "")
    return "must be a text"


def _check_surfaces(source: Source, checked: Config, surfaces: Collection[str]) -> None:
    for name in checked.surfaces.enabled or ():
        if name not in surfaces:
            key = source.keys.get(("surfaces", "enabled")) or "[surfaces] enabled"
            raise BadConfig(f"{source.name}: {key} names {name!r}; the surfaces are {', '.join(surfaces)}")
