"""What one run of the daemon needs to know: its settings, its folders and its place among others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sidecar.config.tables import Config

Owner = Literal["serve", "bridge", "auto", "command"]
"""Who has a vault's lock: a daemon of a person or service, of the editor plugin, of a relay that needed one; or a
command that changes something while no daemon runs, and will be done in a moment."""


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
    home: Path = Path()
    """The person's home folder, which can't be a database."""
    injected_token: Secret | None = None
    """The value of the variable named by `[http] bearer_token_env`, already checked; None: use the token store."""
