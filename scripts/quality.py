"""How good the keyword ranking is: nDCG@10 on sets with judged answers, through the product's own parts.

Each document becomes a note that is cut, tokenized and indexed as a vault's notes are; a query goes the way of a
search down to ranked notes. A set below its gate fails the run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tarfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sidecar.index.chunks import chunks_of
from sidecar.index.keywords import KeywordIndex
from sidecar.index.ranking import best_per_note
from sidecar.index.tokens import LANGUAGE_MARKS, Tokenizer

CORPORA = Path(os.environ.get("VAULT_SIDECAR_CORPORA", Path(__file__).parents[2] / "shared" / "corpora"))

# nDCG@10 of keywords alone that each set must reach, and the archive it is in.
GATES = {
    "scifact": ("scifact", 0.68),
    "limit-small": ("limit-small", 0.98),
    "xquad-en": ("xquad", 0.96),
    "xquad-de": ("xquad", 0.94),
    "xquad-ru": ("xquad", 0.94),
    "xquad-zh": ("xquad", 0.95),
    "xquad-ar": ("xquad", 0.93),
    "xquad-hi": ("xquad", 0.94),
    "xquad-th": ("xquad", 0.93),
}
_CUT = 10  # the 10 of nDCG@10
_DEPTH = 100  # chunks a search looks at


@dataclass(frozen=True, slots=True)
class Judged:
    """Documents as (id, title, text), queries as (id, text), and for each query how relevant which documents are."""

    documents: Sequence[tuple[str, str, str]]
    queries: Sequence[tuple[str, str]]
    relevant: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table; `ndcg` and `gate` in [0, 1]."""

    set: str
    notes: int
    chunks: int
    queries: int
    ndcg: float
    gate: float
    seconds: float

    @property
    def ok(self) -> bool:
        return self.ndcg >= self.gate


def read_set(name: str, corpora: Path = CORPORA) -> Judged:
    """A set of `corpora/retrieval`, straight from its archive."""
    with tarfile.open(corpora / "retrieval" / f"{GATES[name][0]}.tar.gz") as archive:

        def lines(file: str) -> list[str]:
            stream = archive.extractfile(f"{name}/{file}")
            assert stream is not None
            return stream.read().decode("utf-8").splitlines()

        documents = [json.loads(line) for line in lines("corpus.jsonl")]
        queries = [json.loads(line) for line in lines("queries.jsonl")]
        relevant: dict[str, dict[str, int]] = {}
        for line in lines("qrels.tsv")[1:]:
            query, document, score = line.split("\t")
            relevant.setdefault(query, {})[document] = int(score)
    return Judged(
        [(d["id"], d["title"], d["text"]) for d in documents],
        [(q["id"], q["text"]) for q in queries if q["id"] in relevant],
        relevant,
    )


def ndcg(ranked: Iterable[str], relevant: dict[str, int]) -> float:
    """Normalised discounted cumulative gain of the first ten."""
    gain = sum(relevant.get(one, 0) / math.log2(place + 2) for place, one in enumerate(list(ranked)[:_CUT]))
    best = sorted(relevant.values(), reverse=True)[:_CUT]
    return gain / sum(score / math.log2(place + 2) for place, score in enumerate(best))


def measure(name: str, corpora: Path = CORPORA) -> Result:
    """Index one set and ask all its queries."""
    begin = time.perf_counter()
    judged = read_set(name, corpora)
    tokenizer, index = Tokenizer(), KeywordIndex()
    owners: list[str] = []
    for document, title, text in judged.documents:
        chunks = chunks_of(title, text)
        language = tokenizer.language(text)
        first = len(owners)
        index.replace((), [(first + c.ordinal, tokenizer.counts(c.words, language)) for c in chunks])
        owners += [document] * len(chunks)
    spoken = index.frequencies(LANGUAGE_MARKS)
    total = 0.0
    for query, text in judged.queries:
        hits = index.search(tokenizer.query(text, spoken), _DEPTH)
        notes = best_per_note((owners[chunk], score, chunk) for chunk, score in hits)
        total += ndcg((note for note, _, _ in notes), judged.relevant[query])
    return Result(
        set=name,
        notes=len(judged.documents),
        chunks=len(owners),
        queries=len(judged.queries),
        ndcg=total / len(judged.queries),
        gate=GATES[name][1],
        seconds=time.perf_counter() - begin,
    )


def run(json_path: Path | None = None) -> bool:
    """Measure all sets, print the table, and say whether every gate holds."""
    print(f"{'set':<12} {'notes':>6} {'chunks':>6} {'queries':>7} {'nDCG@10':>8} {'gate':>5}  ok")
    results: list[Result] = []
    for name in GATES:
        result = measure(name)
        results.append(result)
        print(
            f"{result.set:<12} {result.notes:>6} {result.chunks:>6} {result.queries:>7} {result.ndcg:>8.4f} "
            f"{result.gate:>5.2f}  {'yes' if result.ok else 'NO'}",
            flush=True,
        )
    missed = [result.set for result in results if not result.ok]
    if json_path is not None:
        rows = [asdict(result) | {"ok": result.ok} for result in results]
        json_path.write_text(json.dumps({"ok": not missed, "keywords": rows}, indent=2) + "\n", encoding="utf-8")
    mean = sum(result.ndcg for result in results) / len(results)
    print(
        f"quality: mean nDCG@10 {mean:.4f}, " + (f"below the gate: {', '.join(missed)}" if missed else "all gates hold")
    )
    return not missed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench quality", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table to FILE as well")
    return 0 if run(parser.parse_args(arguments).json) else 1
