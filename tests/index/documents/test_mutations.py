"""Files that were good and were damaged at random: every one is read or is a warning, and none has a parser's words."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from sidecar.index.documents.readers import DocumentReaders, Lost
from tests.index.documents import files
from tests.index.documents.test_container import NAMES, good

GOOD = {
    **{name: good(name) for name in NAMES},
    "a.pdf": files.pdf(["one\ntwo", "长城"], ["жираф"]),
    "a.csv": b"a;b\n1;2\n" * 20,
    "a.txt": "one\n\nдва\n\n三".encode(),
}
KNOWN = ("takes longer", "takes more memory", "was ended by", "ended by itself", "lost its way")


def damaged(data: bytes, by_chance: random.Random) -> bytes:
    """Some bytes changed, doubled, left out or exchanged."""
    found = bytearray(data)
    for _ in range(by_chance.choice([1, 1, 3, 20])):
        at = by_chance.randrange(len(found) + 1)
        length = by_chance.choice([1, 2, 4, 100])
        match by_chance.randrange(5):
            case 0:
                found[at : at + length] = by_chance.randbytes(length)
            case 1:
                del found[at : at + length]
            case 2:
                found[at:at] = found[at : at + length]
            case 3:
                found[at : at + 1] = by_chance.choice([b"\0", b"\xff", b"<", b"&", b"9" * 20, b"-1"])
            case _:
                other = by_chance.randrange(len(found) + 1)
                found[at : at + length], found[other : other + length] = (
                    found[other : other + length],
                    found[at : at + length],
                )
    return bytes(found)


@pytest.mark.parametrize(
    "count", [40, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])], ids=["few", "many"]
)
@pytest.mark.parametrize("name", GOOD)
async def test_damaged_files_are_read_or_left_out(tmp_path: Path, name: str, count: int) -> None:
    by_chance = random.Random(f"{name} {count}")
    outcomes = {"read": 0, "warning": 0, "lost": 0}
    async with DocumentReaders(os.environ, tmp_path) as readers:
        for _ in range(count):
            data = damaged(GOOD[name], by_chance)
            try:
                async with asyncio.timeout(100):
                    found = await readers.read(name, data)
            except Lost as lost:
                assert any(known in str(lost) for known in KNOWN)
                outcomes["lost"] += 1
                continue
            outcomes["warning" if found.warning else "read"] += 1
            assert found.warning is None or found.warning.startswith(("it ", "its ", "a part of it "))
        assert (await readers.read(name, GOOD[name])).passages
    assert outcomes["read"] > 0
    assert sum(outcomes.values()) == count
