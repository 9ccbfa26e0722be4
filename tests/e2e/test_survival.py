"""Daemons that are killed at any moment, started many at once, or live long beside a clock that jumps."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sidecar.index.manifest_reader import ManifestReader
from tests.conftest import unpack
from tests.daemons import START_S, STOP_S, Daemon
from tests.e2e.served import Served, serve, with_vectors
from tests.e2e.test_meaning import stored_ids, wait_for_vectors, worker_of
from tests.lab import wait_until
from tests.security.starts import Site

QUERIES = ("obsidian", "日本", "Projekt", "edited", "the")
PATIENCE_S = 120.0
VECTORS = with_vectors("hash")
CUT = "keyword index's log were incomplete and are left out"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(Site(tmp_path)) as made:
        yield made


def some_notes(corpora: Path, vault: Path, count: int, scratch: Path) -> None:
    """A sample of real notes, their folders with them."""
    everything = unpack(corpora / "vaults" / "small.tar.gz", scratch)
    notes = sorted(path for path in everything.rglob("*.md") if path.is_file() and not path.is_symlink())
    for path in random.Random(9).sample(notes, count):
        target = vault / path.relative_to(everything)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    shutil.rmtree(everything)


@contextmanager
def looked_at(site: Site, daemon: Daemon) -> Iterator[Served]:
    """A started daemon over HTTP; stopped in the end."""
    daemon.token = site.token
    served = Served(daemon, site.root)
    try:
        yield served
    finally:
        served.close()
        daemon.stop()


def views(served: Served) -> Any:
    """What is found, in every way that does not depend on chance."""
    return (
        served.contents(),
        [ranked(served, query) for query in QUERIES],
        [served.found(query) for query in QUERIES],
        served.listed,
    )


def ranked(served: Served, query: str) -> list[tuple[float, str]]:
    """Scores and paths, best first, by path where scores are equal: among these, the age of rows decides.

    Those that are as good as the last one are left out, since others of the kind did not come into the answer.
    """
    hits = served.admin(f"search?k=100&mode=keyword&q={query}")["results"]
    found = [(-round(hit["score"], 9), hit["path"]) for hit in hits]
    return sorted(hit for hit in found if len(found) < 100 or hit[0] < found[-1][0])


def ends_as_fresh(site: Site, tmp_path: Path, *, told: str = "", **env: str) -> str:
    """One more start: it settles, and equals an index that was made in one go. What it logged.

    `told` is in the problem that it may have met and told of.
    """
    with looked_at(site, site.start(**env)) as served:
        served.settled()
        if env:
            wait_for_vectors(served)
        found = views(served)
        status = served.admin("status")
        assert status["last_problem"] is None or (told and told in status["last_problem"])
    with serve(site.vault, tmp_path / "fresh", env=env) as fresh:
        assert views(fresh) == found
    with closing(ManifestReader(site.state / "manifest.sqlite")) as reader:
        wanted = sorted(str(chunk_id) for chunk_id in reader.ready_ids())
    if env:
        assert wanted
        assert stored_ids(site.state) == wanted
    left = [path for path in site.state.rglob("*") if re.search(r"\.(new|tmp|damaged-\d+)$", path.name)]
    assert [path.name for path in left if path not in stores_set_aside(site)] == []
    return served.daemon.stderr()


def stores_set_aside(site: Site) -> list[Path]:
    """Stores of vectors that were no good, and whose vectors were put into a new one.

    Chroma writes its graph in place, so that a kill in that moment damages it. Manifest and keyword index never are.
    """
    return list(site.state.glob("chroma/*.damaged-*"))


# killed


class Editor:
    """A person who goes on writing in the vault, whatever becomes of the daemon."""

    def __init__(self, vault: Path, seed: int) -> None:
        self._vault = vault
        self._chance = random.Random(seed)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.edits = 0

    def __enter__(self) -> Editor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._chance.random() * 0.02):
            self._edit()
            self.edits += 1

    def _edit(self) -> None:
        chance = self._chance
        path = chance.choice([path for path in self._vault.rglob("*.md") if path.is_file()])
        kind = chance.randrange(6)
        text = f"edited {self.edits} {chance.random()}\n"
        if kind == 0:
            with path.open("a") as file:
                file.write(f"\n## Later\n\n{text}")
        elif kind == 1:
            temporary = path.with_name(f".{path.name}.swp")
            temporary.write_text(f"# New\n\n{text}")
            temporary.replace(path)
        elif kind == 2:
            path.rename(path.with_name(f"renamed {self.edits}.md"))
        elif kind == 3 and chance.random() < 0.5:
            path.unlink()
        elif kind == 4 and path.parent != self._vault and chance.random() < 0.1:
            path.parent.rename(path.parent.with_name(f"folder {self.edits}"))
        else:
            (path.parent / f"made {self.edits}.md").write_text(text)


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(4, id="S06-few"),
        pytest.param(100, id="S06", marks=[pytest.mark.slow, pytest.mark.timeout(1500)]),
    ],
)
def test_daemons_killed_under_a_persons_edits_lose_nothing(
    corpora: Path, tmp_path: Path, site: Site, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    some_notes(corpora, site.vault, 150, tmp_path / "corpus")
    chance = random.Random(kills)
    phases: Counter[str] = Counter()
    starts: list[float] = []
    with Editor(site.vault, seed=kills) as editor:
        for _ in range(kills):
            begin = time.monotonic()
            daemon = site.begin(**VECTORS)
            if chance.random() < 0.2:  # in the middle of its start
                time.sleep(chance.random() * 1.5)
                phases["before it listened"] += daemon.url == ""
            else:
                daemon.wait_ready()
                starts.append(time.monotonic() - begin)
                time.sleep(chance.random() ** 2 * 3)
                daemon.token = site.token
                served = Served(daemon, site.root)
                with suppress(OSError):
                    status = served.admin("status")
                    phases[f"{status['phase']}, vectors {status['vectors'].partition(':')[0]}"] += 1
                served.close()
            os.kill(daemon.pid, signal.SIGKILL)
            daemon.kill()
            log = daemon.stderr()
            assert "Traceback" not in log, log
            others = "\n".join(line for line in log.splitlines() if "the vector store" not in line)
            assert not re.search(r"set aside|the manifest |The keyword index is damaged", others), log
    edits = editor.edits
    ends_as_fresh(site, tmp_path, told=CUT, **VECTORS)  # the last kill may have met it in the middle of a record
    aside = max((int(path.name.rpartition("-")[2]) for path in stores_set_aside(site)), default=0)
    assert aside <= 1 + kills // 20, "one in a hundred kills meets Chroma while it writes"
    with capsys.disabled():
        sys.stdout.write(
            f"\n{kills} kills, {edits} edits meanwhile, slowest of {len(starts)} starts {max(starts):.1f} s;"
            f" killed while: {dict(phases)}; {aside} vector stores set aside\n"
        )


POINTS = {
    "S07-rows of a batch half written": ("sidecar.index.note_rows", "put_chunks", "before"),
    "S07-batch not committed": ("sidecar.index.manifest", "Manifest._advance", "before"),
    "S07-batch committed": ("sidecar.index.manifest", "Manifest.apply", "after"),
    "S07-keyword record half written": ("sidecar.index.keyword_store", "KeywordStore.append", "half"),
    "S07-keyword record written": ("sidecar.index.keyword_store", "KeywordStore.append", "after"),
    "S07-keyword snapshot written": ("sidecar.index.keyword_store", "write_snapshot", "after"),
    "S07-keyword snapshot in place": ("sidecar.index.keyword_store", "KeywordStore._begin_log", "before"),
    "S07-vectors cached": ("sidecar.index.manifest", "Manifest.keep_vectors", "after"),
    "S07-chunks marked": ("sidecar.index.manifest", "Manifest.mark_ready", "after"),
    "S07-index upsert begun": ("sidecar.index.store", "Store.upsert", "before"),
    "S07-index upsert done": ("sidecar.index.store", "Store.upsert", "after"),
}

_KILL = """
import importlib, os, signal, sys

def end():
    if {in_worker}:
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

def mine():
    return ("sidecar.index.worker" in sys.orig_argv) == {in_worker} and "--multiprocessing-fork" not in sys.orig_argv

def half(self, *batch):
    from sidecar.index.keyword_files import encode_record
    record = encode_record(*batch)
    self._file.write(record[:len(record) // 2])
    end()

if mine():
    module = importlib.import_module({module!r})
    *owners, name = {name!r}.split(".")
    owner = getattr(module, owners[0]) if owners else module
    real, calls = getattr(owner, name), 0

    def dying(*args, **kwargs):
        global calls
        calls += 1
        if calls == {nth} and {when!r} != "after":
            half(*args, **kwargs) if {when!r} == "half" else end()
        result = real(*args, **kwargs)
        if calls == {nth}:
            end()
        return result

    setattr(owner, name, dying)
"""


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(1, id="once"),
        pytest.param(10, id="ten times", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
@pytest.mark.parametrize("point", POINTS)
def test_a_daemon_killed_at_a_point_ends_like_a_fresh_one(
    corpora: Path, tmp_path: Path, site: Site, point: str, rounds: int
) -> None:
    module, name, when = POINTS[point]
    is_once_a_life = name in ("write_snapshot", "KeywordStore._begin_log")
    some_notes(corpora, site.vault, 40, tmp_path / "corpus")
    for number in range(rounds):
        nth = 1 if is_once_a_life else number + 1
        program = _KILL.format(module=module, name=name, when=when, nth=nth, in_worker=module.endswith(".store"))
        daemon = site.begin(**(VECTORS | site.run_first(program)))
        # saves, so that each point is come to as often as is asked for
        give_up = time.monotonic() + PATIENCE_S
        saves = 0
        while daemon.process.poll() is None:
            assert time.monotonic() < give_up, f"it never came to the point\n{daemon.stderr()}"
            saves += 1
            (site.vault / f"Saved {saves % 7}.md").write_text(f"# Saved\n\nedited {number} {saves}\n")
            time.sleep(0.2)
        daemon.kill()
        if is_once_a_life:
            with suppress(FileNotFoundError):
                (site.state / "bm25.snap").unlink()
    ends_as_fresh(site, tmp_path, told=CUT if when == "half" else "", **VECTORS)


# started at once


@pytest.mark.parametrize("row", ["S16"])
def test_of_twenty_that_start_at_once_exactly_one_serves(site: Site, row: str) -> None:
    (site.vault / "Plum.md").write_text("# Plum\n")
    daemons = [site.begin() for _ in range(20)]
    wait_until(lambda: sum(daemon.process.poll() is None for daemon in daemons) == 1, within_s=2 * START_S)
    [one] = [daemon for daemon in daemons if daemon.process.poll() is None]
    one.wait_ready()
    assert [daemon.process.returncode for daemon in daemons if daemon is not one] == [3] * 19
    with looked_at(site, one) as served:
        served.settled()
        assert served.found("Plum") == ["Plum.md"]


# the clock


_ANOTHER_TIME = """
import time, datetime
_shift = {shift}
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _shift
time.time_ns = lambda: _time_ns() + _shift * 10**9
"""


@pytest.mark.parametrize("row", ["D22"])
def test_a_clock_that_is_set_back_and_notes_of_the_future_do_no_harm(tmp_path: Path, site: Site, row: str) -> None:
    (site.vault / "Now.md").write_text("# Now\n\nedited in the present\n")
    with looked_at(site, site.start()) as served:
        served.settled()
    future = site.vault / "Future.md"
    future.write_text("# Future\n\nedited in another century\n")
    os.utime(future, (5e9, 5e9))
    earlier = site.vault / "Earlier.md"
    earlier.write_text("# Earlier\n\nedited long ago\n")
    os.utime(earlier, (0, 0))
    yesterday = site.run_first(_ANOTHER_TIME.format(shift=-86400))
    with looked_at(site, site.start(**yesterday)) as served:
        served.settled()
        assert served.found("edited") == ["Earlier.md", "Future.md", "Now.md"]
        # a save whose time is older than what was known: content decides
        (site.vault / "Now.md").write_text("# Now\n\nwritten yesterday\n")
        os.utime(site.vault / "Now.md", (time.time() - 86400,) * 2)
        wait_until(lambda: served.found("written yesterday") == ["Now.md"])
        os.utime(future, (0, 0))
        served.settled()
        assert served.found("edited") == ["Earlier.md", "Future.md"]
    ends_as_fresh(site, tmp_path)


# a long life


def samples(served: Served) -> dict[str, int]:
    """What a daemon and its worker hold now."""
    found: Counter[str] = Counter()
    for pid in (served.daemon.pid, worker_of(served)):
        process = Path(f"/proc/{pid}")
        rollup = (process / "smaps_rollup").read_text()
        found["anonymous KiB"] += int(re.search(r"^Anonymous: +(\d+)", rollup, re.MULTILINE)[1])  # type: ignore[index]
        found["files"] += len(os.listdir(process / "fd"))
        found["threads"] += len(os.listdir(process / "task"))
    return dict(found)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("row", ["S05"])
def test_ten_minutes_of_questions_and_edits_leave_nothing_behind(
    corpora: Path, tmp_path: Path, row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    vault = tmp_path / "vault"
    some_notes(corpora, vault, 300, tmp_path / "corpus")
    queries = [*QUERIES, "plugin settings", "daily note"]
    chance = random.Random(5)
    notes = sorted(path for path in vault.rglob("*.md"))
    texts = {path: path.read_bytes() for path in notes}
    with serve(vault, tmp_path / "state", embedder="hash") as served:
        wait_for_vectors(served)
        taken: list[dict[str, int]] = []
        # a leak goes on for ever, but pools of threads and caches fill up first
        warm = time.monotonic() + 120
        end = warm + 600
        asked = 0
        while time.monotonic() < end:
            query = chance.choice(queries)
            served.call(*chance.choice([("semantic_search",), ("search_notes",)]), query=query)
            asked += 1
            path = chance.choice(notes)
            # the same number of notes and of texts at all times: what grows is not the vault
            path.write_bytes(texts[path] + (b"\nedited\n" if chance.random() < 0.5 else b""))
            if asked % 50 == 0 and time.monotonic() > warm:
                taken.append(samples(served))
            time.sleep(0.1)
        served.settled()
    third = len(taken) // 3
    means = {
        name: [sum(one[name] for one in part) / third for part in (taken[:third], taken[-third:])] for name in taken[0]
    }
    with capsys.disabled():
        sys.stdout.write(f"\n{asked} questions and edits; first and last third: {means}\n")
    for name, (first, last) in means.items():
        assert last <= first * 1.05, (name, means)


# it is stopped in order, too


def test_a_daemon_that_is_stopped_while_it_indexes_goes_on_where_it_was(
    corpora: Path, tmp_path: Path, site: Site
) -> None:
    some_notes(corpora, site.vault, 400, tmp_path / "corpus")
    with looked_at(site, site.start(**VECTORS)) as served:
        seen = 0
        while seen < 2:
            seen = served.admin(f"status?after={seen}&wait_s=5")["generation"]
    assert served.daemon.process.wait(STOP_S) == 0
    ends_as_fresh(site, tmp_path, **VECTORS)
