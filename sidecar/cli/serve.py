"""`serve`: the daemon in the foreground.

stdout gets exactly one line, the URL, once clients may connect. Everything
else, also what a library prints by itself, goes to stderr.
"""

from __future__ import annotations

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from sidecar.bridge import handover, identity, private_files
from sidecar.bridge.places import check_vault
from sidecar.cli import launch, log, stdout, where
from sidecar.cli.screen import Reporter, Screen

if TYPE_CHECKING:
    from sidecar.config import Config

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def run(args: Namespace) -> int:
    """Serve until a signal or `stop` ends it; then the exit code is 0."""
    for number in _ENDING:
        signal.signal(number, _leave)  # until the daemon listens for them itself
    # before its state folder is looked at: that of a home folder lies in it, and saying so would be no help
    vault = check_vault(where.vault_of(args), home=Path.home())
    place = where.find(args)
    with _importing():
        config = _checked(where.load_config(place), place)
    token = launch.take_token(config)
    url_line = stdout.claim()
    owner, instance = "serve" if args.auto is None else "auto", identity.new_instance()
    private_files.make_folder(place.state_dir)
    with handover.hold(place.state_dir, owner, instance):
        # below the lock, which refuses a second daemon: these take a second to import
        with _importing():
            import asyncio

            from sidecar.daemon import run_daemon

        screen = Screen(sys.stderr)
        entries = log.set_up(screen, config.log.level, [token] if token else [])
        options = launch.options(
            config,
            vault,
            place,
            instance,
            owner=owner,
            token=token,
            conceal=entries.conceal,
            port=args.port,
            linger_s=args.auto,
        )

        def announce(url: str) -> None:
            screen.clear()  # stdout may be the same terminal
            os.write(url_line, f"{url}\n".encode())

        try:
            asyncio.run(run_daemon(options, announce, Reporter(screen)))
        finally:
            screen.clear()
    return 0


def _checked(config: Config, place: where.Where) -> Config:
    """The settings, also checked for what only the surfaces know; where none is named, they need not be imported."""
    if config.surfaces.enabled is None:
        return config
    from sidecar.surfaces import SURFACES

    return where.load_config(place, [surface.name for surface in SURFACES])


@contextmanager
def _importing() -> Generator[None]:
    """A signal in the block counts at its end: what it raises is lost in a callback, and imports run many of them."""
    came: list[int] = []
    for number in _ENDING:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number in _ENDING:
            signal.signal(number, _leave)
    if came:
        raise SystemExit(0)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
