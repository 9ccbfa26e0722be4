"""The settings that the editor's tab knows, and where each stands among all settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from sidecar.errors import BadArguments

if TYPE_CHECKING:
    from sidecar.config import Config
    from sidecar.editor.shapes import SettingsGiven

Values = dict[str, dict[str, Any]]
"""`{section: {key: value}}`, as in the settings files."""

_PLACES = {
    "port": ("http", "port"),
    "allowWrites": ("notes", "allow_writes"),
    "agentsFolder": ("agents", "folder"),
    "provider": ("agents", "provider"),
    "model": ("agents", "model"),
}


def values(given: SettingsGiven, config: Config, known: Sequence[str]) -> Values:
    """What was given, by its places. `config`: the settings as they hold; `known`: the names of all surfaces.

    Raises:
        BadArguments: this version doesn't have what is asked for, or something else has to be said first.
    """
    named = given.model_dump(exclude_unset=True)
    found: Values = {}
    for name in named.keys() & _PLACES.keys():
        section, key = _PLACES[name]
        found.setdefault(section, {})[key] = named[name]
    if "surfaces" in named:
        enabled = known if config.surfaces.enabled is None else config.surfaces.enabled
        found["surfaces"] = {"enabled": _surfaces(cast("dict[str, bool]", named["surfaces"]), enabled, known)}
    if "provider" in named or "baseUrl" in named:
        name = named.get("provider") or _provider(config)
        if name is not None:
            found["providers"] = {name: _table(name, config, named)}
        elif named["baseUrl"] is not None:  # without a provider none is what there is
            raise BadArguments("baseUrl: choose a provider first")
    return found


def shown(config: Config, *, port: int | None, allow_writes: bool, known: Sequence[str]) -> dict[str, Any]:
    """The protocol's `settings`. `port` is that of the next start."""
    enabled, provider = config.surfaces.enabled, _provider(config)
    return {
        "port": port,
        "allowWrites": allow_writes,
        "surfaces": {name: enabled is None or name in enabled for name in known},
        "agentsFolder": config.agents.folder,
        "provider": provider,
        "baseUrl": config.providers[provider].base_url if provider else None,
        "model": config.agents.model,
    }


def _provider(config: Config) -> str | None:
    """The provider of agents that name none."""
    only = next(iter(config.providers)) if len(config.providers) == 1 else None
    return config.agents.provider or only


def _table(name: str, config: Config, named: Mapping[str, Any]) -> dict[str, Any]:
    """A provider's whole table, since a table takes the place of a weaker one of its name."""
    table = config.providers[name].model_dump(exclude_unset=True) if name in config.providers else {"kind": name}
    return {**table, "base_url": named["baseUrl"]} if "baseUrl" in named else table


def _surfaces(given: dict[str, bool], enabled: Collection[str], known: Sequence[str]) -> list[str] | None:
    """The setting; None for all, so that one that a later version brings is offered too."""
    missing = [name for name in given if name not in known]
    if missing:
        raise BadArguments(f"surfaces: this version of the sidecar has no tools of the kind {missing[0]!r}")
    wanted = [name for name in known if given.get(name, name in enabled)]
    return None if len(wanted) == len(known) else wanted
