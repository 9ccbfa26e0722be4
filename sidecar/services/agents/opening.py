"""Puts the agents of a vault together, for the daemon, and for a command while none runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from sidecar.bridge.provider_keys import ProviderKeys
from sidecar.config import Config
from sidecar.services.agents.agents import Agents
from sidecar.services.agents.gates import Gates
from sidecar.services.agents.listing import Listing
from sidecar.services.agents.provider import Providers
from sidecar.services.agents.records import Records
from sidecar.services.agents.roster import Roster
from sidecar.vault.jail import Jail
from sidecar.vault.paths import VaultPath

IsIgnored = Callable[[VaultPath], bool]


def open_agents(
    config: Config,
    jail: Jail,
    state_dir: Path,
    environment: Mapping[str, str],
    *,
    is_ignored: IsIgnored,
    secrets: Collection[str],
) -> Agents:
    """The agents of the vault behind `jail`. `secrets` are keys of this program that don't have their usual form."""
    providers = Providers(config.agents, config.providers, environment, ProviderKeys())
    listing = _listing(config, jail, state_dir, providers, is_ignored)
    return Agents(listing, providers, Records(state_dir), max_turns=config.agents.max_turns, secrets=secrets)


def open_listing(config: Config, jail: Jail, state_dir: Path, is_ignored: IsIgnored) -> Listing:
    """The agents alone: nobody can run one."""
    return _listing(config, jail, state_dir, Providers(config.agents, config.providers, {}, ProviderKeys()), is_ignored)


def _listing(config: Config, jail: Jail, state_dir: Path, providers: Providers, is_ignored: IsIgnored) -> Listing:
    roster = Roster(jail, config.agents.folder, config.agents.memory_note, is_ignored)
    return Listing(roster, Gates(state_dir), providers)
