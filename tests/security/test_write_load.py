"""S01, S02 and S11: many clients at once get whole and right answers, and no write is lost among them."""

from __future__ import annotations

import itertools
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemons import start_daemon
from tests.security.scribes import PATIENCE_S, WRITES, Scribe, eventually, indexed, on_disk, temporary_files

NOTES = 40
Say = Callable[[str], None]


def text_of(number: int) -> str:
    return f"# Note {number}\n\n" + f"word{number}x stands here\n" * 20


def uniform(version: int) -> str:
    """A text whose lines all tell of one version."""
    return f"version {version}\n" * 400


@contextmanager
def served(scratch: Path) -> Iterator[tuple[Path, Callable[[], Scribe]]]:
    """A vault of known notes, and what makes clients for it."""
    vault, state = scratch / "vault", scratch / "state"
    (vault / "Notes").mkdir(parents=True)
    for number in range(NOTES):
        (vault / f"Notes/{number}.md").write_text(text_of(number))
    running = start_daemon(vault, state, env=WRITES)
    try:
        eventually(lambda: indexed(state) == on_disk(vault), "it is not indexed")
        yield vault, lambda: Scribe(running.port, running.token)
        assert "Traceback" not in running.stderr(), running.stderr()
    finally:
        assert running.stop() == 0


class Crew:
    """Threads that each do a share of the work; what one of them finds wrong fails the test."""

    def __init__(self) -> None:
        self.wrong: list[BaseException] = []
        self.seconds: list[float] = []
        self._threads: list[threading.Thread] = []

    def add(self, work: Callable[[Scribe], None], scribe: Scribe) -> None:
        def run() -> None:
            try:
                work(scribe)
            except BaseException as wrong:
                self.wrong.append(wrong)
            finally:
                scribe.close()

        self._threads.append(threading.Thread(target=run))

    def timed(self, call: Callable[[], None]) -> None:
        begin = time.perf_counter()
        call()
        self.seconds.append(time.perf_counter() - begin)

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join(900)
            assert not thread.is_alive()
        assert self.wrong == []


def read_mixed(scribe: Scribe, chance: random.Random) -> None:
    """One of the reading tools, its answer checked."""
    number = chance.randrange(NOTES)
    match chance.randrange(3):
        case 0:
            assert scribe.call("read_note", path=f"Notes/{number}.md")[:2] == (text_of(number), False)
        case 1:
            text, failed, _ = scribe.call("search_notes", query=f"word{number}x")
            lines = "".join(f"\n  {line}: word{number}x stands here" for line in range(3, 8))
            assert (text, failed) == (f'1 note matches "word{number}x".\nNotes/{number}.md{lines}', False)
        case _:
            text, failed, _ = scribe.call("list_notes", folder="Notes", limit=5, offset=number)
            shown = sorted(f"Notes/{each}.md" for each in range(NOTES))[number : number + 5]
            assert (text.split("\n")[1 : len(shown) + 1], failed) == (shown, False)


def read_at_once(scratch: Path, clients: int, calls: int) -> list[float]:
    with served(scratch) as (_, client):
        crew = Crew()

        def work(scribe: Scribe) -> None:
            chance = random.Random(id(scribe))
            for _ in range(calls):
                crew.timed(lambda: read_mixed(scribe, chance))

        for _ in range(clients):
            crew.add(work, client())
        crew.run()
        return crew.seconds


@pytest.mark.parametrize("row", ["S01"])
def test_many_readers_get_right_answers(tmp_path: Path, row: str) -> None:
    assert len(read_at_once(tmp_path, clients=10, calls=20)) == 200


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("row", ["S01"])
def test_fifty_readers_get_ten_thousand_right_answers(tmp_path: Path, row: str, say: Say) -> None:
    seconds = read_at_once(tmp_path, clients=50, calls=200)
    assert len(seconds) == 10_000
    cuts = statistics.quantiles(seconds, n=100)
    say(f"{row}: 10,000 answers, all right; p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms")
    assert cuts[98] <= 10 * cuts[49]


def read_and_write_at_once(scratch: Path, readers: int, writers: int, calls: int) -> tuple[int, int, int]:
    """Reads, writes and saves of another program, none of which may ever be seen in part."""
    with served(scratch) as (vault, client):
        shared = [f"Shared/{number}.md" for number in range(writers)]
        churned = [f"Churn/{number}.md" for number in range(20)]
        for path in (*shared, *churned):
            (vault / path).parent.mkdir(exist_ok=True)
            (vault / path).write_text(uniform(0))
        newest = dict.fromkeys((*shared, *churned), 0)
        crew, over = Crew(), threading.Event()
        counts = {"reads": 0, "writes": 0, "saves": 0}

        def read(scribe: Scribe) -> None:
            chance = random.Random(id(scribe))
            give_up = time.monotonic() + PATIENCE_S
            for number in itertools.count():
                met_others = counts["writes"] > 5 and counts["saves"] > 5
                if number >= calls and (met_others or time.monotonic() > give_up):
                    return
                path = chance.choice((*shared, *churned))
                text, failed, _ = scribe.call("read_note", path=path)
                version = int(text.split("\n", 1)[0].removeprefix("version "))
                assert (text, failed) == (uniform(version), False)
                assert version <= newest[path]
                read_mixed(scribe, chance)
                counts["reads"] += 2

        def write(path: str) -> Callable[[Scribe], None]:
            def work(scribe: Scribe) -> None:
                while not over.is_set():
                    newest[path] += 1
                    text, failed, _ = scribe.call(
                        "write_note", path=path, content=uniform(newest[path]), mode="overwrite"
                    )
                    assert not failed, text
                    counts["writes"] += 1

            return work

        def churn() -> None:
            while not over.wait(0.05):
                path = random.choice(churned)
                newest[path] += 1
                saved = vault / "Churn/.saving"
                saved.write_text(uniform(newest[path]))
                saved.rename(vault / path)
                counts["saves"] += 1

        others = Crew()
        for path in shared:
            others.add(write(path), client())
        for _ in range(readers):
            crew.add(read, client())
        background = [threading.Thread(target=churn), threading.Thread(target=others.run)]
        for thread in background:
            thread.start()
        try:
            crew.run()
        finally:
            over.set()
            for thread in background:
                thread.join(PATIENCE_S)
        assert others.wrong == []
        assert temporary_files(vault) == []
        return counts["reads"], counts["writes"], counts["saves"]


@pytest.mark.parametrize("row", ["S02"])
def test_readers_among_writers_never_see_a_mix(tmp_path: Path, row: str) -> None:
    _, writes, saves = read_and_write_at_once(tmp_path, readers=10, writers=1, calls=30)
    assert writes > 5 and saves > 5


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("row", ["S02"])
def test_fifty_readers_among_five_writers_never_see_a_mix(tmp_path: Path, row: str, say: Say) -> None:
    reads, writes, saves = read_and_write_at_once(tmp_path, readers=50, writers=5, calls=100)
    assert reads >= 10_000
    say(f"{row}: {reads:,} answers among {writes} writes and {saves} saves of another program, each one whole version")


def append_at_once(scratch: Path, clients: int, appends: int) -> int:
    """Every client appends its lines to one note, each expecting the text it saw last; how often one was too late."""
    with served(scratch) as (vault, client):
        crew, refusals, met = Crew(), [], threading.Barrier(clients)

        def work(name: int) -> Callable[[Scribe], None]:
            def append(scribe: Scribe) -> None:
                for number in range(appends):
                    # of those that have all looked at what is there, one at most comes in time
                    meet = {"after_look": lambda: met.wait(PATIENCE_S)} if number == 1 else {}
                    refusals.append(scribe.append("Log.md", f"{name}-{number}\n", **meet))

            return append

        for name in range(clients):
            crew.add(work(name), client())
        crew.run()
        lines = (vault / "Log.md").read_text().splitlines()
        assert sorted(lines) == sorted(f"{name}-{number}" for name in range(clients) for number in range(appends))
        for name in range(clients):
            own = [line for line in lines if line.startswith(f"{name}-")]
            assert own == [f"{name}-{number}" for number in range(appends)]  # each client's in its own order
        assert temporary_files(vault) == []
        return sum(refusals)


@pytest.mark.parametrize("row", ["S11"])
def test_appends_of_several_clients_are_there_once_each(tmp_path: Path, row: str) -> None:
    assert append_at_once(tmp_path, clients=4, appends=15) > 0, "they never met, so this proves nothing"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("row", ["S11"])
def test_eight_times_250_appends_are_2000_lines(tmp_path: Path, row: str, say: Say) -> None:
    refusals = append_at_once(tmp_path, clients=8, appends=250)
    say(f"{row}: 2,000 lines, each once; {refusals} times a client was too late and tried again")


def test_without_the_checksum_lines_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of S11: read, add a line, overwrite."""
    with served(tmp_path) as (vault, client):
        crew, met = Crew(), threading.Barrier(4)
        (vault / "Log.md").write_text("")

        def work(name: int) -> Callable[[Scribe], None]:
            def append(scribe: Scribe) -> None:
                for number in range(15):
                    text = scribe.call("read_note", path="Log.md")[0]
                    if number == 0:
                        met.wait(PATIENCE_S)  # so that all of them overwrite the same text
                    scribe.call("write_note", path="Log.md", content=f"{text}{name}-{number}\n", mode="overwrite")

            return append

        for name in range(4):
            crew.add(work(name), client())
        crew.run()
        assert len((vault / "Log.md").read_text().splitlines()) < 60
