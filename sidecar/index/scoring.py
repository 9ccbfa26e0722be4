"""BM25 sums over the postings of one segment, and its best documents.

The formula is rank-bm25's: a word adds impact * count / (count + norm), where
impact is weight * idf * (k1 + 1) and norm is k1 * (1 - b + b * length / mean
length) of the document.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidecar.index.postings import Int64, Segment, UInt32

Floats = NDArray[np.float64]

_SLACK = 1e-9  # relative room for rounding when documents are ruled out by a bound


def gains(segment: Segment, norm: Floats, first: int, last: int, impact: float) -> Floats:
    """What one word adds to each document of its postings, which are `first` to `last`."""
    counts = segment.counts[first:last].astype(np.float64)
    below = norm.take(segment.docs[first:last])
    below += counts
    counts *= impact
    counts /= below
    return counts


def best(
    segment: Segment,
    norm: Floats,
    sums: Floats,
    terms: UInt32,
    impacts: Floats,
    k: int,
    least: float,
    long: int,
) -> tuple[Int64, Floats]:
    """Places and scores of the best `k` documents, ties at the end included, in no order; none below `least`.

    `sums` is where the work is done: 0 for each document, minus infinity for one that is not wanted. `impacts` fall.
    Once the k-th best sum is above all that the remaining words could add, a document without any of the words so
    far can't get in any more, and words with `long` postings are looked up for the few documents that still can.
    The answer is the same as without this.
    """
    room = np.cumsum(impacts[::-1])[::-1]  # what a word and all after it can add
    if impacts[-1] < 0:  # sums can fall again, so nothing may be ruled out
        room = np.full(room.size, np.inf)
    rest: Int64 | None = None  # those that can still get in, once that is known
    firsts, lasts = (bound.tolist() for bound in segment.rows(terms))
    for at, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        if first == last:
            continue
        if last - first >= long:
            pool = np.flatnonzero(sums > 0) if rest is None else rest
            bar = max(least, _kth(sums[pool], k))
            if rest is not None or bar > room[at] * (1 + _SLACK):
                rest = pool[sums[pool] + room[at] >= bar * (1 - _SLACK)]
        docs = segment.docs[first:last]
        if rest is None or last - first < long:
            sums[docs] += gains(segment, norm, first, last, impacts[at])
        elif rest.size:
            near = np.minimum(np.searchsorted(docs, rest), docs.size - 1)
            hit = docs[near] == rest
            counts = segment.counts[first:last][near[hit]].astype(np.float64)
            sums[rest[hit]] += counts * impacts[at] / (counts + norm[rest[hit]])
    pool = np.flatnonzero(sums > 0) if rest is None else rest
    scores = sums[pool]
    keep = (scores > 0) & (scores >= max(_kth(scores, k), least))
    return pool[keep], scores[keep]


def _kth(scores: Floats, k: int) -> float:
    """The k-th greatest score; 0 if there are fewer."""
    return float(np.partition(scores, scores.size - k)[scores.size - k]) if scores.size >= k else 0.0
