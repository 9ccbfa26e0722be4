"""Ranks texts that their owner keeps: by their words and by one vector each, exactly, among those that are allowed.

For collections of thousands, not of millions, where every query is limited to
a part: then comparing with each vector is right, and quicker than a graph that
is asked for a few of many. The owner's records are the truth, all here can be
made again. Not for two threads at once: use it in one lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sidecar.index.embed.facts import EmbedderFacts
from sidecar.index.fuse import Method, fuse
from sidecar.index.keywords import KeywordIndex
from sidecar.index.search import depth_for
from sidecar.index.tokens import LANGUAGE_MARKS, Tokenizer
from sidecar.index.trust import trusted
from sidecar.index.wire import Float16, Float32, Int64

_FIRST_ROWS: Final = 256

# Queries tell a task, so that one word of many is in an item mostly by chance: half of the words count a quarter.
# Measured with scripts/bench knowledge: recall@5 of paraphrases gains a third, queries by words lose nothing.
_CHANCE: Final = 2


class Items:
    """Texts and vectors by the owner's numbers."""

    def __init__(self, method: Method = "weighted") -> None:
        self._method: Method = method
        self._tokenizer = Tokenizer()
        self._keywords = KeywordIndex()
        self._rows: dict[int, int] = {}
        self._ids: Int64 = np.zeros(0, np.int64)
        self._vectors: Float32 = np.zeros((0, 0), np.float32)

    def put(self, texts: Sequence[tuple[int, str]]) -> None:
        """Find these from now on by their words; a number that is there already gets the new text."""
        counts = [(item, self._tokenizer.counts(text)) for item, text in texts]
        self._keywords.replace((), counts)

    def drop(self, item: int) -> None:
        """Find it no longer."""
        self._keywords.replace((item,), ())
        row = self._rows.pop(item, None)
        if row is not None:
            last = len(self._rows)
            if row != last:  # the last row fills the gap
                self._ids[row], self._vectors[row] = self._ids[last], self._vectors[last]
                self._rows[int(self._ids[row])] = row

    def forget_vectors(self) -> None:
        """As if none had been put: those of another embedder follow."""
        self._rows.clear()
        self._vectors = np.zeros((0, 0), np.float32)

    def put_vectors(self, items: Sequence[int], vectors: Float16) -> None:
        """vectors[n, dim] of length 1, all by one embedder."""
        new = [item for item in items if item not in self._rows]
        self._make_room(len(self._rows) + len(new), vectors.shape[1])
        for item in new:
            self._rows[item] = row = len(self._rows)
            self._ids[row] = item
        self._vectors[[self._rows[item] for item in items]] = vectors

    def _make_room(self, rows: int, dim: int) -> None:
        if self._vectors.shape[1] != dim or len(self._vectors) < rows:
            room = max(_FIRST_ROWS, 2 * rows)
            grown = np.zeros((room, dim), np.float32)
            ids = np.zeros(room, np.int64)
            used = len(self._rows)
            if used:
                grown[:used], ids[:used] = self._vectors[:used], self._ids[:used]
            self._vectors, self._ids = grown, ids

    @property
    def with_vector(self) -> int:
        """How many have one."""
        return len(self._rows)

    def nearest(self, vector: Float32, allowed: Int64, depth: int) -> list[tuple[int, float]]:
        """The `depth` nearest of the allowed (ascending) that have a vector, with their cosines, best first."""
        used = len(self._rows)
        if not (used and allowed.size and vector.any()) or vector.shape[0] != self._vectors.shape[1]:
            return []
        # not `@`: the threads of the linear algebra library would go on spinning for longer than this takes
        cosines = np.einsum("ij,j->i", self._vectors[:used], vector.astype(np.float32))
        ids = self._ids[:used]
        kept = np.isin(ids, allowed, kind="table")  # numbers of rows lie close together: a table is small
        ids, cosines = ids[kept], cosines[kept]
        if ids.size > depth:
            top = np.argpartition(-cosines, depth - 1)[:depth]
            ids, cosines = ids[top], cosines[top]
        order = np.lexsort((ids, -cosines))
        return list(zip(ids[order].tolist(), cosines[order].tolist(), strict=True))

    def rank(
        self,
        query: str,
        allowed: Int64,
        k: int,
        text_of: Callable[[int], str],
        vector: Float32 | None = None,
        facts: EmbedderFacts | None = None,
    ) -> list[tuple[int, float]]:
        """The relevant ones of the allowed (ascending) with their scores in [0, 1], best first, at least `k` if there
        are so many.

        Relevant is what holds a word of the query that is no function word, or lies above the embedder's floor.
        `vector` is the query's, and `facts` are of its embedder; without them words alone count.
        """
        spoken = self._keywords.frequencies(LANGUAGE_MARKS)
        words = self._tokenizer.content(query, spoken) or self._tokenizer.query(query, spoken)
        keyword = self._keywords.search(words, depth_for(k), allowed)
        if vector is None or facts is None:
            return [(item, score / keyword[0][1]) for item, score in keyword]
        hit = {item for item, _ in keyword}
        near = self.nearest(vector, allowed, depth_for(k))
        near = [(item, cosine) for item, cosine in near if cosine >= facts.relevance_floor or item in hit]
        weight = facts.weight_for(query)
        if keyword and weight < 1:
            counts = self._tokenizer.counts(text_of(keyword[0][0]))
            coverage = self._tokenizer.coverage(query, spoken, counts)
            weight = trusted(weight, coverage**_CHANCE, enough=1.0)
        return fuse(keyword, near, weight, self._method, floor=facts.relevance_floor)
