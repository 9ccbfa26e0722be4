"""`scripts/bench knowledge`: how well, and how quickly, the registry of skills and knowledge units is searched.

Quality with the real embedder, on made-up units of twenty domains and
questions that share no content word with what they ask for. Time over
authenticated HTTP against a daemon with many units, and what a contribution
costs besides its vector, in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scripts.speed import daemon, percentile
from sidecar.bridge.places import state_dir_of
from sidecar.bridge.token import Caller
from sidecar.index.careful import Careful
from sidecar.index.embed.base import Embedder
from sidecar.index.embed.choose import choose
from sidecar.index.tokens import Tokenizer
from sidecar.index.wire import EmbedderOptions, Float16, Float32
from sidecar.services.knowledge.opening import open_knowledge
from sidecar.services.knowledge.scrub import Scrubber
from sidecar.services.knowledge.service import Knowledge
from sidecar.services.knowledge.unit_schema import TYPES

REPOSITORY = Path(__file__).resolve().parent.parent
UNITS = Path(__file__).with_name("knowledge_units.txt")
CALLER = Caller("bench", "local", local=False)
_TELL_AFTER = 1_000
_UNTIL_LOADED_S = 2.0  # the registry takes its vectors up soon after the worker is ready
_WARM_UP = 20
_AT_ONCE = 16  # so that both lanes of the embedder have work
BUDGETS = {"recall@5": 0.9, "search p50, ms": 12.0}


@dataclass(frozen=True, slots=True)
class Case:
    """A unit, and a question that it answers, if there is one."""

    domain: str
    title: str
    learned: str
    question: str | None
    is_held_out: bool = False
    """The question was written before anything was searched for."""


def cases() -> list[Case]:
    """All of `knowledge_units.txt`."""
    found: list[Case] = []
    domain = ""
    for line in UNITS.read_text("utf-8").splitlines():
        if line.startswith("["):
            domain = line.strip("[]")
        elif line.startswith("?"):
            found[-1] = replace(found[-1], question=line.lstrip("?").strip(), is_held_out=line.startswith("??"))
        elif line and not line.startswith("#"):
            title, _, learned = line.partition(": ")
            found.append(Case(domain, title, learned, None))
    return found


def shared_words(case: Case) -> set[str]:
    """Content words that a question has in common with its unit."""
    tokenizer = Tokenizer()
    asked = tokenizer.content(case.question or "", {})
    return {word for word in asked if word in tokenizer.counts(f"{case.title}\n{case.learned}", "english")}


def unit_of(domain: str, title: str, learned: str, kind: str) -> dict[str, Any]:
    """A good unit of a kind."""
    metadata = {"task_domain": domain, "success": True}
    if kind == "ReasoningTrace":
        steps = [
            {"step_id": 1, "type": "thought", "content": learned},
            {"step_id": 2, "type": "tool_call", "tool": {"name": "search"}},
            {"step_id": 3, "type": "observation"},
            {"step_id": 4, "type": "error_recovery", "tool": {"name": "retry"}},
        ]
        outcome = {"result_summary": learned, "confidence": 0.9}
        return {"@type": kind, "metadata": metadata, "task": {"objective": title}, "steps": steps, "outcome": outcome}
    if kind == "ToolCallPattern":
        sequence = [
            {"step": 1, "execution": "parallel", "tools": [{"name": "search"}, {"name": "read"}]},
            {"step": 2, "execution": "sequential", "tools": [{"name": "check"}], "condition": "found"},
        ]
        return {
            "@type": kind,
            "metadata": metadata,
            "name": title,
            "description": learned,
            "trigger_conditions": {"task_types": [domain]},
            "tool_sequence": sequence,
            "performance": {"avg_ms": 1, "success_rate": 0.95, "uses": 50},
        }
    nodes = [{"step": n, "instruction": text, "criteria": "done"} for n, text in enumerate(learned.split("; "), 1)]
    return {
        "@type": kind,
        "metadata": metadata,
        "name": title,
        "domain": domain,
        "source": {"type": "human_expert", "expert_id": "bench", "credentials": ["ten years", "exam"]},
        "decision_tree": nodes,
        "validation": {"test_cases": [{"input": n, "expected_output": n} for n in range(3)]},
    }


class InProcess:
    """The embedder without its worker process."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.careful = Careful()
        self.embedder_id: str | None = embedder.id
        self.state = "ready"
        self.spent_s = 0.0

    def release(self) -> None:
        """There is nothing to start."""

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> Float16:
        """As the worker; the time it takes is counted."""
        begin = time.perf_counter()
        vectors = await asyncio.to_thread(self._embedder.passages, texts)
        self.spent_s += time.perf_counter() - begin
        return vectors.astype(np.float16)

    async def embed_query(self, text: str) -> Float32:
        """As the worker."""
        return await asyncio.to_thread(self._embedder.query, text)


@asynccontextmanager
async def registry(folder: Path, embedder: InProcess | None):
    """An open registry."""
    async with open_knowledge(folder, embedder, Scrubber()) as knowledge:
        yield knowledge


async def fill(knowledge: Knowledge, units: Sequence[Case], at_once: int = 1) -> dict[str, str]:
    """Contribute them, the kinds in turn and so many at once; id to title."""
    titles: dict[str, str] = {}

    async def contribute(number: int, case: Case) -> None:
        unit = unit_of(case.domain, case.title, case.learned, TYPES[number % len(TYPES)])
        unit_id, _ = await knowledge.contribute_unit(unit, "network", CALLER)
        titles[unit_id] = case.title
        if not len(titles) % _TELL_AFTER:
            print(f"{len(titles):,} of {len(units):,} units", file=sys.stderr)

    for start in range(0, len(units), at_once):
        part = enumerate(units[start : start + at_once], start)
        await asyncio.gather(*(contribute(number, case) for number, case in part))
    return titles


async def quality(embedder: InProcess) -> None:
    """Recall of questions in other words, with defaults and without a least quality."""
    everything = cases()
    random.Random(8).shuffle(everything)
    asked = [case for case in everything if case.question]
    copied = {case.title: shared for case in asked if (shared := shared_words(case))}
    print(f"{len(everything)} units, {len(asked)} questions; with a word in common: {copied or 'none'}")
    with tempfile.TemporaryDirectory() as folder:
        async with registry(Path(folder), embedder) as knowledge:
            titles = await fill(knowledge, everything)
            scores = [item["quality"] for item in (await knowledge.listed())["items"]]
            good = sum(score >= 0.75 for score in scores) / len(scores)
            print(f"scores: least {min(scores)}, median {statistics.median(scores)}; {good:.0%} found by default")
            for group, is_held_out in (("known questions", False), ("held-out questions", True)):
                those = [case for case in asked if case.is_held_out is is_held_out]
                for least in (0.0, 0.75):
                    await recall(knowledge, group, those, titles, least)


async def recall(knowledge: Knowledge, group: str, asked: Sequence[Case], titles: dict[str, str], least: float) -> None:
    """Print in how many of the first five answers the right unit is, and which questions miss it."""
    found = 0
    for case in asked:
        hits = await knowledge.search_units(case.question or "", TYPES, None, least, 5, None, CALLER)
        here = case.title in [titles[hit.item.id] for hit in hits]
        found += here
        if not here and not least:
            print(f"  missed: {case.question} -> {[titles[hit.item.id] for hit in hits][:3]}")
    figure = found / len(asked)
    verdict = "ok" if figure >= BUDGETS["recall@5"] else f"MISSED (to reach: {BUDGETS['recall@5']})"
    print(f"recall@5 of {len(asked)} {group} with min_quality {least}: {figure:.2f} {'' if least else verdict}")


def words() -> list[str]:
    """Those of the units' texts, for texts that are made up."""
    return sorted({word for case in cases() for word in re.findall("[a-z]{4,}", case.learned)})


def many(count: int) -> list[Case]:
    """Made-up units, all different."""
    chance, known = random.Random(2), words()
    found: list[Case] = []
    for number in range(count):
        said = [chance.choice(known) for _ in range(60)]
        found.append(Case(chance.choice(known), f"Task {number} {' '.join(said[:6])}", " ".join(said), None))
    return found


async def grown(folder: Path, embedder: InProcess, count: int) -> float:
    """A registry of so many units in `folder`; milliseconds for one contribution besides its vector, at the end."""
    units = many(count)
    async with registry(folder, embedder) as knowledge:
        await fill(knowledge, units[:-200], _AT_ONCE)
        before, begin = embedder.spent_s, time.perf_counter()
        await fill(knowledge, units[-200:])
        return (time.perf_counter() - begin - (embedder.spent_s - before)) / 200 * 1e3


def speed(embedder: Embedder, name: str, count: int, queries: int) -> None:
    """Contribution and search with `count` units. `name` is that of the embedder in the settings."""
    with tempfile.TemporaryDirectory() as scratch:
        vault, state = Path(scratch) / "vault", Path(scratch) / "state"
        vault.mkdir()
        (vault / "Note.md").write_text("A note.\n")
        folder = state_dir_of(vault, state)
        folder.mkdir(parents=True, mode=0o700)
        begin = time.perf_counter()
        cost = asyncio.run(grown(folder, InProcess(embedder), count))
        print(f"filled with {count:,} units in {time.perf_counter() - begin:.0f} s, {_AT_ONCE} at once")
        print(f"contribution besides its vector, with {count:,} units: {cost:.1f} ms")
        with daemon(vault, state, rag=True, embedder=name) as running:
            while running.admin("status")["vectors"] != "ready":
                time.sleep(0.2)
            time.sleep(_UNTIL_LOADED_S)
            chance, known = random.Random(3), words()
            answer: dict[str, object] = {}
            for min_quality, mode in ((0.0, "hybrid"), (0.75, "hybrid, default quality")):
                times: list[float] = []
                for turn in range(queries + _WARM_UP):
                    query = f"{chance.choice(known)} {chance.choice(known)}"
                    begin = time.perf_counter()
                    answer = running.call("kp_search_knowledge", query=query, min_quality=min_quality)
                    if turn >= _WARM_UP:
                        times.append((time.perf_counter() - begin) * 1e3)
                p50, p99 = statistics.median(times), percentile(times, 0.99)
                print(f"search, {mode}: p50 {p50:.1f} ms (budget {BUDGETS['search p50, ms']}), p99 {p99:.1f} ms")
            print(json.dumps(answer)[:120])


def main(argv: list[str]) -> int:
    """Quality, then speed."""
    parser = argparse.ArgumentParser(prog="scripts/bench knowledge", description=__doc__)
    parser.add_argument("--items", type=int, default=10_000, help="units in the registry (default 10,000)")
    parser.add_argument("--queries", type=int, default=200, help="searches that are timed (default 200)")
    parser.add_argument("--models", type=Path, help="folder with embedding models (default: a fresh one)")
    parser.add_argument("--embedder", default="auto", help="as the setting index.embedder (default auto)")
    parser.add_argument("--only", choices=["quality", "speed"], help="one part")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        models = options.models or Path(scratch)
        embedder = choose(options.embedder, models, lambda text: print(text, file=sys.stderr), EmbedderOptions())
        try:
            if options.only != "speed":
                asyncio.run(quality(InProcess(embedder)))
            if options.only != "quality":
                speed(embedder, options.embedder, options.items, options.queries)
        finally:
            embedder.close()
    return 0
