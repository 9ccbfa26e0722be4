"""The one object that surfaces see: the services, put together by the composition root."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.services.reading import Reading
from sidecar.services.searching import Searching
from sidecar.services.switches import Switches
from sidecar.services.writing import Writing


@dataclass(frozen=True, slots=True)
class Core:
    """Every service a tool may use."""

    reading: Reading
    searching: Searching
    writing: Writing
    switches: Switches
    rag: bool = True
    """Search by meaning is switched on."""
