from __future__ import annotations

import pickle
from array import array

from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.counted import LARGEST_COUNT, Counted, counted, highest, joined

WORDS = st.text(st.characters(exclude_characters="\n"), min_size=1, max_size=3)  # half a surrogate pair too
DOCUMENTS = st.lists(st.dictionaries(WORDS, st.integers(1, LARGEST_COUNT), max_size=5), max_size=5)


def read(words: Counted) -> list[dict[str, int]]:
    """The documents, as they were before they were put together."""
    vocabulary, places, counts = words.vocabulary, array("I", words.places), array("H", words.counts)
    found: list[dict[str, int]] = []
    at = 0
    for size in array("I", words.sizes):
        span = slice(at, at + size)
        found.append({vocabulary[place]: count for place, count in zip(places[span], counts[span], strict=True)})
        at += size
    return found


@given(documents=DOCUMENTS)
def test_documents_come_out_as_they_went_in(documents: list[dict[str, int]]) -> None:
    assert read(pickle.loads(pickle.dumps(counted(documents)))) == documents


@given(documents=DOCUMENTS, chosen=st.lists(st.integers(0, 4), unique=True))
def test_some_of_them_bring_their_own_words_alone(documents: list[dict[str, int]], chosen: list[int]) -> None:
    chosen = [place for place in chosen if place < len(documents)]
    found = counted(documents).only(chosen)
    assert read(found) == [documents[place] for place in chosen]
    assert set(found.vocabulary) == {word for place in chosen for word in documents[place]}


def test_all_of_them_in_order_are_not_copied() -> None:
    words = counted([{"heat": 1}, {"pump": 2}])
    assert words.only([0, 1]) is words
    assert read(words.only([1, 0])) == [{"pump": 2}, {"heat": 1}]


def test_a_count_that_is_too_large_is_read_as_the_largest() -> None:
    assert read(counted([{"many": LARGEST_COUNT + 1}])) == [{"many": LARGEST_COUNT}]


@given(lots=st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_lots_that_are_joined_hold_the_documents_of_all(lots: list[list[dict[str, int]]]) -> None:
    found = joined([counted(documents) for documents in lots])
    assert read(found) == [document for documents in lots for document in documents]
    assert len(set(found.vocabulary)) == len(found.vocabulary)
    assert highest(array("I", found.places)) == len(found.vocabulary) - 1
