"""The notes tools over a real vault, called as the protocol room calls them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.arguments import check
from sidecar.contract import Text, single
from sidecar.errors import SidecarError
from sidecar.index.corpus import Corpus
from sidecar.services.copies import Copies
from sidecar.services.core import Core
from sidecar.services.protection import Protection
from sidecar.services.reading import Reading
from sidecar.services.searching import Searching
from sidecar.services.switches import Switches
from sidecar.services.writing import Writing
from sidecar.surfaces.notes import SURFACE
from sidecar.tasks import Lane
from tests.calls import call_by
from tests.index.vaults import opened

MAX_NOTE_BYTES = 32 << 20


@dataclass(frozen=True)
class Tools:
    """Calls tools as the protocol room does: checked arguments, then the handler."""

    corpus: Corpus
    core: Core
    copies: Copies

    async def answer(self, name: str, **arguments: object) -> Text:
        offer = single(SURFACE).find(self.core, name)
        assert offer is not None
        args = check(offer.tool.args, arguments, owner=name, numbers=SURFACE.numbers)
        result = await offer.tool.run(self.core, args, call_by())
        assert isinstance(result, Text)
        return result

    async def text(self, name: str, **arguments: object) -> str:
        return (await self.answer(name, **arguments)).text

    async def refusal(self, name: str, **arguments: object) -> str:
        with pytest.raises(SidecarError) as refused:
            await self.answer(name, **arguments)
        return str(refused.value)

    async def kept(self) -> list[tuple[str, str, bytes]]:
        """Path, reason and text of what is kept, newest first."""

        def read() -> list[tuple[str, str, bytes]]:
            return [(copy.path, copy.why, self.copies.find(copy.copy_id)[1]) for copy in self.copies.all()]

        return await asyncio.to_thread(read)


@asynccontextmanager
async def open_tools(vault: Path, state: Path, *, embedder: str | None = None) -> AsyncIterator[Tools]:
    """The tools of `vault`, writing among them."""
    async with opened(vault, state, embedder=embedder) as corpus:
        settings = Lane("settings")
        switches = Switches(True, state, settings, {})
        copies, protection = Copies(state), Protection("Agents", "Agents/Memory.md")
        async with Writing(corpus, copies, protection, switches, max_note_bytes=MAX_NOTE_BYTES) as writing:
            reading = Reading(corpus, max_note_bytes=MAX_NOTE_BYTES)
            yield Tools(corpus, Core(reading, Searching(corpus), writing, switches), copies)
        await settings.close()
