"""The one object that surfaces see: the services, put together by the composition root."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.services.reading import Reading


@dataclass(frozen=True, slots=True)
class Core:
    """Every service a tool may use."""

    reading: Reading
