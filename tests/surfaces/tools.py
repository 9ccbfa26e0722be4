"""The tools over a real vault, called as the protocol room calls them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sidecar.arguments import Shape, check, schema_of
from sidecar.config import Config, DigestConfig, NotesConfig, ServeOptions
from sidecar.contract import Text, composite
from sidecar.daemon.assembly import open_core
from sidecar.errors import SidecarError
from sidecar.index import corpus as corpus_module
from sidecar.index.corpus import Corpus
from sidecar.services.copies import Copies
from sidecar.services.core import Core
from sidecar.services.protection import Protection
from sidecar.surfaces import SURFACES
from sidecar.tasks import Lane
from tests.calls import call_by
from tests.index.rigs import PATIENCE_S
from tests.index.vaults import opened

CATALOGUE = composite(SURFACES)


@dataclass(frozen=True)
class Tools:
    """Calls tools as the protocol room does: checked arguments, then the handler."""

    corpus: Corpus
    core: Core
    copies: Copies

    async def result(self, name: str, /, **arguments: object) -> Text | Shape:
        offer = CATALOGUE.find(self.core, name)
        assert offer is not None
        args = check(offer.tool.args, arguments, owner=name, numbers=offer.surface.numbers)
        return await offer.tool.run(self.core, args, call_by())

    async def answer(self, name: str, /, **arguments: object) -> Text:
        result = await self.result(name, **arguments)
        assert isinstance(result, Text)
        return result

    async def facts(self, name: str, /, **arguments: object) -> dict[str, Any]:
        """A structured result, as valid as its advertised schema and another program's idea of schemas say."""
        offer = CATALOGUE.find(self.core, name)
        result = await self.result(name, **arguments)
        assert offer is not None and offer.tool.result is not None and isinstance(result, offer.tool.result)
        facts = result.model_dump(mode="json")
        Draft202012Validator(schema_of(offer.tool.result)).validate(facts)
        json.dumps(facts, allow_nan=False).encode()
        return facts

    async def text(self, name: str, /, **arguments: object) -> str:
        return (await self.answer(name, **arguments)).text

    async def refusal(self, name: str, /, **arguments: object) -> str:
        with pytest.raises(SidecarError) as refused:
            await self.result(name, **arguments)
        return str(refused.value)

    async def kept(self) -> list[tuple[str, str, bytes]]:
        """Path, reason and text of what is kept, newest first."""

        def read() -> list[tuple[str, str, bytes]]:
            return [(copy.path, copy.why, self.copies.find(copy.copy_id)[1]) for copy in self.copies.all()]

        return await asyncio.to_thread(read)


@asynccontextmanager
async def open_tools(
    vault: Path,
    state: Path,
    *,
    embedder: str | None = None,
    digest: DigestConfig | None = None,
    config: Config | None = None,
) -> AsyncIterator[Tools]:
    """The tools of `vault`, writing among them, put together as the daemon does."""
    given = config or Config()
    notes = NotesConfig(allow_writes=True)
    wanted = given.model_copy(update={"notes": notes, "digest": digest or given.digest})
    options = ServeOptions(wanted, vault, state, "test")
    protection = Protection(wanted.agents.folder, wanted.agents.memory_note)
    with pytest.MonkeyPatch.context() as patch:
        # who waits no longer is answered without what was written a moment ago, and an index may be held up
        patch.setattr(corpus_module, "_OWN_WRITES_S", PATIENCE_S)
        async with opened(vault, state, embedder=embedder) as corpus:
            settings = Lane("settings")
            try:
                async with open_core(options, corpus, SURFACES, protection, None, settings) as core:
                    yield Tools(corpus, core, Copies(state))
            finally:
                await settings.close()
