"""A registry over a real file, and an embedder in this process that a test can stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sidecar.bridge.token import Caller
from sidecar.errors import SidecarError, VectorsAway
from sidecar.index.careful import Careful
from sidecar.index.embed.hashing import Hashing
from sidecar.index.wire import Float16, Float32
from sidecar.services.knowledge.opening import open_knowledge
from sidecar.services.knowledge.scrub import Scrubber
from sidecar.services.knowledge.service import Knowledge
from sidecar.services.knowledge.skill_md import Visibility
from sidecar.services.knowledge.unit_schema import TYPES
from tests.services.knowledge.examples import LOCAL

PATIENCE_S = 60.0


class Twin:
    """See `meaning.Embedding`; ready from the start. Words of `synonyms` get the same vector."""

    def __init__(self, synonyms: dict[str, str] | None = None, *, state: str = "ready", embedder_id: str = "") -> None:
        self._hashing = Hashing()
        self._synonyms = synonyms or {}
        self.careful = Careful()
        self.embedder_id: str | None = embedder_id or Hashing.id
        self.state = state
        self.embedded: list[str] = []
        self.gate = asyncio.Event()
        """While it is not set, embedding takes its time."""
        self.gate.set()
        self.waiting = 0
        """Calls that are under way."""

    def release(self) -> None:
        """It needs no start."""

    def _said(self, text: str) -> str:
        for word, same in self._synonyms.items():
            text = text.replace(word, same)
        return text

    async def _turn(self) -> None:
        if self.state != "ready":
            raise VectorsAway("The twin is away.")
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1

    async def until_waiting(self, calls: int) -> None:
        """Return when so many calls are under way."""
        async with asyncio.timeout(PATIENCE_S):
            while self.waiting < calls:
                await asyncio.sleep(0.005)

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> Float16:
        await self._turn()
        self.embedded += texts
        return self._hashing.passages([self._said(text) for text in texts]).astype(np.float16)

    async def embed_query(self, text: str) -> Float32:
        await self._turn()
        return self._hashing.query(self._said(text))


class Registry:
    """Short ways to call a registry."""

    def __init__(self, knowledge: Knowledge, twin: Twin | None) -> None:
        self.knowledge = knowledge
        self.twin = twin

    async def skill(self, text: str, visibility: Visibility | None = None, caller: Caller = LOCAL) -> str:
        return await self.knowledge.contribute_skill(text, visibility, caller)

    async def unit(
        self, unit: dict[str, Any], visibility: Visibility = "network", caller: Caller = LOCAL
    ) -> tuple[str, float]:
        return await self.knowledge.contribute_unit(unit, visibility, caller)

    async def refusal(self, work: Any) -> str:
        with pytest.raises(SidecarError) as refused:
            await work
        return str(refused.value)

    async def skills(self, query: str, caller: Caller = LOCAL, **given: Any) -> list[str]:
        """Ids, best first, with the tool's defaults."""
        wanted = {"domain": None, "tags": (), "min_quality": 0.7, "limit": 5} | given
        return [one.item.id for one in await self.knowledge.search_skills(query, **wanted, caller=caller)]

    async def units(self, query: str, caller: Caller = LOCAL, **given: Any) -> list[str]:
        """Ids, best first, with the tool's defaults."""
        wanted = {"kinds": TYPES, "domain": None, "min_quality": 0.75, "limit": 5, "schema_version": None} | given
        return [one.item.id for one in await self.knowledge.search_units(query, **wanted, caller=caller)]

    async def judge(self, unit_id: str, valid: bool, caller: Caller, feedback: str | None = None) -> None:
        await self.knowledge.judge(unit_id, valid, feedback, caller)

    async def score(self, item_id: str) -> float:
        return (await self.knowledge.shown(item_id))["quality"]

    async def with_vectors(self, count: int) -> None:
        """Wait until so many items can be compared."""
        async with asyncio.timeout(PATIENCE_S):
            while self.knowledge._items.with_vector < count:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def opened(state: Path, twin: Twin | None = None, *, has_notes: bool = True) -> AsyncGenerator[Registry]:
    """The registry in a state folder."""
    state.mkdir(mode=0o700, exist_ok=True)
    async with open_knowledge(
        state, twin, Scrubber(["injected-token-of-the-daemon-0123456789"]), has_notes=has_notes
    ) as k:
        yield Registry(k, twin)
