from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.postings import Segment, build, merge

Documents = list[tuple[int, dict[int, int]]]


def segment(documents: Documents) -> Segment:
    return build(
        np.array([doc_id for doc_id, _ in documents], np.int64),
        np.array([sum(counts.values()) for _, counts in documents], np.uint32),
        np.array([len(counts) for _, counts in documents], np.int64),
        np.array([term for _, counts in documents for term in counts], np.uint32),
        np.array([count for _, counts in documents for count in counts.values()], np.uint16),
    )


def documents_of(found: Segment) -> dict[int, dict[int, int]]:
    """What a segment holds, removed documents left out."""
    read: dict[int, dict[int, int]] = {doc_id: {} for doc_id in found.ids[found.alive].tolist()}
    for row, term in enumerate(found.terms.tolist()):
        for at in range(int(found.starts[row]), int(found.starts[row + 1])):
            place = int(found.docs[at])
            if found.alive[place]:
                read[int(found.ids[place])][term] = int(found.counts[at])
    return read


IDS = st.sets(st.integers(0, 60))
DOCUMENTS = st.dictionaries(
    st.integers(0, 50), st.dictionaries(st.integers(0, 9), st.integers(1, 9), max_size=5), max_size=12
).map(lambda documents: list(documents.items()))


@given(documents=DOCUMENTS)
def test_a_segment_holds_what_it_was_built_from(documents: Documents) -> None:
    found = segment(documents)
    assert documents_of(found) == dict(documents)
    assert found.terms.tolist() == sorted({term for _, counts in documents for term in counts})
    for row in range(found.terms.size):
        places = found.docs[found.starts[row] : found.starts[row + 1]]
        assert places.size and bool((np.diff(places) > 0).all())


@given(
    documents=DOCUMENTS,
    cuts=st.lists(st.integers(0, 12), max_size=3),
    gone=st.sets(st.integers(0, 50)),
    block=st.integers(1, 9),
)
def test_merging_keeps_what_was_not_removed(documents: Documents, cuts: list[int], gone: set[int], block: int) -> None:
    edges = [0, *sorted(cuts), len(documents)]
    parts = [segment(documents[first:last]) for first, last in pairwise(edges)]
    for part in parts:
        part.remove(part.places(np.array(sorted(gone), np.int64)))
    found = merge(parts, block)
    assert documents_of(found) == {doc_id: counts for doc_id, counts in documents if doc_id not in gone}
    assert found.dead == 0
    assert bool((np.diff(found.starts) > 0).all())


@given(documents=DOCUMENTS, asked=st.sets(st.integers(0, 60)), gone=IDS)
def test_places_are_those_of_the_documents_that_are_there(
    documents: Documents, asked: set[int], gone: set[int]
) -> None:
    found = segment(documents)
    found.remove(found.places(np.array(sorted(gone), np.int64)))
    places = found.places(np.array(sorted(asked), np.int64))
    assert set(found.ids[places].tolist()) == asked & {doc_id for doc_id, _ in documents} - gone


@given(documents=DOCUMENTS, gone=IDS)
def test_frequencies_count_the_documents_that_are_there(documents: Documents, gone: set[int]) -> None:
    found = segment(documents)
    found.remove(found.places(np.array(sorted(gone), np.int64)))
    expected = [sum(term in c and d not in gone for d, c in documents) for term in found.terms.tolist()]
    assert found.frequencies().tolist() == expected


@pytest.mark.parametrize("terms", [[], [3], [0, 3, 9, 4_000_000_000]])
def test_a_word_that_does_not_occur_has_no_rows(terms: list[int]) -> None:
    first, last = segment([(1, {5: 1})]).rows(np.array(terms, np.uint32))
    assert first.tolist() == last.tolist()
