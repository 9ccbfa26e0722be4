"""A daemon that listens, as the programs of its own process see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sidecar.config import Owner
from sidecar.services.address import Address
from sidecar.services.core import Core
from sidecar.services.preferences import Preferences
from sidecar.services.tokens import Tokens
from sidecar.services.upkeep import Upkeep
from sidecar.web.admin import AdminActions

Outside = Literal["token", "settings", "visitors"]


@dataclass(frozen=True, slots=True)
class Services:
    """What the owner's programs ask, for those that run in this process."""

    core: Core
    upkeep: Upkeep
    tokens: Tokens
    address: Address
    preferences: Preferences
    surfaces: tuple[str, ...]
    """Names of those that are offered."""


@dataclass(slots=True)
class Running:
    """A daemon that listens."""

    url: str
    stopped: asyncio.Event
    """Set when somebody asked for the end."""
    services: Services
    admin: AdminActions = field(init=False)
    taken_over_by: Owner | None = None
    """What the daemon was started as that asked for it."""
    on_outside: Callable[[Outside], None] = lambda _: None
    """Called on the loop when a command in a terminal has changed something, or a client came or was turned away."""
