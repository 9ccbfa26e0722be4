"""Puts the services over a vault's corpus together, and takes them apart again in reverse."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from sidecar.calling import AgentTools
from sidecar.config import ServeOptions
from sidecar.contract import Surface, composite
from sidecar.index.corpus import Corpus
from sidecar.index.documents.readers import DocumentReaders
from sidecar.index.opening import CorpusOptions, open_corpus
from sidecar.index.profile import MOST_DOCUMENT_BYTES
from sidecar.index.workers import Workers
from sidecar.services.agents.opening import open_agents
from sidecar.services.copies import Copies
from sidecar.services.core import Core
from sidecar.services.database_rules import Ground
from sidecar.services.databases import Databases, open_databases
from sidecar.services.digests import Digests
from sidecar.services.knowledge.opening import open_knowledge
from sidecar.services.knowledge.scrub import Scrubber
from sidecar.services.knowledge.service import Knowledge
from sidecar.services.library import Library
from sidecar.services.memory import Memory
from sidecar.services.proposals import open_proposals
from sidecar.services.protection import Protection
from sidecar.services.reading import Reading
from sidecar.services.searching import Searching
from sidecar.services.switches import Switches
from sidecar.services.writing import Writing
from sidecar.tasks import Lane


@asynccontextmanager
async def open_core(
    options: ServeOptions,
    corpus: Corpus,
    surfaces: Sequence[Surface],
    protection: Protection,
    workers: Workers | None,
    files: Lane,
) -> AsyncGenerator[Core]:
    """Every service that a tool of these surfaces may use. What is given here outlasts the block.

    `files` is for the settings. Agents are given the tools of the same surfaces.
    """
    config, state_dir = options.config, options.state_dir
    max_note_bytes = config.index.max_note_mib << 20
    # keys of our own form are known by it; this one may have any
    secrets = [options.injected_token.value] if options.injected_token else []
    offered = {surface.name for surface in surfaces}
    async with AsyncExitStack() as stack:
        switches = Switches(config.notes.allow_writes, state_dir, files, options.environment)
        writing = await stack.enter_async_context(
            Writing(corpus, Copies(state_dir), protection, switches, max_note_bytes=max_note_bytes)
        )
        proposals = await stack.enter_async_context(open_proposals(corpus, writing, protection, state_dir))
        library = Library(corpus, max_note_bytes=max_note_bytes)
        digests = await stack.enter_async_context(Digests(corpus, library, proposals, config.digest, state_dir))
        knowledge = await stack.enter_async_context(
            _knowledge(options, workers, Scrubber(secrets), has_notes="library" in offered)
        )
        readers = await stack.enter_async_context(DocumentReaders(options.environment, state_dir))
        databases = await stack.enter_async_context(_databases(options, workers, readers, serve="databases" in offered))
        agents = await stack.enter_async_context(
            open_agents(
                config,
                corpus.jail,
                state_dir,
                options.environment,
                is_ignored=corpus.is_ignored,
                secrets=secrets,
            )
        )
        core = Core(
            reading=Reading(corpus, max_note_bytes=max_note_bytes),
            searching=Searching(corpus),
            writing=writing,
            switches=switches,
            proposals=proposals,
            library=library,
            digests=digests,
            knowledge=knowledge,
            databases=databases,
            memory=Memory(corpus, config.agents.memory_note, max_note_bytes=max_note_bytes),
            agents=agents,
            rag=config.index.rag,
        )
        agents.toolbox = AgentTools(composite(surfaces), core)
        yield core


def _knowledge(
    options: ServeOptions, workers: Workers | None, scrubber: Scrubber, *, has_notes: bool
) -> AbstractAsyncContextManager[Knowledge]:
    index = options.config.index
    leaves = index.embedder == "openai" and index.embedder_network  # and nothing of the registry may leave
    worker = workers.current if workers is not None and not leaves else None
    return open_knowledge(options.state_dir, worker, scrubber, has_notes=has_notes, method=index.fusion)


def _databases(
    options: ServeOptions, workers: Workers | None, readers: DocumentReaders, *, serve: bool
) -> AbstractAsyncContextManager[Databases]:
    """The registered databases; none is opened where their surface is not enabled."""
    other_devices = options.config.notes.other_devices

    def open_folder(folder: Path, place: Path, whose: str) -> AbstractAsyncContextManager[Corpus]:
        wanted = CorpusOptions(MOST_DOCUMENT_BYTES, other_devices, whose)
        return open_corpus(folder, place, wanted, lambda progress: None, workers, documents=readers)

    ground = Ground(options.state_dir, options.vault, options.home)
    return open_databases(ground, open_folder, serve=serve)
