"""The one object that surfaces see: the services, put together by the composition root."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.services.reading import Reading
from sidecar.services.searching import Searching


@dataclass(frozen=True, slots=True)
class Core:
    """Every service a tool may use."""

    reading: Reading
    searching: Searching
    rag: bool = True
    """Search by meaning is switched on."""
