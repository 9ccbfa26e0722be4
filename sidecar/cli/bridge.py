"""`bridge`: the daemon as a child of the editor's plugin, JSON-RPC lines on stdin and stdout.

stdout belongs to the protocol, whatever libraries print; the log is on stderr.
Closing stdin ends everything, and so does the end of the plugin itself. Which
vault it is, and what the person has set, the plugin says over the pipe.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
from argparse import Namespace
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.bridge import handover, identity, neighbours, ports, private_files
from sidecar.bridge.pipe import Pipe, claim_stdin
from sidecar.bridge.places import check_vault
from sidecar.cli import launch, log, stdout, where
from sidecar.cli.screen import Progress, Reporter, Screen
from sidecar.cli.where import Where
from sidecar.editor import settings as tab
from sidecar.editor.problems import Refusal, of_error, problem
from sidecar.editor.session import Desk, Session, Tell
from sidecar.errors import BadConfig, PortTaken
from sidecar.tasks import at_signals

if TYPE_CHECKING:
    from sidecar.config import Config, ServeOptions
    from sidecar.editor.settings import Values
    from sidecar.editor.shapes import SettingsGiven

FEATURES = ("agents", "proposals", "databases", "knowledge")
"""What this version has besides notes."""

_END_S = 8.0
"""How long closing everything may take, such as a last write to a disk that hangs, before the process ends anyway."""
_LAST_LINES_S = 1.0

_HANDED_OVER = "A sidecar that ran in the background made way for this one."


def run(args: Namespace) -> int:
    """Talk to the plugin until it closes stdin; the exit code is 0, or that of a start that was refused."""
    pipe = Pipe(claim_stdin(), stdout.claim())
    tail = log.Tail()
    screen = Screen(sys.stderr)
    entries = log.set_up(screen, "info", tail=tail)
    code = asyncio.run(_talk(args, pipe, tail, screen, entries))
    pipe.close(_LAST_LINES_S)
    sys.stderr.flush()
    # A thread may still wait in the pipe, for a keyring or for a lock. It is nobody's any more, and what there was to
    # close is closed; the interpreter's own end would wait for some of them.
    os._exit(code)


async def _talk(args: Namespace, pipe: Pipe, tail: log.Tail, screen: Screen, entries: log.OneLine) -> int:
    opening = _Opening(args, screen, entries)
    session = Session(pipe, opening.desk, features=FEATURES, log_tail=tail.last, on_end=_end_for_sure)
    tail.listen(lambda level, line: session.tell("log", {"level": level, "line": line}))
    at_signals(session.stop)
    return await session.run()


def _end_for_sure() -> None:
    """Nobody is left who could end this process, should something hang."""
    timer = threading.Timer(_END_S, os._exit, (1,))
    timer.daemon = True
    timer.start()


@dataclass(frozen=True, slots=True)
class _Opening:
    """What the command line, the environment and the state folder have to do with a start."""

    args: Namespace
    screen: Screen
    entries: log.OneLine

    @asynccontextmanager
    async def desk(self, vault: str, given: SettingsGiven, tell: Tell) -> AsyncGenerator[Desk]:
        """Take the vault's lock and serve it while the block lasts.

        Raises:
            Refusal, SidecarError: it can't be served, or somebody else serves it.
        """
        place = await asyncio.to_thread(self._place, vault)
        await asyncio.to_thread(_settings, place, given)  # what is wrong with them must not end another daemon
        instance = identity.new_instance()
        called_off = threading.Event()
        with ExitStack() as held:
            lock = handover.hold(place.state_dir, "bridge", instance, is_called_off=called_off.is_set)
            try:
                made_way = await asyncio.to_thread(held.enter_context, lock)
            finally:
                called_off.set()  # a start that is cancelled leaves the thread to itself
            settings = await asyncio.to_thread(_settings, place, given)
            options = await asyncio.to_thread(self._options, place, settings.config, instance)
            try:
                async with _served(place, options, settings, self, tell) as desk:
                    if made_way == "auto":
                        tell("notice", {"code": "handed-over", "text": _HANDED_OVER})
                    yield desk
            except PortTaken as error:
                raise await asyncio.to_thread(_port_refusal, error, settings.config.http.port, place) from error

    def _place(self, vault: str) -> Where:
        """The vault and its state folder, which is made. Blocks.

        Raises:
            Refusal: the folder can't be served.
            Unreadable: the state folder can't be used.
        """
        try:
            if not os.path.isabs(vault):
                raise BadConfig("the vault's path must be a whole one")
            args = Namespace(vault=vault, folder=self.args.vault, state=self.args.state)
            check_vault(where.vault_of(args), home=Path.home())
            place = where.find(args)
        except BadConfig as error:
            raise Refusal(problem("vault", str(error), "Open another folder as the vault.")) from error
        private_files.make_folder(place.state_dir)
        return place

    def _options(self, place: Where, config: Config, instance: str) -> ServeOptions:
        token = launch.take_token(config)
        if token:
            self.entries.conceal(token)
        log.set_level(config.log.level)
        return launch.options(
            config, place.vault, place, instance, owner="bridge", token=token, conceal=self.entries.conceal
        )


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of a start, and those among them that came over the pipe."""

    config: Config
    given: Values
    known: Sequence[str]
    """The names of all surfaces there are."""


def _settings(place: Where, given: SettingsGiven) -> _Settings:
    """Blocks, the first time for a second: it loads half of the daemon.

    Raises:
        BadConfig, BadArguments, Unreadable: a setting is wrong, or the settings can't be read.
    """
    from sidecar.services.preferences import laid_over
    from sidecar.surfaces import SURFACES

    known = [surface.name for surface in SURFACES]
    config = where.load_config(place, known)
    values = tab.values(given, config, known)
    return _Settings(laid_over(config, values), values, known)


@asynccontextmanager
async def _served(
    place: Where, options: ServeOptions, settings: _Settings, opening: _Opening, tell: Tell
) -> AsyncGenerator[Desk]:
    """A daemon that listens, and its desk."""
    daemon = await asyncio.to_thread(importlib.import_module, "sidecar.daemon")
    from sidecar.cli.clients.texts import Texts
    from sidecar.editor.desk import Connecting, open_desk

    shown, touched = Reporter(opening.screen), asyncio.Event()

    def report(progress: Progress) -> None:
        shown(progress)
        touched.set()

    async with daemon.open_daemon(options, asyncio.Event(), report) as running:
        # only now: a port that is taken must not stand in the way of the next start
        await running.services.preferences.keep(settings.given)
        port = running.services.address.listening
        texts = Texts(place, where.named_root(opening.args), port, options.config.http.bearer_token_env)
        async with open_desk(
            running, settings.known, Connecting(texts.clients, texts.texts), tell, touched, opening.entries.conceal
        ) as desk:
            yield desk


def _port_refusal(error: PortTaken, port: int | None, place: Where) -> Refusal:
    """Who has the port, as far as it can be known, and which one is free. Blocks."""
    if not port:
        return Refusal(of_error(error))
    from sidecar.web.listener import bind

    name = neighbours.vault_on(port, place.state_dir.parent)
    user = f'the vault "{name}"' if name else "another program"
    return Refusal(
        problem("port", f"port {port} is used by {user}", "Choose another port.", port=ports.free_from(port + 1, bind))
    )
