"""`serve`: the daemon in the foreground.

stdout gets exactly one line, the URL, once clients may connect. Everything
else, also what a library prints by itself, goes to stderr.
"""

from __future__ import annotations

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from sidecar.bridge.places import check_vault
from sidecar.bridge.token import check_injected
from sidecar.cli import log, where
from sidecar.cli.screen import Reporter, Screen


def run(args: Namespace) -> int:
    """Serve until a signal or `stop` ends it; then the exit code is 0."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)  # until the daemon listens for them itself
    # before its state folder is looked at: that of a home folder lies in it, and saying so would be no help
    vault = check_vault(where.vault_of(args), home=Path.home())
    place = where.find(args)
    config = where.load_config(place)
    variable = config.http.bearer_token_env
    # taken out of the environment, so that no child process inherits it
    token = check_injected(variable, os.environ.pop(variable, None)) if variable else None
    print_url = _claim_stdout()

    # what a mistake above need not wait for: these take a second to import
    import asyncio

    from sidecar.config import Secret, ServeOptions
    from sidecar.daemon import run_daemon
    from sidecar.surfaces import SURFACES

    config = where.load_config(place, [surface.name for surface in SURFACES])
    screen = Screen(sys.stderr)
    log.set_up(screen, config.log.level, [token] if token else [])
    injected = Secret(token) if token else None
    options = ServeOptions(
        config,
        vault,
        place.state_dir,
        port=args.port,
        models_dir=where.models_dir(place),
        environment=dict(os.environ),
        injected_token=injected,
    )

    def announce(url: str) -> None:
        screen.clear()  # stdout may be the same terminal
        print_url(url)

    try:
        asyncio.run(run_daemon(options, announce, Reporter(screen)))
    finally:
        screen.clear()
    return 0


def _claim_stdout() -> Callable[[str], None]:
    """Keep stdout for the URL, and send what anybody else prints there to stderr. Returns what prints the URL."""
    own = open(os.dup(1), "w", encoding="utf-8")  # noqa: SIM115 - open until the process ends, as readers expect
    os.dup2(2, 1)

    def print_url(url: str) -> None:
        print(url, file=own, flush=True)

    return print_url


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
