"""Changes to the tokens of a running daemon: one at a time, and finished once begun."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.bridge.token import Keys, fingerprint, new_token
from sidecar.bridge.token_book import TokenBook
from sidecar.bridge.token_store import FileStore
from sidecar.errors import Busy, NotFound, Unreadable
from sidecar.services.tokens import Tokens
from sidecar.tasks import Lane


class HeldStore(FileStore):
    """Takes a new token only when the test lets it."""

    def __init__(self, state_dir: Path, vault: Path) -> None:
        super().__init__(state_dir, vault)
        self.asked = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.fails = False

    def store(self, token: str) -> None:
        self.asked.set()
        assert self.go_on.wait(30)
        if self.fails:
            raise Unreadable("the system's keyring can't be used: it is locked")
        super().store(token)


class Desk:
    """The service and all around it."""

    def __init__(self, state: Path) -> None:
        self.lane = Lane("files")
        self.store = HeldStore(state, state.parent / "vault")
        self.old = new_token()
        self.store.store(self.old)
        self.store.asked.clear()
        self.keys = Keys(self.old, b"vsl_local")
        self.changes: list[bool] = []
        book = TokenBook(state, self.store, fingerprint(self.old))
        self.tokens = Tokens(book, self.keys, self.lane, lambda: self.changes.append(self.valid(self.old)))

    def valid(self, token: str) -> bool:
        return self.keys.check(token.encode()) is not None

    async def begun(self) -> asyncio.Task[dict[str, Any]]:
        """A rotation that waits in the store."""
        self.store.go_on.clear()
        task = asyncio.create_task(self.tokens.rotate())
        assert await asyncio.to_thread(self.store.asked.wait, 30)
        return task


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    state = tmp_path / "state"
    state.mkdir(0o700)
    made = await asyncio.to_thread(Desk, state)
    yield made
    made.store.go_on.set()
    await made.tokens.close()
    await made.lane.close()


async def test_streams_are_ended_once_the_old_token_is_dead(desk: Desk) -> None:
    facts = await desk.tokens.rotate()
    assert desk.changes == [False]
    assert desk.valid(facts["token"])
    assert (await desk.tokens.show()) == {"token": facts["token"], "kept_in": desk.store.place}


async def test_a_named_token_is_valid_at_once_and_dead_at_once(desk: Desk) -> None:
    bob = (await desk.tokens.add("bob", "local"))["token"]
    assert desk.valid(bob) and desk.valid(desk.old)
    assert [row["agent"] for row in (await desk.tokens.listed())["tokens"]] == ["bob"]
    await desk.tokens.remove("bob")
    assert not desk.valid(bob) and desk.valid(desk.old)
    eve = (await desk.tokens.add("eve", "local"))["token"]
    facts = await desk.tokens.rotate()
    assert facts["revoked"] == ["eve"]
    assert not desk.valid(eve)
    assert len(desk.changes) == 4
    with pytest.raises(NotFound):
        await desk.tokens.remove("eve")


async def test_r05_of_two_rotations_at_once_one_is_refused(desk: Desk) -> None:
    first = await desk.begun()
    for change in (desk.tokens.rotate, lambda: desk.tokens.add("bob", "local"), lambda: desk.tokens.remove("bob")):
        with pytest.raises(Busy):
            await change()
    assert desk.valid(desk.old), "it is valid until the store has the new one"
    desk.store.go_on.set()
    assert desk.valid((await first)["token"])
    assert not desk.valid(desk.old)
    await desk.tokens.rotate()


async def test_r05_without_the_refusal_one_would_get_a_dead_token(desk: Desk) -> None:
    """Control: the second of two goes on as if it were alone."""
    first = await desk.begun()
    desk.tokens._under_way = None
    second = asyncio.create_task(desk.tokens.rotate())
    desk.store.go_on.set()
    tokens = [(await task)["token"] for task in (first, second)]
    assert sorted(map(desk.valid, tokens)) == [False, True]


async def test_r07_a_store_that_fails_leaves_the_old_token_valid(desk: Desk) -> None:
    desk.store.fails = True
    with pytest.raises(Unreadable, match="it is locked"):
        await desk.tokens.rotate()
    assert desk.valid(desk.old)
    assert desk.changes == []
    desk.store.fails = False
    assert desk.valid((await desk.tokens.rotate())["token"]), "and it can be tried again"


async def test_a_rotation_is_finished_when_whoever_asked_has_gone(desk: Desk) -> None:
    asked = await desk.begun()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    desk.store.go_on.set()
    await desk.tokens.close()
    assert desk.changes == [False], "the streams of the old token were ended too"
    assert desk.valid(await asyncio.to_thread(desk.store.load) or "")


async def test_the_end_of_the_daemon_waits_for_a_change_that_fails_too(desk: Desk) -> None:
    asked = await desk.begun()
    desk.store.fails = True
    asked.cancel()
    desk.store.go_on.set()
    await desk.tokens.close()
    assert desk.valid(desk.old)
