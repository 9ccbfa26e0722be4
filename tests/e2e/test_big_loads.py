"""Much at once, and ground that gives way: folders that move, storms, an unmounted vault, the system's limits."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sidecar.index.manifest_reader import ManifestReader
from tests.daemons import start_daemon
from tests.e2e.served import Served, on_disk, serve, with_vectors
from tests.e2e.test_meaning import wait_for_vectors
from tests.security.measures import used

PATIENCE_S = 120.0


def until(served: Served, holds: Callable[[], bool]) -> None:
    """Look at each generation until something holds."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        status = served.admin("status")
        assert time.monotonic() < give_up, status
        served.admin(f"status?after={status['generation']}&wait_s=0.2")


def rows(served: Served) -> set[tuple[int, ...]]:
    """Chunk ids with the text they stand for."""
    with closing(ManifestReader(served.state_dir / "manifest.sqlite")) as reader:
        return set(reader._db.execute("SELECT note_key, chunk_id, ordinal FROM chunks"))


def make_many(vault: Path, count: int) -> None:
    for number in range(count):
        path = vault / "Many" / str(number % 50) / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        # every other one twice, so that equal bytes alone do not tell which is which
        path.write_text(f"# On {number // 2}\n\ncrowded{number // 2}x and more words about {number % 7}.\n")


@pytest.mark.parametrize(
    ("count", "embedder"),
    [
        pytest.param(1_100, None, id="more than one batch"),
        pytest.param(5_000, "hash", id="5,000 with vectors", marks=pytest.mark.slow),
    ],
)
def test_a_moved_folder_keeps_every_row_and_vector(tmp_path: Path, count: int, embedder: str | None) -> None:
    vault = tmp_path / "vault"
    make_many(vault, count)
    with serve(vault, tmp_path / "state", embedder=embedder) as served:
        if embedder:
            wait_for_vectors(served)
        before = rows(served)
        (vault / "Many").rename(vault / "Moved")
        until(served, lambda: served.found("crowded7x") == ["Moved/14/14.md", "Moved/15/15.md"])
        status = served.settled()
        assert (status["notes"]["total"], status["notes"]["keyword"]) == (count, count)
        if embedder:
            assert status["chunks"]["vector"] == status["chunks"]["total"], "none was away for a moment"
        assert rows(served) == before
        assert served.listed[0].startswith("Moved/")


# storms


def storm(vault: Path, actions: int, seed: int) -> None:
    """So many creations, changes, renames and deletions, also of folders, as fast as they go."""
    chance = random.Random(seed)
    notes: list[Path] = []
    for number in range(actions):
        kind = chance.random()
        if kind < 0.45 or not notes:
            path = vault / f"storm{chance.randrange(20)}" / f"{number}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"storm {number}\n")
            notes.append(path)
        elif kind < 0.6:
            chance.choice(notes).write_text(f"changed {number}\n")
        elif kind < 0.8:
            old = notes.pop(chance.randrange(len(notes)))
            new = vault / f"storm{chance.randrange(20)}" / f"{number}.md"
            new.parent.mkdir(exist_ok=True)
            notes.append(old.rename(new))
        elif kind < 0.99:
            notes.pop(chance.randrange(len(notes))).unlink()
        else:
            folder = chance.choice(notes).parent
            moved = vault / f"moved{number}"
            folder.rename(moved)
            notes = [moved / note.name if note.parent == folder else note for note in notes]


@pytest.mark.parametrize(
    "actions", [pytest.param(1_500, id="S15"), pytest.param(10_000, id="S15-slow", marks=pytest.mark.slow)]
)
def test_after_a_storm_the_index_equals_the_disk(tmp_path: Path, actions: int) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    with serve(vault, tmp_path / "state") as served, used(served.daemon.pid) as usage:
        storm(vault, actions, seed=actions)
        (vault / "last.md").write_text("the storm is over\n")
        until(served, lambda: served.found("the storm is over") == ["last.md"])
        until(served, lambda: served.settled()["notes"]["total"] == len(on_disk(vault)))
        served.every_file_is_accounted_for(vault)
        contents = served.contents()
        scores = [hit["score"] for hit in served.admin("search?k=100&mode=keyword&q=storm")["results"]]
    if usage.known:
        assert usage.rise_mib < 32 + actions * 8 / 1024
    assert "Traceback" not in served.daemon.stderr()
    with serve(vault, tmp_path / "fresh") as fresh:
        assert fresh.contents() == contents
        again = [hit["score"] for hit in fresh.admin("search?k=100&mode=keyword&q=storm")["results"]]
        assert again == pytest.approx(scores), "the notes are alike, so any of them may come first"


# a vault that is away


def by_rename(vault: Path) -> Iterator[None]:
    away = vault.with_name("away")
    vault.rename(away)
    yield
    away.rename(vault)


def by_an_empty_mount_point(vault: Path) -> Iterator[None]:
    """As an unmounted disk leaves it: a folder is there, another one, with nothing in it."""
    away = vault.with_name("away")
    vault.rename(away)
    vault.mkdir()
    yield
    vault.rmdir()
    away.rename(vault)


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(by_rename, id="D16-renamed"),
        pytest.param(by_an_empty_mount_point, id="D16-empty mount point"),
    ],
)
def test_a_vault_that_goes_away_keeps_its_index_and_comes_back(
    tmp_path: Path, leave: Callable[[Path], Iterator[None]]
) -> None:
    vault = tmp_path / "vault"
    make_many(vault, 40)
    with serve(vault, tmp_path / "state") as served:
        goes_and_comes(served, vault, lambda: leave(vault))


def goes_and_comes(served: Served, vault: Path, leave: Callable[[], Iterator[None]]) -> None:
    before = served.contents()
    away = leave()
    next(away)
    until(served, lambda: served.admin("status")["phase"] == "vault unavailable")
    said = served.call("read_note", path="Many/14/14.md")
    assert said.is_error
    assert "vault folder" in said.text or "no note" in said.text
    assert served.found("crowded7x") == ["Many/14/14.md", "Many/15/15.md"], "what is indexed is found"
    assert served.contents() == before
    assert served.admin("status")["last_problem"].startswith("The vault folder ")
    next(away, None)
    until(served, lambda: served.admin("status")["phase"] == "ready")
    (vault / "back.md").write_text("back again\n")
    until(served, lambda: served.found("back again") == ["back.md"])
    assert not served.call("read_note", path="Many/14/14.md").is_error
    (vault / "back.md").unlink()
    until(served, lambda: served.contents() == before)
    assert "Traceback" not in served.daemon.stderr()


@contextmanager
def served_in_namespace(vault: Path, state: Path, preparation: str, **env: str) -> Iterator[Served]:
    under = ["unshare", "-U", "-r", "-m", "sh", "-c", f'{preparation} && exec "$@"', "sh"]
    try:
        tried = subprocess.run([*under, "true"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare command")
    if tried.returncode:
        pytest.skip("this user may not make a namespace of its own")
    daemon = start_daemon(vault, state, under=under, env=env)
    served = Served(daemon, state)
    try:
        served.settled()
        yield served
    finally:
        served.close()
        daemon.stop()


@pytest.mark.parametrize("row", ["D16-unmounted"])
def test_a_vault_that_is_unmounted_keeps_its_index_and_comes_back(tmp_path: Path, row: str) -> None:
    disk, vault = tmp_path / "disk", tmp_path / "vault"
    make_many(disk, 40)
    vault.mkdir()
    with served_in_namespace(vault, tmp_path / "state", f'mount --bind "{disk}" "{vault}"') as served:

        def inside(*command: str) -> None:
            enter = ["nsenter", "-t", str(served.daemon.pid), "-U", "-m", "--preserve-credentials"]
            subprocess.run([*enter, *command], check=True, capture_output=True)

        def unmount() -> Iterator[None]:
            inside("umount", "-l", str(vault))
            yield
            inside("mount", "--bind", str(disk), str(vault))

        goes_and_comes(served, disk, unmount)


# limits of the system


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")
def test_where_too_few_folders_can_be_watched_status_says_so_and_saves_are_found(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    make_many(vault, 60)
    limited = "echo 20 > /proc/sys/user/max_inotify_watches"
    with served_in_namespace(vault, tmp_path / "state", limited) as served:
        reason = "the system's limit of watched folders is reached (fs.inotify.max_user_watches)"
        until(served, lambda: served.admin("status")["watching"] == f"polling: {reason}")
        (vault / "Many" / "7" / "new.md").write_text("a late zeppelin\n")
        until(served, lambda: served.found("a late zeppelin") == ["Many/7/new.md"])
        assert served.daemon.stderr().count(f"is looked through every 10 s: {reason}") == 1


# one note that is a library


def big_text(mib: int) -> str:
    """Prose with headings; a mark near its begin and one at its very end."""
    chance = random.Random(60)
    words = [f"{chance.choice('bcdfgklmnprst')}{chance.choice('aeiou')}{number:x}" for number in range(4000)]
    parts = ["# A library\n\nfirstmark\n\n"]
    size = 0
    while size < mib << 20:
        part = f"## Part {len(parts)}\n\n" + " ".join(chance.choices(words, k=150)) + "\n\n"
        parts.append(part)
        size += len(part)
    return "".join(parts) + "lastmark\n"


@pytest.mark.parametrize(
    ("mib", "limit"),
    [
        pytest.param(60, 32, id="60 MiB, over the limit"),
        pytest.param(60, 64, id="60 MiB, allowed", marks=pytest.mark.slow),
        pytest.param(8, 32, id="8 MiB"),
    ],
)
def test_a_huge_note_holds_up_nobody(tmp_path: Path, mib: int, limit: int) -> None:
    vault = tmp_path / "vault"
    make_many(vault, 20)
    env = {**with_vectors("hash"), "VAULT_SIDECAR_INDEX_MAX_NOTE_MIB": str(limit)}
    with serve(vault, tmp_path / "state", env=env) as served, used(served.daemon.pid) as usage:
        whole = tmp_path / "Huge.md"  # in one step: half of it would be a note below the limit
        whole.write_text(big_text(mib))
        whole.rename(vault / "Huge.md")
        (vault / "Small.md").write_text("a small one beside it\n")
        until(served, lambda: served.found("a small one beside it") == ["Small.md"])
        if mib > limit:
            until(served, lambda: "Huge.md" in {row["path"] for row in served.admin("status")["skipped"]})
            assert served.found("firstmark") == []
        else:
            until(served, lambda: served.found("lastmark") == ["Huge.md"])
            hits = served.admin("search?mode=keyword&q=firstmark")["results"]
            assert [hit["path"] for hit in hits] == ["Huge.md"]
        served.settled()
        for number in range(5):  # while its chunks get their vectors
            (vault / "Small.md").write_text(f"small and changed {number}x\n")
            until(served, lambda number=number: served.found(f"small and changed {number}x") == ["Small.md"])
    if usage.known:
        assert usage.rise_mib < 48 + (0 if mib > limit else 10 * mib)
    assert "Traceback" not in served.daemon.stderr()
    shutil.rmtree(tmp_path / "state")


@pytest.mark.skipif(os.name == "nt", reason="a name holds no line end there")
def test_names_known_before_a_move_are_all_gone_after_it(tmp_path: Path) -> None:
    """A rename of each note alone, all at once: its old name must not stay behind in any view."""
    vault = tmp_path / "vault"
    make_many(vault, 1_200)
    with serve(vault, tmp_path / "state") as served:
        before = {row[:2] for row in rows(served)}
        for path in sorted((vault / "Many").rglob("*.md")):
            path.rename(path.with_name(f"2026 {path.name}"))
        until(served, lambda: served.found("crowded7x") == ["Many/14/2026 14.md", "Many/15/2026 15.md"])
        until(served, lambda: all("/2026 " in path for path, _, _ in served.contents()))
        until(served, lambda: served.settled()["notes"]["total"] == 1_200)
        assert all("/2026 " in name for name in served.listed)
        assert len({row[0] for row in rows(served)} & {row[0] for row in before}) > 1_000, "most are known as the same"
