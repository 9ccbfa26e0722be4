"""The one object that surfaces see: the services, put together by the composition root."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.services.agents.agents import Agents
from sidecar.services.databases import Databases
from sidecar.services.digests import Digests
from sidecar.services.knowledge.service import Knowledge
from sidecar.services.library import Library
from sidecar.services.memory import Memory
from sidecar.services.proposals import Proposals
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
    proposals: Proposals
    library: Library
    digests: Digests
    knowledge: Knowledge
    databases: Databases
    memory: Memory
    agents: Agents
    rag: bool = True
    """Search by meaning is switched on."""
