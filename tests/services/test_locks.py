"""One holder a note at a time, in any spelling, and no two that wait for each other."""

from __future__ import annotations

import asyncio

from sidecar.services.locks import NoteLocks
from sidecar.vault.paths import VaultPath

A, B, OTHER_A = VaultPath("F/a.md"), VaultPath("F/b.md"), VaultPath("f/A.md")


async def test_a_second_holder_waits_also_under_another_spelling() -> None:
    locks, order = NoteLocks(), list[str]()

    async def hold(path: VaultPath, name: str) -> None:
        async with locks.hold(path):
            order.append(f"{name} in")
            await asyncio.sleep(0.01)
            order.append(f"{name} out")

    await asyncio.gather(hold(A, "first"), hold(OTHER_A, "second"))
    assert order == ["first in", "first out", "second in", "second out"]


async def test_holders_of_several_never_wait_for_each_other() -> None:
    locks, done = NoteLocks(), 0

    async def hold(*paths: VaultPath) -> None:
        nonlocal done
        async with locks.hold(*paths):
            await asyncio.sleep(0)
            done += 1

    async with asyncio.timeout(30):
        await asyncio.gather(*(hold(*pair) for pair in [(A, B), (B, A), (A, OTHER_A), (B,)] * 50))
    assert done == 200
    assert locks._locks == {}  # nothing is remembered of notes that nobody holds


async def test_a_waiter_that_gives_up_leaves_nothing_behind() -> None:
    locks = NoteLocks()
    async with locks.hold(A):
        waiting = asyncio.create_task(locks.hold(A).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    assert locks._locks == {}
