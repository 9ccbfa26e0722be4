"""The state folder's disk is full: what is indexed is found, one line says why no more is, and it goes on by itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.index.manifest_reader import ManifestReader
from tests.daemons import start_daemon
from tests.e2e.served import Served, serve, with_vectors

PATIENCE_S = 90.0
SIZE_MIB = 80

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts a disk of its own in a namespace")


@dataclass
class Disk:
    """A daemon whose state folder lies on a small disk that only it sees."""

    served: Served
    vault: Path
    root: Path

    def fill(self) -> None:
        """Until not a byte is left."""
        with suppress(OSError), (self.root / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        with suppress(OSError), (self.root / "ballast").open("ab", buffering=0) as file:
            while True:
                file.write(b"\0")

    def empty(self) -> None:
        (self.root / "ballast").unlink()

    def manifest(self, target: Path) -> ManifestReader:
        """A view of a copy, because SQLite finds no file by the path that leads into the namespace."""
        target.mkdir()
        for name in ("manifest.sqlite", "manifest.sqlite-wal"):
            shutil.copyfile(self.served.state_dir / name, target / name)
        return ManifestReader(target / "manifest.sqlite")

    def until(self, phrase: str) -> None:
        """Wait until the log says so."""
        give_up = time.monotonic() + PATIENCE_S
        while phrase not in self.served.daemon.stderr():
            assert time.monotonic() < give_up, self.served.daemon.stderr()
            time.sleep(0.05)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    vault, state = tmp_path / "vault", tmp_path / "state"
    vault.mkdir()
    state.mkdir()
    write(vault, range(50))
    mounted = f'mount -t tmpfs -o size={SIZE_MIB}m,mode=700 none "{state}" && exec "$@"'
    under = ["unshare", "-U", "-r", "-m", "sh", "-c", mounted, "sh"]
    try:
        tried = subprocess.run([*under, "true"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare command")
    if tried.returncode:
        pytest.skip("this user may not mount a disk in a namespace of its own")
    daemon = start_daemon(vault, state, env=with_vectors("hash"), under=under)
    served = Served(daemon, Path(f"/proc/{daemon.pid}/root{state}"))
    try:
        served.settled()
        yield Disk(served, vault, served.state)
    finally:
        served.close()
        daemon.stop()


def write(vault: Path, numbers: range) -> None:
    for number in numbers:
        body = "\n\n".join(f"Paragraph {part} of {number}: " + "words and more words " * 20 for part in range(20))
        (vault / f"Note {number}.md").write_text(f"# Note {number}\n\nmark{number}x\n\n{body}\n")


def with_all_vectors(served: Served) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        status = served.settled()
        if status["vectors"] == "ready" and status["chunks"]["vector"] == status["chunks"]["total"]:
            return
        assert time.monotonic() < give_up, status
        time.sleep(0.1)


def test_a_full_disk_stops_indexing_and_nothing_else(disk: Disk, tmp_path: Path) -> None:
    served = disk.served
    with_all_vectors(served)
    disk.fill()
    write(disk.vault, range(50, 150))
    disk.until("nothing can be indexed now")
    status = served.admin("status")
    assert status["last_problem"] == (
        "Nothing can be indexed now, because the disk is full. It goes on by itself once it can."
    )
    assert not status["settled"]
    assert served.found("mark7x") == ["Note 7.md"]
    assert [hit["path"] for hit in served.admin("search?q=mark7x&mode=keyword")["results"]] == ["Note 7.md"]
    assert "Note 7.md" in served.call("semantic_search", query="mark7x").text
    disk.empty()
    disk.until("indexing goes on")
    with_all_vectors(served)
    assert served.found("mark149x") == ["Note 149.md"]
    assert served.admin("status")["last_problem"] is None
    log = served.daemon.stderr()
    assert log.count("nothing can be indexed now, because the disk is full") == 1, log
    assert "Traceback" not in log, log
    with (
        closing(disk.manifest(tmp_path / "copy")) as reader,
        serve(disk.vault, tmp_path / "fresh", embedder="hash") as fresh,
    ):
        assert reader.contents() == fresh.contents()


def test_a_first_index_that_does_not_fit_is_finished_when_it_does(disk: Disk, tmp_path: Path) -> None:
    """Also with a rename and a delete while nothing could be written."""
    served = disk.served
    disk.fill()
    write(disk.vault, range(50, 80))
    disk.until("nothing can be indexed now")
    (disk.vault / "Note 3.md").unlink()
    (disk.vault / "Note 4.md").rename(disk.vault / "Other name.md")
    assert served.call("read_note", path="Other name.md").text.startswith("# Note 4")
    disk.empty()
    disk.until("indexing goes on")
    with_all_vectors(served)
    assert served.found("mark3x") == []
    assert served.found("mark4x") == ["Other name.md"]
    with closing(disk.manifest(tmp_path / "copy")) as reader, serve(disk.vault, tmp_path / "fresh") as fresh:
        assert reader.contents() == fresh.contents()
