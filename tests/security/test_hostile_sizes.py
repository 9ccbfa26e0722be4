"""Rows N16, N29 and N30 over HTTP: one note that is too large, very many notes, and a very deep tree."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import wire
from tests.daemons import Daemon
from tests.security import owner
from tests.security.ground import Ground, later_note, served, write
from tests.security.measures import Usage, used

LIMIT_MIB = 32
SLACK_MIB = 16
HUGE = 100 << 20
CROWD_WORD = "crowd 3316"


def scene(scratch: Path, **env: str) -> Iterator[tuple[Ground, Daemon]]:
    write(scratch / "base/vault", "first.md")
    with served(scratch / "base", scratch / "state", env=env) as both:
        yield both


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Ground, Daemon]]:
    yield from scene(tmp_path)


@pytest.fixture
def boundless(tmp_path: Path) -> Iterator[tuple[Ground, Daemon]]:
    """A daemon to which 100 MiB are not too much."""
    yield from scene(tmp_path, VAULT_SIDECAR_INDEX_MAX_NOTE_MIB="200")


def save_huge(ground: Ground, daemon: Daemon) -> Usage:
    """A note of 100 MiB comes, is read and searched for; what that took."""
    write(ground.vault, "N16/hostile.md", "small and found\n")
    ground.until_found("small and found", ["N16/hostile.md"])
    with used(daemon.pid) as usage:
        os.truncate(ground.vault / "N16/hostile.md", HUGE)
        later_note(ground, "N16")
        ground.call("read_note", path="N16/hostile.md")
        ground.found("small and found")
    return usage


@pytest.mark.parametrize("row", ["N16"])
def test_a_note_over_the_limit_is_skipped_and_never_held(both: tuple[Ground, Daemon], row: str) -> None:
    ground, daemon = both
    usage = save_huge(ground, daemon)
    if usage.known:
        assert usage.rise_mib < LIMIT_MIB + SLACK_MIB
    too_large = f"'{row}/hostile.md' is larger than {LIMIT_MIB} MiB."
    assert ground.skipped() == {f"{row}/hostile.md": too_large}
    said = ground.call("read_note", path=f"{row}/hostile.md")
    assert (said.is_error, said.text) == (True, too_large)
    assert f"{row}/hostile.md" in ground.listed()
    search = ground.call("search_notes", query="small and found").text.split("\n")
    assert search[0] == 'No notes match "small and found".'
    assert search[-1] == "[1 note was not searched: larger than the limit, or unreadable.]"


def test_without_the_limit_a_large_note_fills_the_memory(boundless: tuple[Ground, Daemon]) -> None:
    """The control of N16: the measure sees what the limit prevents."""
    ground, daemon = boundless
    usage = save_huge(ground, daemon)
    if not usage.known:
        pytest.skip("the memory of another process is told by Linux only")
    assert usage.rise_mib > LIMIT_MIB + SLACK_MIB
    assert ground.skipped() == {}


def crowd(ground: Ground, daemon: Daemon, count: int, *, stands_still: bool) -> list[int]:
    """So many notes come at once. Meanwhile every search is answered, and a save is found; how many notes were
    indexed each time it was. A daemon that `stands_still` does so until all have come and it is asked for the first
    time; the events of that time have to fit into the kernel's queue."""
    [key] = ground.state.rglob("local.key")
    asking = owner.request(ground.port, key.read_text().strip(), "GET", "/admin/status")
    with used(daemon.pid) as usage:
        if stands_still:
            daemon.process.send_signal(signal.SIGSTOP)
        for number in range(count):
            write(ground.vault, f"N29/{number % 50}/{number}.md", f"# Note {number}\n\nA few words: {CROWD_WORD}.\n")
        with wire.Wire(ground.port) as client:
            client.send(asking)
            daemon.process.send_signal(signal.SIGCONT)
            notes = client.reply().json()["notes"]
        indexed: list[int] = []
        while notes["keyword"] < count:
            indexed.append(notes["keyword"])
            said = ground.call("search_notes", query=CROWD_WORD)
            assert not said.is_error
            later_note(ground, f"N29-{len(indexed)}")
            notes = ground.admin("status")["notes"]
    if usage.known:
        assert usage.rise_mib < SLACK_MIB + count * 4 / 1024  # 4 KiB a note, of which each has 40 bytes
    return indexed


@pytest.mark.parametrize("row", ["N29"])
def test_many_notes_at_once_do_not_stop_searches_and_saves(both: tuple[Ground, Daemon], row: str) -> None:
    ground, daemon = both
    assert crowd(ground, daemon, 2000, stands_still=True), "it was over before anybody could ask"
    ground.settled()
    said = ground.call("search_notes", query=CROWD_WORD)
    assert said.text.startswith(f'20 of 2,000 notes that match "{CROWD_WORD}".')
    assert ground.call("list_notes", folder=row, limit=1).text.startswith("1 of 2,000 notes in ")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("row", ["N29-slow"])
def test_fifty_thousand_notes_at_once_do_not_stop_searches_and_saves(both: tuple[Ground, Daemon], row: str) -> None:
    ground, daemon = both
    indexed = crowd(ground, daemon, 50_000, stands_still=False)
    assert len([count for count in indexed if 0 < count < 40_000]) >= 3, indexed
    ground.settled()
    said = ground.call("search_notes", query=CROWD_WORD)
    assert said.text.startswith(f'20 of 50,000 notes that match "{CROWD_WORD}".')


def dig(folder: Path, name: str, depth: int, text: str) -> str:
    """A note below so many folders, made without its path ever being said; the path."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    with open(os.open("hostile.md", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=at), "w") as file:
        file.write(text)
    os.close(at)
    return f"{name}/" * depth + "hostile.md"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ground, Daemon]]:
    """A daemon for all deep trees."""
    yield from scene(tmp_path_factory.mktemp("mine"))


@pytest.mark.parametrize(
    "name, depth, fits",
    [
        pytest.param("a", 200, True, id="N30-1"),
        pytest.param("b", 255, True, id="N30-2"),
        pytest.param("c", 300, False, id="N30-3"),
        pytest.param("d" * 250, 16, True, id="N30-4"),
        pytest.param("e" * 250, 17, False, id="N30-5"),
    ],
)
def test_a_deep_tree_is_walked_to_the_depth_that_can_be_asked_for(
    mine: tuple[Ground, Daemon], name: str, depth: int, fits: bool
) -> None:
    ground, daemon = mine
    word = f"deep{name[0]}{depth}x"
    with used(daemon.pid) as usage:
        path = dig(ground.vault, name, depth, word)
        later_note(ground, f"N30-{name[0]}")
        ground.until_found(word, [path] if fits else [])
        ground.settled()
    assert usage.cpu_s < 5  # it would be tens of seconds, were the tree walked once for each of its folders
    said = ground.call("read_note", path=path)
    assert (said.is_error, path in ground.listed()) == (not fits, fits)
    reasons = {reason for skipped, reason in ground.skipped().items() if skipped.startswith(f"{name}/")}
    assert reasons == (set() if fits else {"it lies too deep"})
