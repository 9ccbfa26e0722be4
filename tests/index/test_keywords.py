from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from sidecar.index.keywords import Idf, KeywordIndex, Limits

Documents = dict[int, dict[str, int]]

WORDS = [f"w{n}" for n in range(12)]
COUNTS = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 5), max_size=6)
STEPS = st.lists(
    st.tuples(st.lists(st.integers(0, 40), max_size=4), st.lists(st.tuples(st.integers(0, 40), COUNTS), max_size=6)),
    min_size=1,
    max_size=12,
)
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5, unique=True)
# As the index is, and with limits so small that sorting, merging and ruling out happen all the time.
LIMITS = st.sampled_from([Limits(), Limits(waiting=3, small=6, ratio=2, long=2), Limits(small=0, long=1)])


def build(documents: Mapping[int, Mapping[str, int]], idf: Idf = "plus") -> KeywordIndex:
    index = KeywordIndex(idf=idf)
    index.replace((), documents.items())
    return index


def applied(index: KeywordIndex, steps: Iterable[tuple[list[int], list[tuple[int, dict[str, int]]]]]) -> Documents:
    """The documents that remain when these steps are done in order."""
    left: Documents = {}
    for remove, add in steps:
        index.replace(remove, add)
        for doc_id in remove:
            left.pop(doc_id, None)
        left.update(add)
    return left


def library(documents: Documents) -> Any:
    """rank-bm25 built from scratch, documents by id."""
    corpus = [[word for word, n in documents[doc_id].items() for _ in range(n)] for doc_id in sorted(documents)]
    return BM25Okapi(corpus)


@given(limits=LIMITS, steps=STEPS, query=QUERIES, k=st.integers(1, 12))
@settings(max_examples=80)
def test_scores_are_those_of_an_index_built_from_scratch(limits: Limits, steps: Any, query: list[str], k: int) -> None:
    index = KeywordIndex(k1=1.5, b=0.75, idf="okapi", limits=limits)
    documents = applied(index, steps)
    assert index.ids().tolist() == sorted(documents)
    if not any(documents.values()):  # the library divides by zero
        assert index.search(dict.fromkeys(query, 1.0), k) == []
        return
    oracle = library(documents)
    scores = dict(zip(sorted(documents), oracle.get_scores(query).tolist(), strict=True))
    assert index.corpus_size == oracle.corpus_size
    assert index.avgdl == pytest.approx(oracle.avgdl, rel=1e-12)
    assert index.get_scores(query).tolist() == pytest.approx(list(scores.values()), rel=1e-9, abs=1e-12)
    assert_ranked(index.search(dict.fromkeys(query, 1.0), k), scores, k)


@given(
    limits=LIMITS,
    steps=STEPS,
    query=st.dictionaries(st.sampled_from(WORDS), st.floats(0.01, 3), min_size=1),
    k=st.integers(1, 12),
)
@settings(max_examples=80)
def test_weighted_scores_with_the_positive_idf_are_the_sum_of_the_words(
    limits: Limits, steps: Any, query: dict[str, float], k: int
) -> None:
    index = KeywordIndex(k1=1.5, b=0.75, limits=limits)
    documents = applied(index, steps)
    scores = dict.fromkeys(sorted(documents), 0.0)
    if any(documents.values()):
        oracle = library(documents)
        for word, weight in query.items():
            found = sum(word in counts for counts in documents.values())
            oracle.idf = {word: np.log(1 + (len(documents) - found + 0.5) / (found + 0.5))}
            for doc_id, score in zip(sorted(documents), oracle.get_scores([word]).tolist(), strict=True):
                scores[doc_id] += weight * score
    assert_ranked(index.search(query, k), scores, k)


@given(limits=LIMITS, steps=STEPS, query=QUERIES, allowed=st.sets(st.integers(0, 60)), k=st.integers(1, 12))
@settings(max_examples=80)
def test_a_filter_gives_the_ranking_without_the_others(
    limits: Limits, steps: Any, query: list[str], allowed: set[int], k: int
) -> None:
    index = KeywordIndex(limits=limits)
    applied(index, steps)
    weights = dict.fromkeys(query, 1.0)
    everything = index.search(weights, 1000)
    wanted = [hit for hit in everything if hit[0] in allowed][:k]
    found = index.search(weights, k, np.array(sorted(allowed), np.int64))
    assert [doc_id for doc_id, _ in found] == [doc_id for doc_id, _ in wanted]
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted], rel=1e-9)


@given(limits=LIMITS, steps=STEPS, query=QUERIES)
@settings(max_examples=80)
def test_an_index_from_its_contents_answers_the_same(limits: Limits, steps: Any, query: list[str]) -> None:
    index = KeywordIndex(limits=limits)
    applied(index, steps)
    weights = dict.fromkeys(query, 1.0)
    before = index.search(weights, 100)
    copy = KeywordIndex.from_contents(index.contents(), limits=limits)
    assert index.search(weights, 100) == copy.search(weights, 100)
    assert [doc_id for doc_id, _ in copy.search(weights, 100)] == [doc_id for doc_id, _ in before]
    assert copy.ids().tolist() == index.ids().tolist()
    assert (copy.corpus_size, copy.avgdl) == (index.corpus_size, index.avgdl)


@given(limits=LIMITS, steps=STEPS, query=QUERIES)
@settings(max_examples=80)
def test_a_batch_applied_twice_equals_once(limits: Limits, steps: Any, query: list[str]) -> None:
    once, twice = KeywordIndex(limits=limits), KeywordIndex(limits=limits)
    for remove, add in steps:
        once.replace(remove, add)
        twice.replace(remove, add)
        twice.replace(remove, add)
    weights = dict.fromkeys(query, 1.0)
    assert dict(twice.search(weights, 100)) == pytest.approx(dict(once.search(weights, 100)))
    assert (twice.corpus_size, twice.avgdl) == (once.corpus_size, once.avgdl)


def assert_ranked(found: list[tuple[int, float]], scores: dict[int, float], k: int) -> None:
    """`found` is the ranking of `scores`, apart from the order of documents that rounding makes equal."""
    expected = sorted((score for score in scores.values() if score > 1e-12), reverse=True)[:k]
    assert len(found) >= len(expected)
    assert [score for _, score in found[: len(expected)]] == pytest.approx(expected, rel=1e-9)
    assert all(score == pytest.approx(scores[doc_id], rel=1e-9, abs=1e-12) for doc_id, score in found)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert len({doc_id for doc_id, _ in found}) == len(found) <= k


def test_equal_scores_come_by_id() -> None:
    index = build({7: {"a": 1}, 3: {"a": 1}, 5: {"a": 1}})
    assert [doc_id for doc_id, _ in index.search({"a": 1.0}, 2)] == [3, 5]


def test_a_vault_of_one_note_is_searchable() -> None:
    ((doc_id, score),) = build({1: {"a": 1}}).search({"a": 1.0}, 5)
    assert doc_id == 1 and score > 0


@pytest.mark.parametrize("query", [{}, {"unknown": 1.0}, {"a": 0.0}, {"a": -1.0}])
def test_a_query_without_a_known_word_finds_nothing(query: dict[str, float]) -> None:
    assert build({1: {"a": 1}}).search(query, 5) == []


def test_an_empty_index_answers() -> None:
    index = KeywordIndex()
    assert index.search({"a": 1.0}, 5) == []
    assert index.ids().tolist() == []
    assert index.frequencies(["a"]) == {"a": 0}
    assert index.get_scores(["a"]).tolist() == []
    assert KeywordIndex.from_contents(index.contents()).search({"a": 1.0}, 5) == []


def test_documents_without_words_count_and_are_never_found() -> None:
    index = build({1: {}, 2: {"a": 1}})
    assert index.corpus_size == 2
    assert [doc_id for doc_id, _ in index.search({"a": 1.0}, 5)] == [2]
    index.replace([1, 2], ())
    assert (index.corpus_size, index.avgdl) == (0, 0.0)


def test_removed_documents_are_gone_at_once() -> None:
    index = build({n: {"a": 1, f"only{n}": 1} for n in range(10)})
    assert len(index.search({"a": 1.0}, 20)) == 10
    index.replace([4], ())
    assert 4 not in dict(index.search({"a": 1.0}, 20))
    assert index.search({"only4": 1.0}, 5) == []
    assert index.frequencies(["a", "only4", "only5"]) == {"a": 9, "only4": 0, "only5": 1}


def test_an_id_that_is_added_again_has_its_new_words() -> None:
    index = build({1: {"old": 1}, 2: {"x": 1}})
    index.replace((), [(1, {"new": 2})])
    assert index.search({"old": 1.0}, 5) == []
    assert [doc_id for doc_id, _ in index.search({"new": 1.0}, 5)] == [1]
    assert index.corpus_size == 2


def test_the_weight_of_a_word_scales_its_score() -> None:
    index = build({1: {"a": 1}, 2: {"b": 1}})
    ((_, single),) = index.search({"a": 1.0}, 5)
    ((_, double),) = index.search({"a": 2.0}, 5)
    assert double == pytest.approx(2 * single)


def test_counts_beyond_what_is_stored_are_read_as_the_most() -> None:
    index = build({1: {"a": 10_000_000}, 2: {"b": 1}})
    assert [doc_id for doc_id, _ in index.search({"a": 1.0}, 5)] == [1]


def test_words_without_a_document_are_dropped_from_the_contents() -> None:
    index = build({1: {"a": 1, "gone": 1}, 2: {"a": 1, "b": 1}, 3: {"c": 1}})
    index.replace([1], ())
    assert sorted(index.contents().vocabulary) == ["a", "b", "c"]
    assert [doc_id for doc_id, _ in index.search({"b": 1.0}, 5)] == [2]
    index.replace((), [(4, {"gone": 1})])
    assert [doc_id for doc_id, _ in index.search({"gone": 1.0}, 5)] == [4]


def test_many_small_changes_leave_little_behind() -> None:
    index = KeywordIndex(limits=Limits(small=0))
    for n in range(500):
        index.replace([n - 3], [(n, {f"w{n % 50}": 1, "all": 1})])
        assert len(index.search({"all": 1.0}, 10)) == min(n + 1, 3)
    assert index.corpus_size == 3
    contents = index.contents()
    assert contents.postings.ids.tolist() == [497, 498, 499]
    assert len(contents.vocabulary) == 4


def test_common_words_are_not_read_whole_when_rare_ones_decide() -> None:
    documents = {n: {"common": 1 + n % 3, f"filler{n % 97}": 1} for n in range(20_000)}
    for n in range(0, 20_000, 100):
        documents[n]["rare"] = 2
    index = build(documents)
    query = {"rare": 1.0, "common": 0.3}
    every = sorted(index.search(query, 20_000), key=lambda hit: (-hit[1], hit[0]))
    best = index.search(query, 50)
    assert [doc_id for doc_id, _ in best] == [doc_id for doc_id, _ in every[:50]]
    assert [score for _, score in best] == pytest.approx([score for _, score in every[:50]], rel=1e-12)
