"""Which documents hold which words, as flat numpy arrays.

A segment is built once and never grows; a document is removed from it by a
mark. The keyword index keeps a few segments, merges small ones and drops what
is marked. Knows nothing of scores and nothing of words: words are numbers here.

A posting costs 6 bytes: the document's place in its segment and the count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt16 = NDArray[np.uint16]
UInt32 = NDArray[np.uint32]
Bools = NDArray[np.bool_]

_BLOCK = 2_000_000  # postings that a merge moves at once: bounds its working memory to about 50 MB


@dataclass(slots=True)
class Segment:
    """Postings of a set of documents, grouped by word.

    ids      int64[n]    the caller's document ids, in the order in which they were added
    lengths  uint32[n]   words in each document
    terms    uint32[t]   word numbers that occur, ascending
    starts   int64[t+1]  postings of terms[i] are docs[starts[i]:starts[i+1]], never none
    docs     int32[p]    places in `ids`, ascending within a word
    counts   uint16[p]
    alive    bool[n]     False: removed. The only array that changes
    """

    ids: Int64
    lengths: UInt32
    terms: UInt32
    starts: Int64
    docs: Int32
    counts: UInt16
    alive: Bools
    dead: int = 0
    _order: Int64 | None = field(default=None, repr=False)  # argsort of `ids` where they do not ascend

    def __post_init__(self) -> None:
        if self.ids.size > 1 and not bool((self.ids[1:] > self.ids[:-1]).all()):
            self._order = np.argsort(self.ids, kind="stable")

    @property
    def size(self) -> int:
        """Postings, removed documents' included."""
        return int(self.docs.size)

    def rows(self, terms: UInt32) -> tuple[Int64, Int64]:
        """Start and end of each word's postings; equal where the word does not occur."""
        if not self.terms.size:
            nothing = np.zeros(terms.size, np.int64)
            return nothing, nothing
        row = np.minimum(np.searchsorted(self.terms, terms), self.terms.size - 1)
        first = self.starts[row]
        return first, np.where(self.terms[row] == terms, self.starts[row + 1], first)

    def places(self, ids: Int64) -> Int64:
        """Places of those of `ids` that are here and not removed; the others are left out."""
        if not self.ids.size or not ids.size:
            return np.zeros(0, np.int64)
        ranked = self.ids if self._order is None else self.ids[self._order]
        at = np.minimum(np.searchsorted(ranked, ids), ranked.size - 1)
        found = at[ranked[at] == ids]
        if self._order is not None:
            found = self._order[found]
        return found[self.alive[found]]

    def remove(self, places: Int64) -> None:
        self.alive[places] = False
        self.dead += int(places.size)

    def frequencies(self) -> Int64:
        """Documents that hold each of `terms`, removed ones left out. Reads every posting if any was removed."""
        if not self.dead:
            return np.diff(self.starts)
        return np.add.reduceat(self.alive[self.docs], self.starts[:-1], dtype=np.int64)


def build(ids: Int64, lengths: UInt32, sizes: Int64, terms: UInt32, counts: UInt16) -> Segment:
    """A segment from documents one after the other.

    `sizes[i]` entries of `terms` and `counts` belong to document i; no word twice in one document.
    """
    # One 64-bit key of word and position sorts several times faster than a stable argsort of the words.
    key = (terms.astype(np.uint64) << np.uint64(32)) | np.arange(terms.size, dtype=np.uint64)
    key.sort()
    order = (key & np.uint64(0xFFFFFFFF)).astype(np.int64)
    ranked = (key >> np.uint64(32)).astype(np.uint32)
    docs = np.repeat(np.arange(ids.size, dtype=np.int32), sizes)[order]
    first = np.flatnonzero(np.diff(ranked.astype(np.int64), prepend=-1))
    return Segment(
        ids=ids,
        lengths=lengths,
        terms=ranked[first],
        starts=np.append(first, ranked.size).astype(np.int64),
        docs=docs,
        counts=counts[order],
        alive=np.ones(ids.size, np.bool_),
    )


def empty() -> Segment:
    none = np.zeros(0, np.int64)
    return build(none, none.astype(np.uint32), none, none.astype(np.uint32), none.astype(np.uint16))


def merge(segments: Sequence[Segment], block: int = _BLOCK) -> Segment:
    """One segment with the documents of all, in the same order, removed ones dropped."""
    parts = [_without_removed(segment) for segment in segments]
    if len(parts) == 1:
        return parts[0]
    terms = np.concatenate([part.terms for part in parts])
    terms.sort()
    terms = terms[np.flatnonzero(np.diff(terms.astype(np.int64), prepend=-1))]  # np.unique takes ten times as long
    rows = [np.searchsorted(terms, part.terms) for part in parts]
    lengths = np.zeros(terms.size, np.int64)
    for part, row in zip(parts, rows, strict=True):
        lengths[row] += np.diff(part.starts)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    docs = np.empty(int(starts[-1]), np.int32)
    counts = np.empty(int(starts[-1]), np.uint16)
    free = starts[:-1].copy()  # where the next posting of each word goes
    base = 0
    for part, row in zip(parts, rows, strict=True):
        for first, last in _blocks(part.starts, block):
            bounds = part.starts[first : last + 1]
            widths = np.diff(bounds)
            begin, end = int(bounds[0]), int(bounds[-1])
            target = np.arange(begin, end) + np.repeat(free[row[first:last]] - bounds[:-1], widths)
            docs[target] = part.docs[begin:end] + np.int32(base)
            counts[target] = part.counts[begin:end]
            free[row[first:last]] += widths
        base += int(part.ids.size)
    return Segment(
        ids=np.concatenate([part.ids for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        terms=terms,
        starts=starts,
        docs=docs,
        counts=counts,
        alive=np.ones(base, np.bool_),
    )


def _without_removed(segment: Segment) -> Segment:
    if not segment.dead:
        return segment
    place = (np.cumsum(segment.alive) - 1).astype(np.int32)
    widths = segment.frequencies()
    kept = widths > 0
    keep = segment.alive[segment.docs]
    return Segment(
        ids=segment.ids[segment.alive],
        lengths=segment.lengths[segment.alive],
        terms=segment.terms[kept],
        starts=np.append(np.zeros(1, np.int64), np.cumsum(widths[kept])),
        docs=place[segment.docs[keep]],
        counts=segment.counts[keep],
        alive=np.ones(np.count_nonzero(segment.alive), np.bool_),
    )


def _blocks(starts: Int64, block: int) -> Iterator[tuple[int, int]]:
    """Ranges of words that hold at most `block` postings each; one word at least."""
    first, words = 0, starts.size - 1
    while first < words:
        reach = int(starts[first]) + block
        last = int(np.searchsorted(starts, reach, side="right")) - 1
        last = min(max(last, first + 1), words)
        yield first, last
        first = last
