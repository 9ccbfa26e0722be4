"""Another process swaps entries of the vault for links while notes are read.

The same swapping is let loose on a deliberately weak opener, which checks the
real path and then opens by name; if that never escapes, the test proves nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.errors import NotFound, Unreadable
from sidecar.vault.jail import Found, Jail
from sidecar.vault.paths import VaultPath
from tests.vault.conftest import CANARY, EVERYTHING, Ground

INSIDE = b"inside"
PATIENCE_S = 60  # on a busy machine the two processes seldom run at the same moment

# Each program gets the vault and the folder beside it; it ends when its standard input does.
SWAPS = {
    "J45": """
os.mkdir(v + "/a"); open(v + "/a/x.md", "wb").write(b"inside"); os.symlink(o, v + "/link")
def swap():
    os.rename(v + "/a", v + "/.held"); os.rename(v + "/link", v + "/a")
    os.rename(v + "/a", v + "/link"); os.rename(v + "/.held", v + "/a")
""",
    "J46": """
os.mkdir(v + "/a"); open(v + "/a/x.md", "wb").write(b"inside"); os.symlink(o + "/x.md", v + "/link")
def swap():
    os.rename(v + "/a/x.md", v + "/.held"); os.rename(v + "/link", v + "/a/x.md")
    os.rename(v + "/a/x.md", v + "/link"); os.rename(v + "/.held", v + "/a/x.md")
""",
    "J47": """
os.makedirs(v + "/a/b/c"); open(v + "/a/x.md", "wb").write(b"inside")
open(v + "/a/b/x.md", "wb").write(b"inside"); open(v + "/a/b/c/x.md", "wb").write(b"inside")
def swap():
    os.rename(v + "/a/b", o + "/b"); os.rename(o + "/b", v + "/a/b")
""",
}
READS = {"J45": ["a/x.md"], "J46": ["a/x.md"], "J47": ["a/b/c/x.md", "a/b/c/../x.md", "a/b/../x.md"]}


@contextmanager
def swapping(row: str, ground: Ground) -> Iterator[None]:
    """The swapping of this row goes on in a process of its own."""
    program = f"""
import os, sys, threading
v, o = sys.argv[1:]
{SWAPS[row]}
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("begun", flush=True)
while not over.is_set():
    swap()
"""
    command = [sys.executable, "-I", "-c", program, str(ground.vault), str(ground.outside)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdin is not None and swapper.stdout is not None
        assert swapper.stdout.readline() == b"begun\n"
        try:
            yield
        finally:
            swapper.stdin.close()


def outcomes(read: Callable[[str], bytes], paths: list[str], *, least: int, seconds: float) -> Counter[str]:
    """How reading ended, over at least so many reads and so long, and until the swapping was met in two states."""
    seen: Counter[str] = Counter()
    begun = time.monotonic()
    while (
        seen.total() < least
        or time.monotonic() < begun + seconds
        or (len(seen) < 2 and time.monotonic() < begun + PATIENCE_S)
    ):
        for path in paths:
            try:
                data = read(path)
            except (NotFound, Unreadable):
                seen["refused"] += 1
            else:
                seen["inside" if data == INSIDE else "escaped"] += 1
    return seen


def open_weakly(vault: Path) -> Callable[[str], bytes]:
    """What many programs do: check where a path leads, then open it by name."""

    def read(path: str) -> bytes:
        try:
            resolved = (vault / path).resolve(strict=True)
            if not resolved.is_relative_to(vault):
                raise NotFound
            time.sleep(0.0002)  # where there is one processor for both, the swapping needs a moment to get in between
            return (vault / path).read_bytes()
        except OSError as failed:
            raise NotFound from failed

    return read


def race(row: str, ground: Ground, *, least: int, seconds: float) -> None:
    with swapping(row, ground):
        jail = Jail(ground.vault)
        # past the text check on purpose: the door alone has to hold
        seen = outcomes(
            lambda path: jail.read(VaultPath(path), max_bytes=100).data, READS[row], least=least, seconds=seconds
        )
        jail.close()
        assert seen["escaped"] == 0, seen
        assert seen["inside"] > 0, seen
        assert seen["refused"] > 0, "the swapping was never in the way"
        if row == "J47":
            return  # a folder that was moved is read as it is; there is no wrong content to control with
        weak = open_weakly(ground.vault)
        until = time.monotonic() + PATIENCE_S
        while not outcomes(weak, READS[row], least=50, seconds=0)["escaped"]:
            assert time.monotonic() < until, "the weak opener never escaped, so this test proves nothing"


@pytest.mark.parametrize("row", ["J45", "J46", "J47"])
def test_swapping_a_part_of_the_path_never_leads_outside(row: str, ground: Ground) -> None:
    race(row, ground, least=4000, seconds=0.5)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "row", [pytest.param("J45", id="S14-J45"), pytest.param("J46", id="S14-J46"), pytest.param("J47", id="S14-J47")]
)
def test_swapping_for_a_minute_never_leads_outside(row: str, ground: Ground) -> None:
    race(row, ground, least=100_000, seconds=60)


@pytest.mark.parametrize("row", ["J45", "J46", "J47"])
def test_a_walk_during_the_swapping_stays_inside(row: str, ground: Ground) -> None:
    (ground.outside / "only outside.md").write_bytes(CANARY)
    with swapping(row, ground):
        jail = Jail(ground.vault)
        found: set[str] = set()
        walks = 0
        until = time.monotonic() + PATIENCE_S
        while walks < 500 or (not found and time.monotonic() < until):
            walks += 1
            found |= {entry.path.text for entry in jail.walk(VaultPath.root(), EVERYTHING) if isinstance(entry, Found)}
        jail.close()
    assert found <= {"a/x.md", "a/b/x.md", "a/b/c/x.md"}
    assert found
