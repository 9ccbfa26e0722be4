"""Opens the registry of a vault, and closes it again in reverse."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from sidecar.errors import SidecarError
from sidecar.index.fuse import Method
from sidecar.index.items import Items
from sidecar.services.knowledge.meaning import Embedding, Meaning
from sidecar.services.knowledge.scrub import Scrubber
from sidecar.services.knowledge.service import Knowledge
from sidecar.services.knowledge.store import Store
from sidecar.tasks import Lane, keep_running

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_knowledge(
    state_dir: Path,
    worker: Embedding | None,
    scrubber: Scrubber,
    *,
    has_notes: bool = False,
    method: Method = "weighted",
) -> AsyncGenerator[Knowledge]:
    """The registry kept in `state_dir`; without a worker it is searched by words alone.

    A file that can't be used is no reason not to start: the tools say what is wrong with it.
    """
    async with AsyncExitStack() as stack:
        lane, checks = Lane("knowledge"), Lane("knowledge checks")
        stack.push_async_callback(lane.close)
        stack.push_async_callback(checks.close)
        items = Items(method)
        try:
            store = await lane.run(Store, state_dir)
        except SidecarError as unusable:
            logger.warning("there is no registry of skills and knowledge: %s", unusable)
            yield Knowledge(unusable, items, None, lane, checks, scrubber, has_notes=has_notes)
            return
        stack.push_async_callback(lane.run, store.close)
        meaning = Meaning(worker, store, items, lane) if worker is not None else None
        knowledge = Knowledge(store, items, meaning, lane, checks, scrubber, has_notes=has_notes)
        running = asyncio.create_task(_run(knowledge, meaning), name="knowledge")
        await asyncio.sleep(0)  # what is stored is then the first in the lane, before anybody's search
        try:
            yield knowledge
        finally:
            running.cancel()
            await asyncio.wait((running,))


async def _run(knowledge: Knowledge, meaning: Meaning | None) -> None:
    await keep_running("loading skills and knowledge", knowledge.load)
    if meaning is not None and knowledge.problem is None:
        try:
            await keep_running("the vectors of skills and knowledge", meaning.run)
        except SidecarError as unusable:
            logger.warning("skills and knowledge get no vectors any more: %s", unusable)
