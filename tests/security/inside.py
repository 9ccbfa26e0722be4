"""A daemon in a thread of this process, so that a test can take a defence out of it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from sidecar.bridge import identity, private_files
from sidecar.config import Config, HttpConfig, IndexConfig, NotesConfig, Secret, ServeOptions
from sidecar.daemon import open_daemon
from tests.daemons import START_S, STOP_S, TOKEN_VARIABLE
from tests.security.ground import Ground


@contextmanager
def served_here(base: Path, state: Path, *, allow_writes: bool = False, own_token: bool = False) -> Iterator[Ground]:
    """Serve `base / "vault"` once all of it is indexed; afterwards this process is as it was before.

    `own_token`: one that the daemon made and keeps itself, so that it can be rotated.
    """
    token = secrets.token_urlsafe(40)
    options = ServeOptions(
        config=Config(
            http=HttpConfig(bearer_token_env=None if own_token else TOKEN_VARIABLE),
            index=IndexConfig(rag=False),
            notes=NotesConfig(allow_writes=allow_writes),
        ),
        vault=base / "vault",
        state_dir=state,
        instance=identity.new_instance(),
        port=0,
        injected_token=None if own_token else Secret(token),
    )
    listening: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def own() -> None:
        stopped = asyncio.Event()
        async with open_daemon(options, stopped, lambda _: None) as running:
            listening.set_result((running.url, asyncio.get_running_loop(), stopped))
            await stopped.wait()

    def run() -> None:
        try:
            asyncio.run(own())
        except BaseException as failed:
            if listening.done():
                raise
            listening.set_exception(failed)

    private_files.make_folder(state)
    mask, interval = os.umask(0o077), sys.getswitchinterval()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        url, loop, stopped = listening.result(START_S)
        ground = Ground(base, state, urlsplit(url).port or 0, token)
        if own_token:
            ground = dataclasses.replace(ground, token=ground.admin("token")["token"])
        try:
            ground.settled()
            yield ground
        finally:
            loop.call_soon_threadsafe(stopped.set)
    finally:
        thread.join(STOP_S)
        os.umask(mask)
        sys.setswitchinterval(interval)
    assert not thread.is_alive()
