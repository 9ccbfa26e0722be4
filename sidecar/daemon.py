"""The composition root: what is opened, in which order, and what stops it.

Token, index, socket, endpoint file, then the ready call. Everything is closed in
reverse by one exit stack, in the task that opened it. The vault's lock is taken
before and held around it: a second daemon must be refused before it has
imported all of this.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sidecar import __version__
from sidecar.bridge import addresses, endpoint, identity, lock, ports, private_files
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.named_tokens import callers
from sidecar.bridge.places import refuse_inside
from sidecar.bridge.token import Keys, fingerprint, new_local_key
from sidecar.bridge.token_book import TokenBook
from sidecar.bridge.token_store import FileStore, InjectedToken, open_token
from sidecar.calling import AgentTools
from sidecar.config import Owner, ServeOptions
from sidecar.contract import Catalogue, Surface, composite, single
from sidecar.errors import AlreadyServed
from sidecar.index.corpus import Corpus
from sidecar.index.documents.readers import DocumentReaders
from sidecar.index.indexer import Progress
from sidecar.index.opening import CorpusOptions, open_corpus
from sidecar.index.profile import MOST_DOCUMENT_BYTES
from sidecar.index.vector_options import from_settings
from sidecar.index.workers import Workers
from sidecar.protocol.http import McpPath
from sidecar.protocol.server import build_server
from sidecar.protocol.sessions import Sessions
from sidecar.services.address import Address
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
from sidecar.services.preferences import Preferences
from sidecar.services.proposals import open_proposals
from sidecar.services.protection import Protection
from sidecar.services.reading import Reading
from sidecar.services.searching import Searching
from sidecar.services.switches import Switches
from sidecar.services.tokens import Tokens
from sidecar.services.upkeep import Upkeep
from sidecar.services.writing import Writing
from sidecar.surfaces import SURFACES
from sidecar.surfaces.databases import SURFACE as _DATABASES
from sidecar.tasks import Lane, at_signals
from sidecar.web.admin import AdminActions
from sidecar.web.admin_access import AccessActions
from sidecar.web.admin_agents import agents_actions
from sidecar.web.admin_databases import DatabaseActions
from sidecar.web.admin_digest import digest_action
from sidecar.web.admin_knowledge import KnowledgeActions
from sidecar.web.admin_notes import NotesActions
from sidecar.web.admin_proposals import proposal_actions
from sidecar.web.app import Limits, build_app
from sidecar.web.listener import Listener, bind
from sidecar.web.relays import Relays
from sidecar.web.rest import handler
from sidecar.web.visitors import Visitors

logger = logging.getLogger(__name__)

_MIB = 1 << 20

# A query runs in a thread beside the indexing one; with the default of 5 ms it would wait that long for each turn.
_SWITCH_INTERVAL_S = 0.001


Outside = Literal["token", "settings", "visitors"]


@dataclass(frozen=True, slots=True)
class Services:
    """What the owner's programs ask, for those that run in this process."""

    core: Core
    upkeep: Upkeep
    tokens: Tokens
    address: Address
    preferences: Preferences
    surfaces: tuple[str, ...]
    """Names of those that are offered."""


@dataclass(slots=True)
class Running:
    """A daemon that listens."""

    url: str
    stopped: asyncio.Event
    """Set when somebody asked for the end."""
    services: Services
    admin: AdminActions = field(init=False)
    taken_over_by: Owner | None = None
    """What the daemon was started as that asked for it."""
    on_outside: Callable[[Outside], None] = lambda _: None
    """Called on the loop when a command in a terminal has changed something, or a client came or was turned away."""


@asynccontextmanager
async def open_daemon(
    options: ServeOptions, stopped: asyncio.Event, report: Callable[[Progress], None]
) -> AsyncGenerator[Running]:
    """A daemon for one vault; it ends with the block. `stopped` is set when a client of ours asks for the end.

    The caller holds the vault's lock, as `options.owner` and `options.instance`.

    Raises:
        BadConfig: a setting or the state folder's place is wrong.
        PortTaken: the vault's port is in use.
        Unreadable: the vault or the state folder can't be used.
    """
    config, state_dir, instance = options.config, options.state_dir, options.instance
    max_note_bytes = config.index.max_note_mib * _MIB
    protection = Protection(config.agents.folder, config.agents.memory_note)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    os.umask(0o077)  # whatever a library creates in the state folder is private too
    async with AsyncExitStack() as stack:
        files = Lane("files")
        stack.push_async_callback(files.close)
        await files.run(refuse_inside, state_dir, options.vault)
        await files.run(private_files.sweep, state_dir)
        token, book = await files.run(_tokens, options)
        local_key = await files.run(new_local_key, state_dir)
        keys = Keys(token, local_key, callers(book.named))
        tokens = Tokens(book, keys, files, lambda: app.token_changed())
        stack.push_async_callback(tokens.close)
        workers = await _workers(stack, options)
        corpus = await stack.enter_async_context(
            open_corpus(options.vault, state_dir, _corpus_options(options, max_note_bytes), report, workers)
        )
        switches = Switches(config.notes.allow_writes, state_dir, files, options.environment)
        writing = await stack.enter_async_context(
            Writing(corpus, Copies(state_dir), protection, switches, max_note_bytes=max_note_bytes)
        )
        reading = Reading(corpus, max_note_bytes=max_note_bytes)
        proposals = await stack.enter_async_context(open_proposals(corpus, writing, protection, state_dir))
        library = Library(corpus, max_note_bytes=max_note_bytes)
        digests = await stack.enter_async_context(Digests(corpus, library, proposals, config.digest, state_dir))
        knowledge = await stack.enter_async_context(_knowledge(options, workers))
        surfaces = _enabled(options)
        readers = await stack.enter_async_context(DocumentReaders(options.environment, state_dir))
        databases = await stack.enter_async_context(_databases(options, surfaces, workers, readers))
        memory = Memory(corpus, config.agents.memory_note, max_note_bytes=max_note_bytes)
        agents = await stack.enter_async_context(
            open_agents(
                config,
                corpus.jail,
                state_dir,
                options.environment,
                is_ignored=corpus.is_ignored,
                secrets=[options.injected_token.value] if options.injected_token else [],
            )
        )
        core = Core(
            reading=reading,
            searching=Searching(corpus),
            writing=writing,
            switches=switches,
            proposals=proposals,
            library=library,
            digests=digests,
            knowledge=knowledge,
            databases=databases,
            memory=memory,
            agents=agents,
            rag=config.index.rag,
        )
        agents.toolbox = AgentTools(composite(surfaces), core)
        choice = ports.choose_port(config.http.port, options.port)
        sock = ports.listen(choice, bind)
        stack.callback(sock.close)
        port: int = sock.getsockname()[1]
        if choice.pin:
            await files.run(ports.pin_port, state_dir, port)
        pinned = port if choice.pin else config.http.port
        address = Address(state_dir, files, options.environment, listening=port, pinned=pinned)
        preferences = Preferences(config, state_dir, files, switches, address)
        names = tuple(surface.name for surface in surfaces)
        services = Services(core, Upkeep(corpus), tokens, address, preferences, names)
        running = Running(f"http://127.0.0.1:{port}/mcp", stopped, services)
        visitors = Visitors(on_new=lambda: running.on_outside("visitors"))
        relays = Relays(max_body_bytes=config.http.max_body_mib * _MIB)
        running.admin = _admin(options, running, visitors, relays)
        app = build_app(
            port=port,
            keys=keys,
            mounts=_mounts(core, surfaces),
            rest={route.path: handler(route, core) for surface in surfaces for route in surface.routes},
            prove=lambda nonce, port: identity.prove(local_key, nonce, port, instance),
            instance=instance,
            admin=running.admin,
            allowed_origins=config.http.allowed_origins,
            limits=Limits(max_body_bytes=config.http.max_body_mib * _MIB),
            on_refused=visitors.refused,
            on_served=visitors.served,
        )
        switches.on_changed = app.tools_changed
        await stack.enter_async_context(Listener(app, sock))
        await files.run(endpoint.write, state_dir, endpoint.of_this_process(port, instance, __version__))
        stack.push_async_callback(files.run, endpoint.remove, state_dir, instance)
        stack.push_async_callback(files.run, addresses.withdraw, state_dir)
        await files.run(addresses.publish, state_dir, port, databases=_DATABASES in surfaces)
        if options.linger_s is not None:
            stack.push_async_callback(_cancel, asyncio.create_task(_leave_alone(relays, options.linger_s, stopped)))
        yield running


async def _leave_alone(relays: Relays, linger_s: float, stopped: asyncio.Event) -> None:
    """Ask for the end once no relay needs the daemon any more."""
    await relays.gone_for(linger_s)
    logger.info("no client has been connected through a relay for %g s", linger_s)
    stopped.set()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


def _corpus_options(options: ServeOptions, max_note_bytes: int) -> CorpusOptions:
    return CorpusOptions(max_note_bytes, options.config.notes.other_devices)


async def _workers(stack: AsyncExitStack, options: ServeOptions) -> Workers | None:
    """What makes the vectors of every collection; None where search by meaning is switched off."""
    wanted = from_settings(options.config, options.models_dir, options.environment)
    if wanted is None:
        return None
    return await stack.enter_async_context(Workers(options.state_dir / "chroma", wanted))


def _knowledge(options: ServeOptions, workers: Workers | None) -> AbstractAsyncContextManager[Knowledge]:
    # the keys of our own form are known by it; this one may have any
    scrubber = Scrubber([options.injected_token.value] if options.injected_token else [])
    has_notes = any(surface.name == "library" for surface in _enabled(options))
    index = options.config.index
    leaves = index.embedder == "openai" and index.embedder_network  # and nothing of the registry may leave
    worker = workers.current if workers is not None and not leaves else None
    return open_knowledge(options.state_dir, worker, scrubber, has_notes=has_notes, method=options.config.index.fusion)


def _databases(
    options: ServeOptions, surfaces: list[Surface], workers: Workers | None, readers: DocumentReaders
) -> AbstractAsyncContextManager[Databases]:
    """The registered databases; none is opened where their surface is not enabled."""
    other_devices = options.config.notes.other_devices

    def open_folder(folder: Path, place: Path, whose: str) -> AbstractAsyncContextManager[Corpus]:
        wanted = CorpusOptions(MOST_DOCUMENT_BYTES, other_devices, whose)
        return open_corpus(folder, place, wanted, lambda progress: None, workers, documents=readers)

    ground = Ground(options.state_dir, options.vault, options.home)
    return open_databases(ground, open_folder, serve=_DATABASES in surfaces)


def _tokens(options: ServeOptions) -> tuple[str, TokenBook]:
    """The main token, and the book that holds it and the named ones."""
    variable, secret = options.config.http.bearer_token_env, options.injected_token
    injected = InjectedToken(variable, secret.value) if variable and secret else None
    file = FileStore(options.state_dir, options.vault)
    token, store = open_token(file, KeyringStore(options.state_dir), injected)
    logger.info("the token is kept in %s", store.place)
    return token, TokenBook(options.state_dir, store, fingerprint(token))


def _enabled(options: ServeOptions) -> list[Surface]:
    names = options.config.surfaces.enabled
    return [surface for surface in SURFACES if names is None or surface.name in names]


def _mounts(core: Core, surfaces: list[Surface]) -> Mapping[str, McpPath]:
    """The composite, and each enabled surface alone."""
    catalogues = [composite(surfaces), *map(single, surfaces)]
    mounts = {_path_of(catalogue): _mount(catalogue, core) for catalogue in catalogues}
    return mounts | {surface.alias: mounts[_path_of(single(surface))] for surface in surfaces if surface.alias}


def _path_of(catalogue: Catalogue) -> str:
    return f"/mcp/{catalogue.name}" if catalogue.name else "/mcp"


def _mount(catalogue: Catalogue, core: Core) -> McpPath:
    return McpPath(build_server(catalogue, core), Sessions() if catalogue.sessions == "required" else None)


def _admin(options: ServeOptions, running: Running, visitors: Visitors, relays: Relays) -> AdminActions:
    core, upkeep = running.services.core, running.services.upkeep
    tokens, address = running.services.tokens, running.services.address

    async def status() -> dict[str, Any]:
        return {
            "url": running.url,
            "port": address.listening,
            "pid": os.getpid(),
            "version": __version__,
            "vault": str(options.vault),
            "owner": options.owner,
            "relays": relays.count,
            **await upkeep.status(),
            **await core.databases.status(),
            "knowledge_problem": core.knowledge.problem,
            "allow_writes": core.switches.allow_writes,
            **visitors.facts(),
        }

    async def stop() -> dict[str, Any]:
        # the answer goes out first
        asyncio.get_running_loop().call_later(0.05, running.stopped.set)
        return {"stopping": True, "pid": os.getpid()}

    async def hand_over(newcomer: Owner) -> dict[str, Any]:
        if not lock.gives_way(options.owner, newcomer):
            raise AlreadyServed(f"this daemon, started as '{options.owner}', does not give way to '{newcomer}'")
        logger.info("handing over to a daemon started as '%s'", newcomer)
        running.taken_over_by = newcomer
        return await stop()

    async def rotate() -> dict[str, Any]:
        facts = await tokens.rotate()
        running.on_outside("token")
        return facts

    async def pin(port: int) -> dict[str, Any]:
        facts = await address.pin(port)
        running.on_outside("settings")
        return facts

    async def allow_writes(on: bool) -> dict[str, Any]:
        await core.switches.set_writes(on)
        running.on_outside("settings")
        return {"allow_writes": core.switches.allow_writes}

    async def restore(copy_id: str) -> dict[str, Any]:
        return asdict(await core.writing.restore(copy_id))

    return AdminActions(
        status=status,
        wait=upkeep.wait,
        search=upkeep.search,
        stop=stop,
        rebuild=upkeep.rebuild,
        access=AccessActions(
            token=tokens.show,
            tokens=tokens.listed,
            rotate=rotate,
            add=tokens.add,
            remove=tokens.remove,
            endpoint=address.facts,
            pin=pin,
        ),
        notes=NotesActions(allow_writes=allow_writes, restore=restore),
        proposals=proposal_actions(core.proposals),
        knowledge=_knowledge_actions(core.knowledge),
        digest=digest_action(core.digests),
        databases=DatabaseActions(core.databases.status, core.databases.add, core.databases.remove),
        agents=agents_actions(core.agents),
        hand_over=hand_over,
        relays=relays,
    )


def _knowledge_actions(knowledge: Knowledge) -> KnowledgeActions:
    return KnowledgeActions(
        listed=knowledge.listed,
        shown=knowledge.shown,
        remove=knowledge.remove,
        release=knowledge.release,
        export=knowledge.export,
    )


async def run_daemon(
    options: ServeOptions, on_listening: Callable[[str], None], report: Callable[[Progress], None]
) -> None:
    """Serve until a signal or a stop order comes. `on_listening` gets the URL once clients may connect."""
    stopped = asyncio.Event()
    at_signals(stopped.set)
    async with open_daemon(options, stopped, report) as running:
        on_listening(running.url)
        await stopped.wait()
        logger.info("stopping")
