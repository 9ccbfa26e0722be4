"""Which port to listen on, and what is said when it is taken.

Knows no socket: it says which ports may be tried in which order, and the
caller's own attempt to listen is the only test of whether one is free. Asking
first and listening later would leave a gap for somebody else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sidecar.bridge import settings
from sidecar.errors import BadArguments, Overridden, PortTaken

FIRST_PORT = 24783
VARIABLE = "VAULT_SIDECAR_HTTP_PORT"
"""The environment variable that wins over what is pinned."""

_LOOK_FURTHER = 100  # a new vault's port is at most so many above the first one
_RANDOM_PORTS = range(10_000, 65_536)
_RANDOM_TRIES = 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PortChoice:
    """The ports to try, in order; `pin` says that the one that works is this vault's from now on."""

    candidates: tuple[int, ...]
    pin: bool
    refusal: str
    """What to say when all of them are taken."""


def choose_port(configured: int | None, for_this_run: int | None = None) -> PortChoice:
    """The ports to try, given `[http] port` and the one asked for on the command line.

    0 is a random port. Without any wish the vault is new: it gets the first
    free port of ours and keeps it. A port that was named is never swapped for
    another, because clients know it.
    """
    wished = configured if for_this_run is None else for_this_run
    if wished is None:
        ports = tuple(range(FIRST_PORT, FIRST_PORT + _LOOK_FURTHER))
        return PortChoice(ports, True, f"no port from {ports[0]} to {ports[-1]} is free; set [http] port")
    if wished == 0:
        ports = tuple(random.sample(_RANDOM_PORTS, _RANDOM_TRIES))
        return PortChoice(ports, False, f"no free port was found in {_RANDOM_TRIES} tries; try again")
    return PortChoice(
        (wished,),
        False,
        f"port {wished} is in use by another program, and clients of this vault know it by that port;"
        " stop that program, or serve on another port with --port N",
    )


def listen(choice: PortChoice, attempt: Callable[[int], T]) -> T:
    """The first success of `attempt(port)`, which raises PortTaken for a port in use.

    Raises:
        PortTaken: none was free.
    """
    for port in choice.candidates:
        try:
            return attempt(port)
        except PortTaken:
            continue
    raise PortTaken(choice.refusal)


def free_from(first: int, attempt: Callable[[int], Any]) -> int | None:
    """The next port on which `attempt(port)` succeeds, which gives something to close; None if there is none near.

    It may be taken a moment later: a suggestion, no promise.
    """
    for port in range(first, min(first + _LOOK_FURTHER, 65_536)):
        try:
            attempt(port).close()
        except PortTaken:
            continue
        return port
    return None


def pin_port(state_dir: Path, port: int) -> None:
    """Keep `port` as this vault's own. Blocks.

    Raises:
        BadConfig, Unreadable: the settings file can't be read or written.
    """
    settings.set_setting(state_dir, "http", "port", port)


def change_pin(state_dir: Path, port: int, environment: Mapping[str, str]) -> None:
    """As `pin_port`, on somebody's wish; 0 is a random port at each start. Blocks.

    Raises:
        BadArguments: no port of a user's program.
        Overridden: an environment variable decides.
        BadConfig, Unreadable: the settings file can't be read or written.
    """
    if port != 0 and not 1024 <= port <= 65535:
        raise BadArguments("port: must be 0, for a random one at each start, or a port from 1024 to 65535")
    if VARIABLE in environment:
        raise Overridden(f"The port comes from the environment variable {VARIABLE}; change it there and restart.")
    pin_port(state_dir, port)


def facts(listening: int | None, pinned: int | None) -> dict[str, Any]:
    """What there is to say of a vault's port, as JSON: now, and at the next start (0: random, None: not chosen yet)."""
    url = f"http://127.0.0.1:{listening}" if listening is not None else None
    return {"url": url, "port": listening, "pinned": pinned}
