"""Sentences for what is wrong in a source of settings: they name the source, the key and what is right."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, cast, get_args, get_origin

from pydantic_core import ErrorDetails

from sidecar.config.kinds import has_named_tables, plain_types, section_model
from sidecar.config.source import ENVIRONMENT_PREFIX, Source
from sidecar.config.tables import Config
from sidecar.errors import BadConfig

_ELSEWHERE = frozenset({"vectors", "openai", "providers"})
"""Sections that name other computers: whoever misplaces `host` must not be led to them."""


def refuse_near_miss(variable: str, name: str) -> None:
    """Refuse `variable` (`name` without the prefix) if it is almost a setting.

    Silently passed over, a misspelled section would seem to have been obeyed.

    Raises:
        BadConfig: it is; names the setting that seems meant.
    """
    sections = [section for section in Config.model_fields if not has_named_tables(section)]
    spelled = {"_".join(pair): pair for section in sections for pair in _settings(section)}
    close = difflib.get_close_matches(name, spelled, n=1, cutoff=0.8)
    meant = spelled[close[0]] if close else _nearest_setting("", name)
    if meant:
        meant_variable = f"{ENVIRONMENT_PREFIX}{'_'.join(meant)}".upper()
        raise BadConfig(f"the environment: {variable} is not a known setting; did you mean {meant_variable}?")


def sentence(source: Source, error: ErrorDetails) -> str:
    """What is wrong in `source`, without the value, which may be a secret."""
    section, *rest = (str(part) for part in error["loc"])
    table, values = section, source.values.get(section)
    if has_named_tables(section) and len(rest) > 1:
        if rest[1] == "[key]":
            return f"{source.name}: [{section}] {_wanted(section, rest[0], error)}"
        table, values = f"{section}.{rest[0]}", cast("Mapping[str, Any]", values).get(rest[0])
        rest = rest[1:]
    key = rest[0] if rest else ""
    is_table = isinstance(values, Mapping)
    # a key outside any table comes as a "section" that is no table
    name = source.keys.get((section, key)) or (f"[{table}] {key}".strip() if is_table else table)
    if error["type"] != "extra_forbidden":
        return f"{source.name}: {name} {_wanted(section, key, error)}"
    nearest = _nearest_section(section) if is_table and section not in Config.model_fields else None
    nearest = nearest or (_nearest_setting(section, key) if is_table else _nearest_setting("", section))
    if nearest:
        near_table = table if nearest[0] == section else nearest[0]
        return f"{source.name}: {name} is not a known setting; did you mean {_written(source, near_table, nearest[1])}?"
    known = [(table, known) for _, known in _settings(section)] or [(known, "") for known in Config.model_fields]
    return f"{source.name}: {name} is not a known setting; there are {', '.join(_written(source, *k) for k in known)}"


def _written(source: Source, section: str, key: str) -> str:
    """A setting the way this source spells it."""
    return f"{ENVIRONMENT_PREFIX}{section}_{key}".upper() if source.keys else f"[{section}] {key}".strip()


def _settings(section: str) -> list[tuple[str, str]]:
    """The keys of a section; none for an unknown one."""
    return [(section, key) for key in section_model(section).model_fields] if section in Config.model_fields else []


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
    if error["type"] == "missing":
        return "is required"
    if section not in Config.model_fields or key not in section_model(section).model_fields:
        return "must be a table of settings"
    known = section_model(section).model_fields[key]
    kinds: Sequence[Any] = list(plain_types(known.annotation))
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


def check_surfaces(source: Source, checked: Config, surfaces: Collection[str]) -> None:
    """Refuse names in `[surfaces] enabled` that are not in `surfaces`.

    Raises:
        BadConfig: names the first wrong one.
    """
    for name in checked.surfaces.enabled or ():
        if name not in surfaces:
            key = source.keys.get(("surfaces", "enabled")) or "[surfaces] enabled"
            raise BadConfig(f"{source.name}: {key} names {name!r}; the surfaces are {', '.join(surfaces)}")
