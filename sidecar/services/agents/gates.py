"""Which agents clients may run, kept outside the vault: no note, and nobody who writes notes, can switch one on.

A gate is for one file under one name. Where either changes, the agent is a new
one and its gate is off; a changed text leaves it on and is told.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from sidecar.bridge import private_files
from sidecar.errors import SidecarError
from sidecar.services.agents.definition import Definition, same_name

logger = logging.getLogger(__name__)

FILE_NAME: Final = "agents.json"


@dataclass(frozen=True, slots=True)
class Gate:
    """What was allowed: the file, the name and the text as they were then."""

    path: str
    name: str
    checksum: str


class Gates:
    """The gates of one vault. Blocks: call it in a lane; only the holder of the lock may change them."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / FILE_NAME
        self._vault = state_dir.name
        """The state folder is named after the vault: in the file of another vault nothing is allowed here."""

    def read(self) -> Mapping[str, Gate]:
        """The gates that are on, by path. Damaged ones are off."""
        try:
            raw = json.loads(private_files.read(self._file) or b'{"gates": []}')
            if raw.get("vault", self._vault) != self._vault:
                logger.warning("%s belongs to another vault; no agent in it may be run by clients", FILE_NAME)
                return {}
            gates = [Gate(**cast("dict[str, Any]", each)) for each in raw["gates"]]
            return {gate.path: gate for gate in gates}
        except SidecarError as bad:
            logger.warning("%s; no agent may be run by clients", bad)
            return {}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            logger.warning("%s is damaged; no agent may be run by clients", FILE_NAME)
            return {}

    def allow(self, agent: Definition) -> None:
        """Let clients run an agent as it is now.

        Raises:
            Unreadable: the disk refused.
        """
        self._write({**self.read(), agent.path: Gate(agent.path, agent.name, agent.checksum)})

    def forbid(self, name: str) -> bool:
        """Let clients run no agent of this name, in whatever case, any more; whether they could run one.

        Also those whose files are away, or have another's name beside them: they come back with their gates.

        Raises:
            Unreadable: the disk refused.
        """
        gates = self.read()
        kept = {path: gate for path, gate in gates.items() if same_name(gate.name) != same_name(name)}
        if len(kept) == len(gates):
            return False
        self._write(kept)
        return True

    def _write(self, gates: Mapping[str, Gate]) -> None:
        content = {"vault": self._vault, "gates": [asdict(gate) for gate in gates.values()]}
        private_files.write(self._file, json.dumps(content, indent=1).encode() + b"\n")


def gate_of(gates: Mapping[str, Gate], agent: Definition) -> Gate | None:
    """The gate through which clients may run this agent; None while it is off."""
    gate = gates.get(agent.path)
    return gate if gate is not None and gate.name == agent.name else None
