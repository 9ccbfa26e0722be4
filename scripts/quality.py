"""How good the ranking is: nDCG@10 on sets with judged answers, by keywords, by meaning and by both together, through
the product's own parts.

Each document becomes a note that is cut, tokenized, embedded and indexed as a vault's notes are; a query goes the way
of a search down to ranked notes, only that vectors are compared exactly. A set below its gate fails the run.

The first run embeds about 13,000 chunks, which takes minutes; their vectors are kept in `build/quality`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tarfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from scripts.kept_vectors import KeptVectors
from sidecar.errors import SidecarError
from sidecar.index.chunks import chunks_of
from sidecar.index.embed.choose import choose
from sidecar.index.embed.facts import FACTS, EmbedderFacts, Name
from sidecar.index.fuse import Method, fuse
from sidecar.index.keywords import KeywordIndex
from sidecar.index.ranking import best_per_note
from sidecar.index.tokens import LANGUAGE_MARKS, Tokenizer
from sidecar.index.trust import trusted

ROOT = Path(__file__).parents[1]
CORPORA = Path(os.environ.get("VAULT_SIDECAR_CORPORA", ROOT.parent / "shared" / "corpora"))
KEPT = ROOT / "build" / "quality"

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
# The same for both together with e5; those of the other embedder are relative only.
HYBRID_GATES = {
    "scifact": 0.72,
    "limit-small": 0.97,
    "xquad-en": 0.97,
    "xquad-de": 0.955,
    "xquad-ru": 0.94,
    "xquad-zh": 0.965,
    "xquad-ar": 0.945,
    "xquad-hi": 0.94,
    "xquad-th": 0.955,
}
WORSE_THAN_BETTER = 0.01  # how far both together may lie below the better of the two
UNKNOWN = {"use": ("xquad-hi",)}  # sets in languages that an embedder doesn't know: nothing is asked of it there
EMBEDDERS: tuple[Name, ...] = ("e5", "use")
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
    """One line of the table of keywords; `ndcg` and `gate` in [0, 1]."""

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


@dataclass(frozen=True, slots=True)
class Meaning:
    """One line of the table of an embedder. `gate` is what `hybrid` must reach: of the set, and beside the others."""

    embedder: str
    set: str
    keyword: float
    vector: float
    hybrid: float
    gate: float
    seconds: float

    @property
    def ok(self) -> bool:
        return self.hybrid >= self.gate


@dataclass(frozen=True, slots=True)
class Ranked:
    """A chunk is a number from 0 up. `owners` are the chunks' documents, `texts` what is embedded of them, `by_words`
    the keyword ranking of each query, and `coverage` the share of its content words that the best of these holds."""

    judged: Judged
    owners: Sequence[str]
    texts: Sequence[str]
    by_words: Sequence[list[tuple[int, float]]]
    coverage: Sequence[float]

    def score(self, rankings: Iterable[list[tuple[int, float]]]) -> float:
        """nDCG@10 of a ranking of chunks for each query."""
        total = 0.0
        for (query, _), ranking in zip(self.judged.queries, rankings, strict=True):
            notes = best_per_note((self.owners[chunk], score, chunk) for chunk, score in ranking)
            total += ndcg((note for note, _, _ in notes), self.judged.relevant[query])
        return total / len(self.judged.queries)


def read_set(name: str, corpora: Path | None = None) -> Judged:
    """A set of `corpora/retrieval`, straight from its archive."""
    with tarfile.open((corpora or CORPORA) / "retrieval" / f"{GATES[name][0]}.tar.gz") as archive:

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


def rank(name: str, corpora: Path | None = None) -> Ranked:
    """Cut and index one set, and ask all its queries by keywords."""
    judged = read_set(name, corpora)
    tokenizer, index = Tokenizer(), KeywordIndex()
    owners: list[str] = []
    texts: list[str] = []
    counts: list[dict[str, int]] = []
    for document, title, text in judged.documents:
        chunks = chunks_of(title, text)
        language = tokenizer.language(text)
        first = len(owners)
        counts += [tokenizer.counts(c.words, language) for c in chunks]
        index.replace((), list(enumerate(counts[first:], first)))
        owners += [document] * len(chunks)
        texts += [c.full for c in chunks]
    spoken = index.frequencies(LANGUAGE_MARKS)
    by_words = [index.search(tokenizer.query(text, spoken), _DEPTH) for _, text in judged.queries]
    coverage = [
        tokenizer.coverage(text, spoken, counts[found[0][0]]) if found else 0.0
        for (_, text), found in zip(judged.queries, by_words, strict=True)
    ]
    return Ranked(judged, owners, texts, by_words, coverage)


def measure(name: str, corpora: Path | None = None) -> Result:
    """One set by keywords."""
    begin = time.perf_counter()
    return keywords_of(name, rank(name, corpora), begin)


def keywords_of(name: str, ranked: Ranked, begin: float) -> Result:
    """The line of a set that is ranked already."""
    return Result(
        set=name,
        notes=len(ranked.judged.documents),
        chunks=len(ranked.owners),
        queries=len(ranked.judged.queries),
        ndcg=ranked.score(ranked.by_words),
        gate=GATES[name][1],
        seconds=time.perf_counter() - begin,
    )


def by_meaning(ranked: Ranked, vectors: KeptVectors) -> list[list[tuple[int, float]]]:
    """The nearest chunks of each query with their cosines, best first."""
    passages = vectors.passages(ranked.texts)
    queries = vectors.queries([text for _, text in ranked.judged.queries])
    found: list[list[tuple[int, float]]] = []
    for query in queries:
        cosines = passages @ query
        nearest = np.argsort(-cosines, kind="stable")[:_DEPTH]
        found.append([(int(chunk), float(cosines[chunk])) for chunk in nearest])
    return found


def measure_meaning(
    name: str, ranked: Ranked, vectors: KeptVectors, facts: EmbedderFacts, method: Method = "weighted"
) -> Meaning:
    """One set by meaning and by both."""
    begin = time.perf_counter()
    nearest = by_meaning(ranked, vectors)
    texts = [text for _, text in ranked.judged.queries]
    both = [
        fuse(words, meaning, trusted(facts.weight_for(text), coverage), method, floor=facts.relevance_floor)
        for text, words, coverage, meaning in zip(texts, ranked.by_words, ranked.coverage, nearest, strict=True)
    ]
    keyword, vector = ranked.score(ranked.by_words), ranked.score(nearest)
    gate = 0.0
    if name not in UNKNOWN.get(facts.name, ()):
        gate = max(keyword, vector) - WORSE_THAN_BETTER
        gate = max(gate, HYBRID_GATES[name]) if facts.name == "e5" else gate
    seconds = time.perf_counter() - begin
    return Meaning(facts.name, name, keyword, vector, ranked.score(both), gate, seconds)


def load(embedder: Name) -> KeptVectors | None:
    """The embedder, if its weights are here."""
    try:
        found = choose(embedder, ROOT / "build" / "models", lambda line: print(line, file=sys.stderr))
        return KeptVectors(found, KEPT)
    except SidecarError as error:
        print(f"quality: {embedder} was not measured: {error}", file=sys.stderr)
        return None


def run(
    json_path: Path | None = None,
    embedders: Sequence[Name] = EMBEDDERS,
    sets: Sequence[str] = tuple(GATES),
    method: Method = "weighted",
    corpora: Path | None = None,
) -> bool:
    """Measure the sets, print the tables, and say whether every gate holds. What can't be measured does not hold."""
    loaded = {name: load(name) for name in embedders}
    ranks: dict[str, Ranked] = {}
    results: list[Result] = []
    print(f"{'set':<12} {'notes':>6} {'chunks':>6} {'queries':>7} {'keyword':>8} {'gate':>5}  ok")
    for name in sets:
        begin = time.perf_counter()
        ranks[name] = rank(name, corpora)
        result = keywords_of(name, ranks[name], begin)
        results.append(result)
        print(
            f"{result.set:<12} {result.notes:>6} {result.chunks:>6} {result.queries:>7} {result.ndcg:>8.4f} "
            f"{result.gate:>5.2f}  {'yes' if result.ok else 'NO'}",
            flush=True,
        )
    meanings: list[Meaning] = []
    for embedder, vectors in loaded.items():
        if vectors is None or embedder == "auto":
            continue
        facts = FACTS[embedder]
        print(f"\n{vectors.embedder.id}, {method}, keyword weight {facts.keyword_weight}")
        print(f"{'set':<12} {'keyword':>8} {'vector':>8} {'hybrid':>8} {'gate':>7}  ok")
        for name in sets:
            found = measure_meaning(name, ranks[name], vectors, facts, method)
            meanings.append(found)
            print(
                f"{found.set:<12} {found.keyword:>8.4f} {found.vector:>8.4f} {found.hybrid:>8.4f} {found.gate:>7.4f}  "
                f"{'yes' if found.ok else 'NO'}",
                flush=True,
            )
    return _verdict(json_path, results, meanings, [name for name, vectors in loaded.items() if vectors is None])


def _verdict(json_path: Path | None, results: list[Result], meanings: list[Meaning], absent: list[Name]) -> bool:
    missed = [f"{result.set} by keywords" for result in results if not result.ok]
    missed += [f"{found.set} with {found.embedder}" for found in meanings if not found.ok]
    ok = not missed and not absent
    if json_path is not None:
        rows = [asdict(result) | {"ok": result.ok} for result in results]
        both = [asdict(found) | {"ok": found.ok} for found in meanings]
        facts = {"ok": ok, "keywords": rows, "embedders": both, "not_measured": absent}
        json_path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    parts = [f"mean by keywords {sum(result.ndcg for result in results) / len(results):.4f}"]
    for embedder in dict.fromkeys(found.embedder for found in meanings):
        of_it = [found for found in meanings if found.embedder == embedder]
        parts.append(f"vector with {embedder} {sum(found.vector for found in of_it) / len(of_it):.4f}")
        parts.append(f"hybrid with {embedder} {sum(found.hybrid for found in of_it) / len(of_it):.4f}")
    print(f"\nquality: {', '.join(parts)}")
    if absent:
        print(f"quality: not measured, because the model is not here: {', '.join(absent)}")
    print(f"quality: below the gate: {', '.join(missed)}" if missed else "quality: all gates that were measured hold")
    return ok


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench quality", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables to FILE as well")
    parser.add_argument(
        "--embedder",
        choices=[*EMBEDDERS, "hash", "none"],
        action="append",
        help="measure this one only; may be given more than once (default: e5 and use); none: keywords alone",
    )
    parser.add_argument("--set", choices=list(GATES), action="append", help="measure this set only; may be repeated")
    parser.add_argument("--method", choices=["weighted", "rrf"], default="weighted", help="how the two are fused")
    asked = parser.parse_args(arguments)
    embedders = [name for name in asked.embedder or EMBEDDERS if name != "none"]
    return 0 if run(asked.json, embedders, asked.set or tuple(GATES), asked.method) else 1
