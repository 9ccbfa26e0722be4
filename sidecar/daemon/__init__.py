"""The composition root: what is opened, in which order, and what stops it.

Token, index, socket, endpoint file, then the ready call. Everything is closed in
reverse by one exit stack, in the task that opened it. The vault's lock is taken
before and held around it: a second daemon must be refused before it has
imported all of this.

`assembly` puts the services together, `admin` what the owner's programs may ask
of them, `running` is what those in this process get to see.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from sidecar import __version__
from sidecar.bridge import addresses, endpoint, identity, ports
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.named_tokens import callers
from sidecar.bridge.places import refuse_inside
from sidecar.bridge.token import Keys, fingerprint, new_local_key
from sidecar.bridge.token_book import TokenBook
from sidecar.bridge.token_store import FileStore, InjectedToken, open_token
from sidecar.config import ServeOptions
from sidecar.contract import Catalogue, Surface, composite, single
from sidecar.daemon.admin import admin_actions
from sidecar.daemon.assembly import open_core
from sidecar.daemon.running import Running, Services
from sidecar.index.opening import CorpusOptions, open_corpus
from sidecar.index.progress import Progress
from sidecar.index.vector_options import from_settings
from sidecar.index.workers import Workers
from sidecar.protocol.http import McpPath
from sidecar.protocol.server import build_server
from sidecar.protocol.sessions import Sessions
from sidecar.services.address import Address
from sidecar.services.core import Core
from sidecar.services.preferences import Preferences
from sidecar.services.protection import Protection
from sidecar.services.tokens import Tokens
from sidecar.services.upkeep import Upkeep
from sidecar.surfaces import SURFACES
from sidecar.tasks import Lane, Unbroken, at_signals
from sidecar.web.app import Limits, build_app
from sidecar.web.listener import Listener, bind
from sidecar.web.relays import Relays
from sidecar.web.rest import handler
from sidecar.web.visitors import Visitors

logger = logging.getLogger(__name__)

_MIB = 1 << 20

# A query runs in a thread beside the indexing one; with the default of 5 ms it would wait that long for each turn.
_SWITCH_INTERVAL_S = 0.001


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
    protection = Protection(config.agents.folder, config.agents.memory_note)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    os.umask(0o077)  # whatever a library creates in the state folder is private too
    async with AsyncExitStack() as stack:
        files = Lane("files")
        stack.push_async_callback(files.close)
        await files.run(refuse_inside, state_dir, options.vault)
        await files.run(addresses.sweep, state_dir)
        token, book = await files.run(_tokens, options)
        local_key = await files.run(new_local_key, state_dir)
        keys = Keys(token, local_key, callers(book.named))
        tokens = Tokens(book, keys, files, lambda: app.token_changed())
        stack.push_async_callback(tokens.close)
        workers = await _workers(stack, options)
        corpus = await stack.enter_async_context(
            open_corpus(
                options.vault,
                state_dir,
                CorpusOptions(config.index.max_note_mib * _MIB, config.notes.other_devices),
                report,
                workers,
            )
        )
        surfaces = _enabled(options)
        core = await stack.enter_async_context(open_core(options, corpus, surfaces, protection, workers, files))
        unbroken = Unbroken()
        stack.push_async_callback(unbroken.close)
        choice = ports.choose_port(config.http.port, options.port)
        sock = ports.listen(choice, bind)
        stack.callback(sock.close)
        port: int = sock.getsockname()[1]
        if choice.pin:
            await files.run(ports.pin_port, state_dir, port)
        pinned = port if choice.pin else config.http.port
        address = Address(state_dir, files, options.environment, listening=port, pinned=pinned)
        preferences = Preferences(config, state_dir, files, core.switches, address)
        names = tuple(surface.name for surface in surfaces)
        services = Services(core, Upkeep(corpus), tokens, address, preferences, names)
        running = Running(f"http://127.0.0.1:{port}/mcp", stopped, services)
        visitors = Visitors(on_new=lambda: running.on_outside("visitors"))
        relays = Relays(max_body_bytes=config.http.max_body_mib * _MIB)
        running.admin = admin_actions(options, running, visitors, relays, unbroken)
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
        core.switches.on_changed = app.tools_changed
        await stack.enter_async_context(Listener(app, sock))
        # what is withdrawn at the end may be written in part when a start is called off: the lane finishes it anyway
        stack.push_async_callback(files.run, endpoint.remove, state_dir, instance)
        await files.run(endpoint.write, state_dir, endpoint.of_this_process(port, instance, __version__))
        stack.push_async_callback(files.run, addresses.withdraw, state_dir)
        await files.run(addresses.publish, state_dir, port, databases="databases" in names)
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


async def _workers(stack: AsyncExitStack, options: ServeOptions) -> Workers | None:
    """What makes the vectors of every collection; None where search by meaning is switched off."""
    wanted = from_settings(options.config, options.models_dir, options.environment)
    if wanted is None:
        return None
    return await stack.enter_async_context(Workers(options.state_dir / "chroma", wanted))


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
