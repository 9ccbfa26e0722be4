"""Ranks documents by the words they share with a query: BM25, kept up to date note by note.

The formula and its constants are rank-bm25's; what the library lacks is here:
adding and removing without a rebuild, and queries that touch the matching
postings only. Scores are exact at every moment: document frequencies and the
mean length are those of the documents present, never stale.

Not safe to use from two threads at once: the caller locks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from rank_bm25 import BM25Okapi  # pyright: ignore[reportMissingTypeStubs]  # the library has none

from sidecar.index.counted import Counted, Numbering, counted
from sidecar.index.postings import Int64, Segment, UInt16, UInt32, build, empty, merge
from sidecar.index.scoring import Floats, best, gains

Idf = Literal["plus", "okapi"]

# Measured with scripts/bench quality: K1 0.9 to 1.5 and B 0.5 to 0.9 differ by .001 in the mean of nine sets.
K1 = 1.2
B = 0.75
EPSILON = 0.25  # rank-bm25's share of the mean idf for words in more than half of the documents; used by "okapi" only

_LARGEST_DEAD_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes that change how fast an index is, never what it answers."""

    waiting: int = 4096  # documents that are added before they are sorted in; a query does it at once
    small: int = 20_000  # postings of a segment below which it is always merged, so that a query meets few segments
    ratio: int = 4  # a segment at least this many times its successor is left alone
    long: int = 4096  # postings of a word from which it pays to ask whether all of them are needed


@dataclass(slots=True)
class Contents:
    """An index as arrays, for a snapshot: `vocabulary[i]` is the word with number i, `postings` has nothing removed."""

    vocabulary: list[str]
    postings: Segment


@dataclass(frozen=True, slots=True)
class _Added:
    """Documents that wait to be sorted in; see `build`."""

    ids: Int64
    sizes: Int64
    lengths: Int64
    terms: UInt32
    counts: UInt16


class KeywordIndex(BM25Okapi):
    """BM25 over documents that come and go.

    A document is a number of the caller's and a count for each of its words.
    `corpus_size` and `avgdl` are exact after every change.

    `idf="plus"` is log(1 + (N - df + 0.5) / (df + 0.5)): always positive, so that a vault of one note is
    searchable. `idf="okapi"` is the library's, epsilon rule included; it reads the whole vocabulary after every
    change and is there to be compared with the library.
    """

    def __init__(
        self, *, k1: float = K1, b: float = B, epsilon: float = EPSILON, idf: Idf = "plus", limits: Limits | None = None
    ) -> None:
        # The library's constructor is not called: it wants the corpus at once and divides by its length.
        self.k1 = k1
        self.b = b
        self.epsilon = epsilon
        self.corpus_size = 0
        self.avgdl = 0.0
        self._idf: Idf = idf
        self._limits = limits or Limits()
        self._words = Numbering()
        self._total_length = 0
        self._highest_id = -1
        self._segments: list[Segment] = []
        self._norms: dict[int, tuple[float, Floats]] = {}  # by place in `_segments`, with the mean length they are for
        self._sums: Floats = np.zeros(0)
        self._okapi: Floats | None = None
        self._forget_waiting()

    @classmethod
    def from_contents(
        cls, contents: Contents, *, k1: float = K1, b: float = B, idf: Idf = "plus", limits: Limits | None = None
    ) -> KeywordIndex:
        """The index that gave these `contents`; its settings are not among them."""
        index = cls(k1=k1, b=b, idf=idf, limits=limits)
        index._words = Numbering(zip(contents.vocabulary, range(len(contents.vocabulary)), strict=True))
        postings = contents.postings
        index._use([postings] if postings.ids.size else [])
        index._highest_id = int(postings.ids.max()) if postings.ids.size else -1
        index._count(int(postings.ids.size), int(postings.lengths.sum(dtype=np.int64)))
        return index

    # --- changing ---

    def replace(self, remove: Iterable[int], add: Iterable[tuple[int, Mapping[str, int]]]) -> None:
        """Remove documents, then add others, in time proportional to both.

        Unknown ids in `remove` are ignored. An id that is added again replaces its old content, so a batch
        applied twice equals the batch applied once.
        """
        documents = list(add)
        self.replace_counted(remove, [doc_id for doc_id, _ in documents], counted(counts for _, counts in documents))

    def replace_counted(self, remove: Iterable[int], ids: Sequence[int], words: Counted) -> None:
        """The same for documents that are counted together; `ids` are theirs, in order."""
        last = {doc_id: place for place, doc_id in enumerate(ids)}
        if len(last) < len(ids):  # an id that comes twice: its last content counts
            ids, words = list(last), words.only(list(last.values()))
        self._remove([*remove, *(doc_id for doc_id in ids if doc_id <= self._highest_id)])
        if not ids:
            return
        numbers = np.fromiter(map(self._words.__getitem__, words.vocabulary), np.uint32)
        counts = np.frombuffer(words.counts, np.uint16)
        sizes = np.frombuffer(words.sizes, np.uint32).astype(np.int64)
        sums = np.append(0, np.cumsum(counts, dtype=np.int64))
        ends = np.cumsum(sizes)
        lengths = sums[ends] - sums[ends - sizes]
        self._highest_id = max(self._highest_id, *ids)
        self._waiting.append(
            _Added(np.array(ids, np.int64), sizes, lengths, numbers[np.frombuffer(words.places, np.uint32)], counts)
        )
        self._waiting_ids.update(ids)
        self._count(len(ids), int(sums[-1]))
        if len(self._waiting_ids) >= self._limits.waiting:
            self._sort_waiting()

    def _remove(self, ids: Iterable[int]) -> None:
        wanted = np.fromiter(ids, np.int64)
        if not wanted.size:
            return
        wanted = np.unique(wanted)
        if not self._waiting_ids.isdisjoint(wanted.tolist()):
            self._sort_waiting()
        for segment in self._segments:
            places = segment.places(wanted)
            if places.size:
                segment.remove(places)
                self._count(-int(places.size), -int(segment.lengths[places].sum(dtype=np.int64)))
        crowded = [segment.dead > _LARGEST_DEAD_SHARE * segment.ids.size for segment in self._segments]
        if any(crowded):
            smaller = [merge([s]) if full else s for s, full in zip(self._segments, crowded, strict=True)]
            self._use([segment for segment in smaller if segment.ids.size])

    def _count(self, documents: int, length: int) -> None:
        self.corpus_size += documents
        self._total_length += length
        self.avgdl = self._total_length / self.corpus_size if self.corpus_size else 0.0
        self._okapi = None

    def _use(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._norms.clear()

    def _forget_waiting(self) -> None:
        self._waiting: list[_Added] = []
        self._waiting_ids: set[int] = set()

    def _sort_waiting(self) -> None:
        """Make the documents added since the last query searchable, and keep the number of segments low."""
        if not self._waiting:
            return
        added = build(
            np.concatenate([added.ids for added in self._waiting]),
            np.concatenate([added.lengths for added in self._waiting]).astype(np.uint32),
            np.concatenate([added.sizes for added in self._waiting]),
            np.concatenate([added.terms for added in self._waiting]),
            np.concatenate([added.counts for added in self._waiting]),
        )
        self._forget_waiting()
        segments = [*self._segments, added]
        first = len(segments) - 1
        size = added.size
        enough = max(self._limits.ratio * size, self._limits.small)
        while first > 0 and segments[first - 1].size < enough:
            first -= 1
            size += segments[first].size
            enough = max(self._limits.ratio * size, self._limits.small)
        if first < len(segments) - 1:
            segments[first:] = [merge(segments[first:])]
        self._use(segments)

    # --- asking ---

    def ids(self) -> Int64:
        """The ids of all documents, ascending."""
        self._sort_waiting()
        parts = [segment.ids[segment.alive] for segment in self._segments]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def frequencies(self, words: Sequence[str]) -> dict[str, int]:
        """In how many documents each of these words occurs."""
        self._sort_waiting()
        numbers = np.array([self._words.get(word, 0xFFFFFFFF) for word in words], np.uint32)
        return dict(zip(words, self._frequencies(numbers).tolist(), strict=True))

    def search(self, query: Mapping[str, float], k: int, allowed: Int64 | None = None) -> list[tuple[int, float]]:
        """The `k` best documents as (id, score), best first, equal scores by id.

        `query` gives each word its weight; words without a positive weight do not count. Only documents with a
        positive score are returned. `allowed` limits the answer to these ids; scores stay those of the whole
        index. Scores are comparable within one answer only.
        """
        self._sort_waiting()
        terms, impacts = self._impacts(query)
        if not terms.size or k < 1:
            return []
        best_ids, best_scores, least = np.zeros(0, np.int64), np.zeros(0), 0.0
        for at, segment in enumerate(self._segments):  # the largest is the first, and sets a high bar for the others
            sums = self._fresh_sums(segment, allowed)
            places, scores = best(segment, self._norm(at), sums, terms, impacts, k, least, self._limits.long)
            best_ids = np.concatenate((best_ids, segment.ids[places]))
            best_scores = np.concatenate((best_scores, scores))
            order = np.lexsort((best_ids, -best_scores))[:k]
            best_ids, best_scores = best_ids[order], best_scores[order]
            least = float(best_scores[-1]) if best_scores.size == k else 0.0
        return list(zip(best_ids.tolist(), best_scores.tolist(), strict=True))

    def get_scores(self, query: Sequence[str]) -> Floats:
        """The library's call: one score for each document, in the order of `ids()`. Reads every document."""
        self._sort_waiting()
        weights: dict[str, float] = {}
        for word in query:
            weights[word] = weights.get(word, 0.0) + 1.0
        terms, impacts = self._impacts(weights)
        ids, scores = [np.zeros(0, np.int64)], [np.zeros(0)]
        for at, segment in enumerate(self._segments):
            sums = np.zeros(segment.ids.size)
            for first, last, impact in zip(*segment.rows(terms), impacts, strict=True):
                if first < last:
                    sums[segment.docs[first:last]] += gains(segment, self._norm(at), first, last, impact)
            ids.append(segment.ids[segment.alive])
            scores.append(sums[segment.alive])
        return np.concatenate(scores)[np.argsort(np.concatenate(ids), kind="stable")]

    def get_batch_scores(self, query: Sequence[str], doc_ids: Sequence[int]) -> list[float]:
        """The library's call: scores of the documents at these positions of `ids()`."""
        return self.get_scores(query)[np.asarray(doc_ids, np.int64)].tolist()

    def contents(self) -> Contents:
        """Everything as arrays; afterwards the index is one segment. Words without a document are dropped."""
        self._sort_waiting()
        postings = merge(self._segments) if self._segments else empty()
        if postings.terms.size < len(self._words):
            words = np.array(list(self._words), dtype=object)[postings.terms].tolist()
            self._words = Numbering(zip(words, range(len(words)), strict=True))
            postings.terms = np.arange(len(words), dtype=np.uint32)
        self._use([postings] if postings.ids.size else [])
        return Contents(list(self._words), postings)

    # --- scoring ---

    def _frequencies(self, terms: UInt32) -> Int64:
        total = np.zeros(terms.size, np.int64)
        for segment in self._segments:
            first, last = segment.rows(terms)
            if not segment.dead:
                total += last - first
                continue
            for at in np.flatnonzero(last > first).tolist():
                total[at] += np.count_nonzero(segment.alive[segment.docs[first[at] : last[at]]])
        return total

    def _impacts(self, query: Mapping[str, float]) -> tuple[UInt32, Floats]:
        """Numbers of the query's words and what each can add at most, greatest first, zeros left out."""
        known = [
            (number, weight)
            for word, weight in query.items()
            if weight > 0 and (number := self._words.get(word, -1)) >= 0
        ]
        terms = np.array([number for number, _ in known], np.uint32)
        weights = np.array([weight for _, weight in known])
        if self._idf == "okapi":
            idf = self._okapi_idf()[terms]
        else:
            found = self._frequencies(terms)
            idf = np.where(found > 0, np.log1p((self.corpus_size - found + 0.5) / (found + 0.5)), 0.0)
        impacts = weights * idf * (self.k1 + 1)
        order = np.argsort(-impacts, kind="stable")
        order = order[impacts[order] != 0]
        return terms[order], impacts[order]

    def _okapi_idf(self) -> Floats:
        """The library's idf of every word; 0 for words without a document."""
        if self._okapi is None:
            found = np.zeros(len(self._words), np.int64)
            for segment in self._segments:
                found[segment.terms] += segment.frequencies()
            present = found > 0
            idf = np.where(present, np.log(self.corpus_size - found + 0.5) - np.log(np.maximum(found, 1) + 0.5), 0.0)
            mean = math.fsum(idf.tolist()) / max(int(present.sum()), 1)
            self._okapi = np.where(idf < 0, self.epsilon * mean, idf)
        return self._okapi

    def _norm(self, at: int) -> Floats:
        """k1 * (1 - b + b * length / mean length) of each document of one segment."""
        mean, norm = self._norms.get(at, (-1.0, self._sums))
        if mean != self.avgdl:
            norm = self._segments[at].lengths.astype(np.float64)
            norm *= self.k1 * self.b / (self.avgdl or 1.0)
            norm += self.k1 * (1 - self.b)
            self._norms[at] = self.avgdl, norm
        return norm

    def _fresh_sums(self, segment: Segment, allowed: Int64 | None) -> Floats:
        """Zeros, and minus infinity where a document is removed or not allowed. One buffer for all queries."""
        documents = segment.ids.size
        if self._sums.size < documents:
            self._sums = np.empty(documents)
        sums = self._sums[:documents]
        if allowed is not None:
            sums.fill(-np.inf)
            sums[segment.places(allowed)] = 0.0
            return sums
        sums.fill(0.0)
        if segment.dead:
            sums[~segment.alive] = -np.inf
        return sums
