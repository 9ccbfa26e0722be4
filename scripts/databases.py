"""`scripts/bench databases`: many databases beside one, each set in a daemon of its own: memory, start, searches.

Files hold paragraphs of random words from one list, so that every database is
as hard to search as another. Searches of the two daemons take turns: read the
ratio, not the times.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, cast

from scripts.speed import Daemon, daemon
from sidecar.bridge.places import state_dir_of
from sidecar.services.database_registry import Registry
from sidecar.services.database_rules import Ground

_WORDS = [f"{letter}{number:x}" for letter in "bdfgklmnprst" for number in range(300, 600)]
_PARAGRAPHS = 5
_LENGTHS = (20, 60)  # of a paragraph, in words
_MOST_SLOWER = 1.2


def main(argv: list[str]) -> int:
    """Print the figures; exit code 1 if searches in one of many are slower than in the only one."""
    parser = argparse.ArgumentParser(prog="scripts/bench databases", description=__doc__)
    parser.add_argument("--databases", type=int, default=10)
    parser.add_argument("--files", type=int, default=1_000, help="in each database")
    parser.add_argument("--searches", type=int, default=200, help="of each mode in each daemon")
    parser.add_argument("--embedder", default="hash", help="default: hash, which takes no time; e5 takes a while")
    asked = parser.parse_args(argv)
    os.environ["VAULT_SIDECAR_INDEX_EMBEDDER"] = asked.embedder
    counts = (1, asked.databases)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        scratch = Path(folder)
        for count in counts:
            _make(scratch, count, asked.files)
            with daemon(_vault(scratch, count), _state(scratch, count), rag=True) as first:
                began = time.perf_counter()
                passages = _wait(first)
                took_s = time.perf_counter() - began
                print(f"{count} x {asked.files:,} files, {passages:,} passages: all indexed after {took_s:.0f} s,")
                print(f"  memory {first.memory_mb():.0f} MB, vector workers {len(_workers(first.process.pid))}")
        again = {
            count: stack.enter_context(daemon(_vault(scratch, count), _state(scratch, count), rag=True))
            for count in counts
        }
        for count, running in again.items():
            _wait(running)
            print(f"{count}: started again, listens after {running.ready_s:.1f} s, memory {running.memory_mb():.0f} MB")
        ratios = {mode: _ratio(list(again.values()), mode, asked.searches) for mode in ("keyword", "semantic")}
        for count, running in again.items():
            print(f"{count}: memory after the searches {running.memory_mb():.0f} MB")
    return int(max(ratios.values()) > _MOST_SLOWER)


def _vault(scratch: Path, count: int) -> Path:
    return scratch / f"vault-{count}"


def _state(scratch: Path, count: int) -> Path:
    return scratch / f"state-{count}"


def _make(scratch: Path, count: int, files: int) -> None:
    """A vault of one note, and so many registered folders."""
    vault, state = _vault(scratch, count), state_dir_of(_vault(scratch, count), _state(scratch, count))
    vault.mkdir()
    state.mkdir(parents=True, mode=0o700)
    (vault / "Note.md").write_text("# A note\n")
    dice = random.Random(count)
    for number in range(count):
        folder = scratch / f"docs-{count}-{number}"
        folder.mkdir()
        for file in range(files):
            texts = [" ".join(dice.choices(_WORDS, k=dice.randint(*_LENGTHS))) for _ in range(_PARAGRAPHS)]
            (folder / f"{file}.txt").write_text("\n\n".join(texts))
        Registry(state).add(f"db{number}", str(folder), Ground(state, vault, Path.home()))


def _wait(running: Daemon) -> int:
    """Wait until every database is found by words and by meaning; how many passages there are."""
    while True:
        states = cast("list[dict[str, Any]]", running.admin("databases")["databases"])
        if all(state["loaded"] and state["settled"] and state["vectors"] == "ready" for state in states):
            chunks = [state["chunks"] for state in states]
            if all(each["vector"] == each["total"] for each in chunks):
                return sum(each["total"] for each in chunks)
        time.sleep(0.5)


def _workers(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children = [int(child) for child in task.read_text().split()]
        found += [child for child in children if b"sidecar.index.worker" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return found


def _ratio(daemons: list[Daemon], mode: str, searches: int) -> float:
    """How many times as long a search takes in the last daemon as in the first; they take turns."""
    dice = random.Random(7)
    taken: list[list[float]] = [[] for _ in daemons]
    for _ in range(searches):
        query = " ".join(dice.choices(_WORDS, k=3))
        for running, times in zip(daemons, taken, strict=True):
            began = time.perf_counter()
            answer = running.call("search_rag", db="db0", q=query, mode=mode)
            times.append((time.perf_counter() - began) * 1e3)
            if "error" in answer or cast("dict[str, Any]", answer["result"]).get("isError"):
                raise SystemExit(f"a search failed: {answer}")
    one, many = (median(times) for times in taken)
    print(f"{mode}: median {one:.1f} ms in the only one, {many:.1f} ms in one of many, ratio {many / one:.2f}")
    return many / one
