"""By which service and model an agent runs, and with which key: what must be known before anything is asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from sidecar.bridge.provider_keys import ProviderKeys, check_key
from sidecar.config import AgentsConfig, Config, ProviderConfig, Secret
from sidecar.config.values import is_here
from sidecar.errors import BadArguments, NotFound, SidecarError
from sidecar.services.agents.definition import Definition
from sidecar.vault.paths import echo

logger = logging.getLogger(__name__)

_BASE_URLS: Final = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}

ALIASES: Final = {"sonnet": "claude-sonnet-5-5", "opus": "claude-opus-5-5", "haiku": "claude-haiku-5-5"}
"""What agent files of Claude Code call a model; `[agents.aliases]` goes before."""


class Unusable(Exception):
    """An agent can't be run as the settings are; the text goes on from "can't run: "."""


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to ask, and for what."""

    provider: str
    kind: Literal["openai", "anthropic"]
    base_url: str
    model: str
    key: Secret | None
    use_proxy: bool = False


@dataclass(frozen=True, slots=True)
class Usual:
    """The provider of agents that name none."""

    name: str
    kind: Literal["openai", "anthropic"]
    base_url: str | None
    """As it is set; None: that of the protocol's inventor."""
    has_key: bool
    problem: str | None
    """Why it can't be used."""


def key_variables(config: Config) -> list[str]:
    """Environment variables that hold a provider's key by these settings; no other process should inherit them."""
    return [each.key_env for each in config.providers.values() if each.key_env]


class Providers:
    """The providers of the settings, with their keys."""

    def __init__(
        self,
        settings: AgentsConfig,
        tables: Mapping[str, ProviderConfig],
        environment: Mapping[str, str],
        keyring: ProviderKeys,
    ) -> None:
        """`environment` holds the variables that the tables name."""
        self._settings = settings
        self._tables = tables
        self._keyring = keyring
        self._from_environment = {
            name: Secret(value)
            for name, table in tables.items()
            if table.key_env and (value := environment.get(table.key_env, "").strip())
        }
        self._given: dict[str, Secret] = {}
        self._from_keyring: dict[str, Secret] = {}
        """What was found there last, only to be cut out of texts."""

    def give_key(self, provider: str, key: str | None) -> None:
        """Use this key of the editor's until the daemon ends, before any other; None: no longer.

        Raises:
            NotFound: there is no such provider.
            BadArguments: it is no key.
        """
        if provider not in self._tables:
            raise NotFound(f"There is no provider '{echo(provider)}'; {self._there_are()}.")
        if key is None:
            self._given.pop(provider, None)
        else:
            self._given[provider] = Secret(check_key(key))

    def secrets(self) -> list[str]:
        """The keys that are known by now; one in the keyring is from the first time on that it was looked for."""
        known = (self._given, self._from_environment, self._from_keyring)
        return [key.value for keys in known for key in keys.values()]

    def usual(self) -> Usual | None:
        """The provider of agents that name none; None if none is set. Blocks, as `target_for`."""
        name = self._settings.provider or self._only
        table = self._tables.get(name) if name is not None else None
        if name is None or table is None:
            return None
        problem: str | None = None
        key: Secret | None = None
        try:
            key = self._key(name, table)
            _refuse_missing(name, table, key)
        except Unusable as unusable:
            problem = str(unusable)
        return Usual(name, table.kind, table.base_url, key is not None, problem)

    def name_for(self, agent: Definition) -> str | None:
        """The provider that an agent asks; None if none is set."""
        return agent.provider or self._settings.provider or self._only

    def model_for(self, agent: Definition) -> str | None:
        """What the provider calls the agent's model; None if none is set."""
        model = agent.model or self._settings.model
        return (ALIASES | self._settings.aliases).get(model, model) if model is not None else None

    def target_for(self, agent: Definition) -> Target:
        """Whom to ask for an agent. Blocks, since the key may be in the keyring.

        Raises:
            Unusable: something is not set.
        """
        name, model = self.name_for(agent), self.model_for(agent)
        if name is None:
            raise Unusable("no provider is set; name one as [agents] provider")
        table = self._tables.get(name)
        if table is None:
            raise Unusable(f"there is no provider '{echo(name)}'; {self._there_are()}")
        if model is None:
            raise Unusable("no model is set; name one in its file, or as [agents] model")
        key = self._key(name, table)
        _refuse_missing(name, table, key)
        # what goes to this computer may go unencrypted, so not by way of another one
        use_proxy = self._settings.use_proxy and not _is_here(table)
        return Target(name, table.kind, _address(table), model, key, use_proxy)

    @property
    def _only(self) -> str | None:
        return next(iter(self._tables)) if len(self._tables) == 1 else None

    def _key(self, name: str, table: ProviderConfig) -> Secret | None:
        known = self._given.get(name) or self._from_environment.get(name)
        if known is not None or table.key_env:
            return known and Secret(_checked(known.value, f"the variable {table.key_env} holds"))
        try:
            found = self._keyring.find(name)
        except SidecarError as bad:
            logger.warning("%s", bad)
            return None
        if found is None:
            return None
        key = Secret(_checked(found, f"the keyring holds for the provider '{name}'"))
        self._from_keyring = {**self._from_keyring, name: key}  # the loop may be reading the one before
        return key

    def _there_are(self) -> str:
        return f"there are {', '.join(self._tables)}" if self._tables else "there are none"


def _address(table: ProviderConfig) -> str:
    return table.base_url or _BASE_URLS[table.kind]


def _is_here(table: ProviderConfig) -> bool:
    return is_here(urlsplit(_address(table)).hostname or "")


def _checked(key: str, where: str) -> str:
    try:
        return check_key(key)
    except BadArguments:
        raise Unusable(f"what {where} is no key") from None


def _refuse_missing(name: str, table: ProviderConfig, key: Secret | None) -> None:
    """A service on this computer may want no key; one elsewhere would only refuse, and Anthropic's always does."""
    if key is None and not (table.kind == "openai" and _is_here(table)):
        raise Unusable(f"there is no key for the provider '{name}'")
