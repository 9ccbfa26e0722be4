"""S06, S07 and D13: the daemon ends in the middle of writing; what it has answered is there, and nothing is torn."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemons import STOP_S, Daemon, start_daemon
from tests.security.scribes import (
    GONE,
    WRITES,
    Load,
    Scribe,
    appending,
    eventually,
    indexed,
    line,
    lost,
    on_disk,
    temporary_files,
    torn_notes,
)

PATHS = [f"Logs/{name}.md" for name in ("a", "b", "c", "d")]
CRASHER = Path(__file__).with_name("crasher.py")
POINTS = ["temporary file opened", "half written", "synced", "has its name", "folder synced", "temporary name gone"]


def make_vault(folder: Path) -> Path:
    for number in range(200):
        path = folder / f"Notes/{number % 10}/Note {number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\n" + f"word{number} and others. " * 50)
    return folder


@contextmanager
def daemon(vault: Path, state: Path, *program: str) -> Iterator[Daemon]:
    """Killed at the end, if it is still there."""
    more = {"program": program} if program else {}
    running = start_daemon(vault, state, env=WRITES, **more)
    try:
        yield running
    finally:
        running.kill()


def is_sound(vault: Path, state: Path, running: Daemon, acknowledged: list[tuple[str, str]]) -> None:
    """What has to hold after a restart."""
    assert torn_notes(vault, PATHS) == []
    assert lost(vault, acknowledged) == []
    eventually(lambda: temporary_files(vault) == [], "temporary files stay")
    eventually(lambda: indexed(state) == on_disk(vault), "the index is another one than a fresh one would be")
    assert "Traceback" not in running.stderr(), running.stderr()


def crash(vault: Path, state: Path, rounds: int, seed: int) -> tuple[int, int, float]:
    """Kill a writing and indexing daemon again and again. Acknowledged lines, leftovers met, slowest restart."""
    chance = random.Random(seed)
    acknowledged: list[tuple[str, str]] = []
    leftovers, slowest = 0, 0.0
    for number in range(rounds):
        begin = time.monotonic()
        with daemon(vault, state) as running:
            slowest = max(slowest, time.monotonic() - begin)
            is_sound(vault, state, running, acknowledged)
            churned = vault / f"Notes/{number % 10}/Churn {number % 7}.md"
            with appending(running.port, running.token, number, PATHS, may_vanish=True) as load:
                churned.write_text(f"churn {number}\n" * 500)
                time.sleep(chance.uniform(0.02, 0.6))
                running.kill()
            acknowledged += load.acknowledged
            assert load.failures == []
        leftovers += len(temporary_files(vault))
        assert torn_notes(vault, PATHS) == []
        assert lost(vault, acknowledged) == []
    with daemon(vault, state) as running:
        is_sound(vault, state, running, acknowledged)
    return len(acknowledged), leftovers, slowest


@pytest.mark.parametrize("row", ["S06"])
def test_a_killed_daemon_has_kept_what_it_answered(tmp_path: Path, row: str) -> None:
    acknowledged, _, _ = crash(make_vault(tmp_path / "vault"), tmp_path / "state", rounds=4, seed=6)
    assert acknowledged > 10


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("row", ["S06"])
def test_a_daemon_killed_a_hundred_times_has_kept_what_it_answered(
    tmp_path: Path, row: str, say: Callable[[str], None]
) -> None:
    acknowledged, leftovers, slowest = crash(make_vault(tmp_path / "vault"), tmp_path / "state", rounds=100, seed=106)
    say(
        f"{row}: 100 kills, {acknowledged} writes acknowledged, 0 torn, 0 lost, {leftovers} temporary files met and"
        f" cleared away, slowest restart {slowest:.1f} s"
    )
    assert acknowledged > 1000


def crash_at(point: str, vault: Path, state: Path, rounds: int) -> None:
    """Let the daemon end itself at a point of a write."""
    before = line("old", 0, 0)
    for number in range(rounds):
        for mode in ("create", "append", "overwrite"):
            note = vault / "Logs/Crash.md"
            note.parent.mkdir(exist_ok=True)
            note.unlink(missing_ok=True)
            if mode != "create":
                note.write_text(before)
            new = line("new", number, 0)
            whole = before + new if mode == "append" else new
            with daemon(vault, state, str(CRASHER), point) as running:
                scribe = Scribe(running.port, running.token)
                with pytest.raises(GONE):
                    scribe.call("write_note", path="Logs/Crash.md", content=new, mode=mode)
                scribe.close()
                assert running.process.wait(STOP_S) == -9
            content = note.read_text() if note.exists() else None
            assert content in (None if mode == "create" else before, whole)
            if point in POINTS[3:]:
                assert content == whole
            elif mode != "create":
                assert content == before
            with daemon(vault, state) as running:
                is_sound(vault, state, running, [])
                assert (note.read_text() if note.exists() else None) == content


@pytest.mark.parametrize("point", [pytest.param(point, id=f"S07-{point}") for point in POINTS])
def test_a_daemon_that_ends_at_a_point_leaves_the_old_note_or_the_new(tmp_path: Path, point: str) -> None:
    (tmp_path / "vault").mkdir()
    crash_at(point, tmp_path / "vault", tmp_path / "state", rounds=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("point", [pytest.param(point, id=f"S07-{point}") for point in POINTS])
def test_a_daemon_that_ends_ten_times_at_a_point_leaves_the_old_note_or_the_new(tmp_path: Path, point: str) -> None:
    (tmp_path / "vault").mkdir()
    crash_at(point, tmp_path / "vault", tmp_path / "state", rounds=10)


@pytest.mark.parametrize("row", ["D13"])
def test_a_daemon_that_is_told_to_end_finishes_its_writes(tmp_path: Path, row: str) -> None:
    vault, state = make_vault(tmp_path / "vault"), tmp_path / "state"
    running = start_daemon(vault, state, env=WRITES)
    load: Load
    with appending(running.port, running.token, 0, PATHS, may_vanish=True) as load:
        eventually(lambda: len(load.acknowledged) > 40, "nothing is written")
        assert running.stop() == 0  # in a bounded time
    assert load.failures == []
    assert (torn_notes(vault, PATHS), lost(vault, load.acknowledged), temporary_files(vault)) == ([], [], [])
    assert list(state.rglob("endpoint.json")) == []
    assert "Traceback" not in running.stderr(), running.stderr()
