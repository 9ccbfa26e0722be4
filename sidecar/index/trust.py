"""How far the keyword leg is to be believed for one query."""

from __future__ import annotations

# Share of the content words from which a best chunk is a real hit. Measured with scripts/bench quality: from .25 to .5
# the mean of the hybrids with e5 is .950; .5 costs SciFact .005 and gains about .001 in each XQuAD set.
ENOUGH = 0.3


def trusted(weight: float, coverage: float, enough: float = ENOUGH) -> float:
    """The keywords' share for one query, less where even their best chunk holds few of the query's content words.

    `coverage` is the share of these that it holds. Without this, a question
    that shares nothing but small words with any note is answered by those
    notes, because the best keyword score counts as 1 however poor it is.
    """
    trust = min(1.0, coverage / enough)
    return weight * trust / (weight * trust + 1 - weight) if weight < 1 else weight
