"""One place that settings come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENVIRONMENT_PREFIX = "VAULT_SIDECAR_"


@dataclass(frozen=True, slots=True)
class Source:
    """Settings from one place. `keys` gives the name a person knows a setting by, where it isn't `[section] key`."""

    name: str
    values: Mapping[str, Any]
    keys: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
