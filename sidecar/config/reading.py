"""Lays the sources of settings over each other.

Pure: nothing here opens a file or looks at the process environment. A source
is a name for people and a mapping `{section: {key: value}}`; the caller reads
`config.toml`, `settings.json` and the environment and hands them in, weakest
first. Whatever is unknown or of the wrong type stops the start by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_origin

from pydantic import ValidationError

from sidecar.config import mistakes
from sidecar.config.kinds import has_named_tables, plain_types, section_model
from sidecar.config.source import ENVIRONMENT_PREFIX, Source
from sidecar.config.tables import Config
from sidecar.errors import BadConfig


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
            mistakes.check_surfaces(source, checked, surfaces)
        for section, values in checked.model_dump(exclude_unset=True).items():
            merged.setdefault(section, {}).update(values)
    config = Config.model_validate(merged)
    named = config.agents.provider
    if named is not None and named not in config.providers:
        raise BadConfig(f"[agents] provider names {named!r}, and there is no table [providers.{named}]")
    return config


def from_environment(environ: Mapping[str, str], *, tokens: Collection[str] = ()) -> Source:
    """The settings among environment variables `VAULT_SIDECAR_<SECTION>_<KEY>`; lists are comma-separated, and so are
    headers, each as `Name: value`.

    A variable with our prefix that begins with a section name must be known.
    One that doesn't isn't ours to judge (`VAULT_SIDECAR_VAULT`, `VAULT_SIDECAR_STATE`),
    unless it is almost a setting. A variable that holds the token is named by
    its owner: here, or in a file that is weaker (`tokens`).

    Raises:
        BadConfig: almost a setting, or one that has no variable. What else is wrong is found by `load`.
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
            mistakes.refuse_near_miss(variable, name)
            continue
        if has_named_tables(section):
            raise BadConfig(f"the environment: {variable} is no setting; tables [{section}.NAME] stand in config.toml")
        keys[section, key] = variable
        values.setdefault(section, {})[key] = _from_text(section, key, text)
    return Source("the environment", values, keys)


def _from_text(section: str, key: str, text: str) -> Any:
    """A variable's text as the type of its setting; what doesn't fit stays text, for the model to refuse."""
    known = section_model(section).model_fields.get(key)
    if known is None:
        return text
    kinds = {get_origin(kind) or kind for kind in plain_types(known.annotation)}
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


def _check(source: Source) -> Config:
    try:
        return Config.model_validate(dict(source.values))
    except ValidationError as bad:
        # the text of pydantic's error is not used: it may quote a value, and a value may be a secret
        first = bad.errors(include_url=False, include_input=False)[0]
        raise BadConfig(mistakes.sentence(source, first)) from None
