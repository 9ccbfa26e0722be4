"""The processes that read: real ones, given files that hang, crash, and take what there is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sidecar.index.counted import Counted, counted
from sidecar.index.documents import frames
from sidecar.index.documents.readers import DocumentReaders, Limits, Lost
from sidecar.index.documents.reading import Reading, is_sound, reading
from sidecar.index.tokens import Tokenizer
from tests.index.documents import files, nasty
from tests.lab import wait_until

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc, and a limit of memory")


@asynccontextmanager
async def readers(folder: Path, seconds: float = 60.0, memory: int = 1 << 30, **more) -> AsyncIterator[DocumentReaders]:
    environment = {**os.environ, **more.pop("environment", {})}
    limits = Limits(seconds, memory)
    async with (
        asyncio.timeout(100),
        DocumentReaders(environment, folder, limits=limits, read=nasty.READ, **more) as those,
    ):
        yield those


async def text(those: DocumentReaders, name: str, data: bytes = b"") -> str:
    ((_, found),) = (await those.read(name, data)).passages
    return found


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


# reading


async def test_files_are_read_by_one_process_after_the_other(tmp_path: Path) -> None:
    async with readers(tmp_path) as those:
        assert those.pids == []
        first = await those.read("a.pdf", files.pdf(["Der Zug fährt nach Wien."], ["Второй"]))
        assert [found for _, found in first.passages] == ["Der Zug fährt nach Wien.", "Второй"]
        assert first.warning is None
        second = await those.read("b.pdf", b"broken")
        assert (second.passages, second.warning) == ([], "it can't be read as PDF")
        assert len(those.pids) == 1


async def test_what_comes_back_is_what_was_read(tmp_path: Path) -> None:
    """In many frames, and with half of a UTF-16 pair in it."""
    async with readers(tmp_path) as those:
        found = await those.read("many", b"")
    here = reading(nasty.read("many", b""), Tokenizer())
    assert found == Reading(here.language, list(here.passages), here.words, None)
    assert frames.head_of(frames.encode({"passages": [(0, "\ud83d")]})[8:])["passages"] == [[0, "\ud83d"]]


async def test_urgent_files_do_not_wait_for_others(tmp_path: Path) -> None:
    async with readers(tmp_path, processes=1) as those:
        stuck = asyncio.create_task(those.read("hang", b""))
        await asyncio.to_thread(wait_until, lambda: len(those.pids) == 1)
        await those.read("a.txt", b"text", urgent=True)
        assert not stuck.done()
        stuck.cancel()
        await asyncio.gather(stuck, return_exceptions=True)


# what a file can do to its reader


@pytest.mark.parametrize("name", ["hang", pytest.param("spin", marks=LINUX)])
async def test_a_file_that_takes_too_long_is_given_up_and_the_next_is_read(tmp_path: Path, name: str) -> None:
    async with readers(tmp_path) as those:
        await text(those, "process")
        (before,) = those.pids
        those._limits = Limits(seconds=1)
        with pytest.raises(Lost, match="takes longer than 1 s"):
            await those.read(name, b"")
        assert not is_alive(before)
        those._limits = Limits()
        assert await text(those, "a.txt", b"next") == "next"


async def test_without_the_limit_it_would_go_on(tmp_path: Path) -> None:
    """Control: the same file, and nobody's patience ends."""
    async with readers(tmp_path, seconds=1000) as those:
        waiting = asyncio.create_task(those.read("hang", b""))
        done, _ = await asyncio.wait([waiting], timeout=3)
        assert not done
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.parametrize(
    ("name", "how"),
    [("crash", "was ended by SIGSEGV"), ("leave", "ended by itself with code 7")],
    ids=["crash", "leave"],
)
async def test_a_crash_costs_one_file(tmp_path: Path, name: str, how: str) -> None:
    async with readers(tmp_path) as those:
        others = [those.read(f"{number}.txt", b"text") for number in range(20)]
        results = await asyncio.gather(*others[:10], those.read(name, b""), *others[10:], return_exceptions=True)
        lost = results.pop(10)
        assert isinstance(lost, Lost)
        assert str(lost) == f"the process that read it {how}"
        assert all(isinstance(result, Reading) for result in results)


async def test_a_file_does_not_pay_for_the_one_before(tmp_path: Path) -> None:
    async with readers(tmp_path) as those:
        assert await text(those, "poison") == "done"
        assert await text(those, "a.txt", b"next") == "next"


@LINUX
async def test_a_file_that_takes_too_much_memory_is_given_up(tmp_path: Path) -> None:
    hungry = str(600 << 20).encode()
    async with readers(tmp_path, memory=500 << 20) as those:
        with pytest.raises(Lost, match="takes more memory than 500 MiB"):
            await those.read("greedy", hungry)
        assert await text(those, "a.txt", b"next") == "next"


async def test_without_the_limit_it_has_the_memory(tmp_path: Path) -> None:
    """Control."""
    async with readers(tmp_path, memory=4 << 30) as those:
        assert await text(those, "greedy", str(600 << 20).encode()) == str(600 << 20)


@LINUX
async def test_a_reader_that_was_taken_over_can_send_no_more_than_rubbish(tmp_path: Path) -> None:
    async with readers(tmp_path) as those:
        with pytest.raises(Lost, match="lost its way"):
            await those.read("lies", b"")
        assert await text(those, "a.txt", b"next") == "next"


FORGED = {
    "twice": [[0, "a"], [0, "b"]],
    "backwards": [[1, "a"], [0, "b"]],
    "below 0": [[-1, "a"]],
    "too high": [[100_000, "a"]],
    "higher than a store can say": [[2**70, "a"]],
    "half of a UTF-16 pair": [[0, "\ud83d"]],
    "too many": [[number, "a"] for number in range(100_001)],
}


@LINUX
@pytest.mark.parametrize("passages", FORGED.values(), ids=FORGED)
async def test_passages_that_no_file_can_have_are_rubbish(tmp_path: Path, passages: list[list[object]]) -> None:
    async with readers(tmp_path) as those:
        with pytest.raises(Lost, match="lost its way"):
            await those.read("forged", json.dumps({"passages": passages}).encode())


@LINUX
async def test_of_a_forged_answer_that_fits_no_more_than_a_line_is_told(tmp_path: Path) -> None:
    """Control of the test above, and a warning that would write into the log."""
    given = {"passages": [[0, "a"], [5, "b"]], "warning": "x\n2026 ERROR forged\x1b[2J" + "y" * 1000}
    async with readers(tmp_path) as those:
        found = await those.read("forged", json.dumps(given).encode())
    assert found.passages == [(0, "a"), (5, "b")]
    assert found.warning is not None and found.warning.isprintable() and len(found.warning) < 300


def test_words_that_do_not_fit_their_passages_are_no_reading() -> None:
    passages = [(0, "a b"), (1, "b")]
    words = counted([{"a": 1, "b": 1}, {"b": 1}])
    assert is_sound(Reading("", passages, words, None))
    for wrong in (
        words._replace(places=array("I", [0, 1, 7]).tobytes()),
        words._replace(places=words.places[:-4]),
        words._replace(counts=words.counts[:-1]),
        words._replace(sizes=array("I", [2, 2]).tobytes()),
        words._replace(words=b"a\na"),
        words._replace(words=b"\xff"),
        Counted(),
    ):
        assert not is_sound(Reading("", passages, wrong, None))
    assert not is_sound(Reading("", passages[:1], words, None))


# what a reader has


async def test_a_reader_has_no_secret_of_the_environment_and_no_input(tmp_path: Path) -> None:
    async with readers(
        tmp_path, environment={"VAULT_SIDECAR_TOKEN": "canary-81", "OPENAI_API_KEY": "canary-82"}
    ) as those:
        environment = await text(those, "environment")
        assert "PYTHONPATH=" in environment
        assert "canary" not in environment
        assert await text(those, "input") == "b''"
        assert Path(await text(those, "where")) == tmp_path.resolve()


async def test_what_a_parser_prints_does_not_get_among_the_answers(tmp_path: Path) -> None:
    async with readers(tmp_path) as those:
        assert await text(those, "noisy") == "done"
        assert await text(those, "a.txt", b"next") == "next"


# its end


async def test_readers_end_with_their_owner(tmp_path: Path) -> None:
    async with readers(tmp_path) as those:
        waiting = asyncio.create_task(those.read("hang", b""))
        await text(those, "process")
        pids = those.pids
        assert len(pids) == 2
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert not any(map(is_alive, pids))


async def test_a_reader_that_ended_while_it_had_nothing_to_do_is_replaced(tmp_path: Path) -> None:
    async with readers(tmp_path) as those:
        pid = int(await text(those, "process"))
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: not is_alive(pid))
        assert await text(those, "a.txt", b"next") == "next"


async def test_a_reader_of_a_large_file_is_not_kept(tmp_path: Path) -> None:
    async with readers(tmp_path) as those:
        await those.read("a.txt", b"word\n\n" * (2 << 20))
        assert those.pids == []


PARENT = """
import asyncio, os, sys
from pathlib import Path
from sidecar.index.documents.readers import DocumentReaders, Limits
async def main():
    read, folder, seconds, name = sys.argv[1:]
    limits = Limits(seconds=float(seconds))
    async with DocumentReaders(os.environ, Path(folder), limits=limits, read=read) as those:
        task = asyncio.create_task(those.read(name, b""))
        while not those.pids: await asyncio.sleep(0.01)
        print(those.pids[0], flush=True)
        await task
asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["hang", pytest.param("spin", marks=LINUX)])
def test_a_reader_ends_when_its_parent_is_killed(tmp_path: Path, name: str) -> None:
    """Also from the middle of a file; where its parser lets no other thread run, when its time is over."""
    given = [sys.executable, "-c", PARENT, nasty.READ, str(tmp_path), "1", name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(given, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: not is_alive(pid))
