"""Ranking of texts that somebody else keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.embed.facts import FACTS
from sidecar.index.embed.hashing import Hashing
from sidecar.index.items import Items

HASH = FACTS["hash"]
EMBEDDER = Hashing()
TEXTS = {
    1: "replace the seal of a dripping tap",
    2: "bleed a radiator from the lowest floor up",
    3: "the tap of a barrel",
    4: "Wie man einen Heizkörper entlüftet",
}


def filled(texts: dict[int, str] = TEXTS) -> Items:
    items = Items()
    items.put(list(texts.items()))
    items.put_vectors(list(texts), EMBEDDER.passages(list(texts.values())).astype(np.float16))
    return items


def allowed(*items: int) -> np.ndarray:
    return np.array(items, np.int64)


def rank(items: Items, query: str, *of: int, meaning: bool = False) -> list[int]:
    vector, facts = (EMBEDDER.query(query), HASH) if meaning else (None, None)
    return [item for item, _ in items.rank(query, allowed(*of), 5, lambda item: TEXTS[item], vector, facts)]


@pytest.mark.parametrize("meaning", [False, True], ids=["words", "both"])
def test_only_what_is_allowed_and_relevant_is_ranked(meaning: bool) -> None:
    items = filled()
    assert rank(items, "dripping tap", 1, 2, 3, 4, meaning=meaning)[:2] == [1, 3]
    assert rank(items, "dripping tap", 2, 3, meaning=meaning)[0] == 3
    assert rank(items, "dripping tap", meaning=meaning) == []
    assert rank(items, "qqqq zzzz", 1, 2, 3, 4, meaning=meaning) == []


def test_small_words_alone_are_no_hit_unless_there_are_no_others() -> None:
    items = filled()
    assert rank(items, "what is of the essence", 1, 2, 3, 4) == []
    assert set(rank(items, "of the", 1, 2, 3, 4)) == {1, 2, 3}


def test_scores_lie_between_0_and_1_and_fall() -> None:
    items = filled()
    for vector, facts in ((None, None), (EMBEDDER.query("tap radiator"), HASH)):
        scores = [
            score for _, score in items.rank("tap radiator", allowed(1, 2, 3, 4), 5, TEXTS.__getitem__, vector, facts)
        ]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def test_a_changed_text_is_found_by_the_new_one_only() -> None:
    items = filled()
    items.put([(1, "sharpen a scythe")])
    assert rank(items, "dripping", 1, 2, 3, 4) == []
    assert rank(items, "scythe", 1, 2, 3, 4) == [1]


def test_forgotten_vectors_are_not_compared() -> None:
    items = filled()
    items.forget_vectors()
    assert items.nearest(EMBEDDER.query("tap"), allowed(1, 2, 3, 4), 5) == []
    items.put_vectors([3], np.ones((1, 8), np.float16))  # those of another embedder may be longer or shorter
    assert items.nearest(EMBEDDER.query("tap"), allowed(3), 5) == []
    assert [item for item, _ in items.nearest(np.ones(8, np.float32), allowed(3), 5)] == [3]


@given(
    st.lists(st.tuples(st.sampled_from(["put", "drop"]), st.integers(0, 12), st.integers(0, 99)), max_size=60),
    st.sets(st.integers(0, 12)),
    st.integers(1, 6),
)
def test_nearest_is_what_comparing_with_each_gives(
    steps: list[tuple[str, int, int]], among: set[int], depth: int
) -> None:
    chance = np.random.default_rng(1)
    pool = chance.normal(size=(100, 8)).astype(np.float16)
    query = chance.normal(size=8).astype(np.float32)
    items, model = Items(), dict[int, int]()
    for what, item, row in steps:
        if what == "put":
            items.put_vectors([item], pool[row : row + 1])
            model[item] = row
        else:
            items.drop(item)
            model.pop(item, None)
    assert items.with_vector == len(model)
    found = items.nearest(query, allowed(*sorted(among)), depth)
    cosines = {item: float(pool[row].astype(np.float32) @ query) for item, row in model.items() if item in among}
    expected = sorted(cosines, key=lambda item: (-cosines[item], item))[:depth]
    assert [cosine for _, cosine in found] == pytest.approx([cosines[item] for item in expected], rel=1e-4)
    assert {item for item, _ in found} <= among & set(model)
