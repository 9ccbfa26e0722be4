"""Saves are found by meaning whatever the graph of the store does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sidecar.index.child import Child
from sidecar.index.newest import MOST, Newest
from tests.index.embedders import DIM
from tests.index.rigs import STORE, child, open_store

CHANCE = np.random.default_rng(3)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def some(count: int) -> np.ndarray:
    return unit(CHANCE.normal(size=(count, DIM)))


async def missed(running: Child, ids: np.ndarray, vectors: np.ndarray) -> list[int]:
    """Those that are not among the ten nearest to themselves."""
    found = [(await running.call("query_vector", store=STORE, n=10, arrays=(each,))).arrays[0] for each in vectors]
    return [int(one) for one, near in zip(ids, found, strict=True) if one not in near]


async def test_saves_among_many_equal_passages_are_found_and_else_some_are_not(tmp_path: Path) -> None:
    async with child(tmp_path) as (running, _):
        await open_store(running, tmp_path)
        template = some(1)
        many = np.arange(1, 1_001)
        await running.call("upsert", store=STORE, arrays=(many, np.repeat(template, many.size, axis=0)))
        vectors, ids = unit(template + some(30) * 0.6), np.arange(5_001, 5_031)
        await running.call("upsert", store=STORE, arrays=(ids, vectors))
        assert await missed(running, ids, vectors), "the graph has lost none, so this shows nothing"
        await running.call("delete", store=STORE, arrays=(ids,))
        again = ids + 1_000
        await running.call("upsert", store=STORE, urgent=True, arrays=(again, vectors))
        assert await missed(running, again, vectors) == []
        await running.call("delete", store=STORE, arrays=(again[:10],))
        assert await missed(running, again, vectors) == again[:10].tolist()


def test_the_newest_of_an_id_counts_and_the_oldest_leave() -> None:
    first, second = some(2), some(2)
    newest = Newest.none().with_saved(np.array([1, 2]), first).with_saved(np.array([2, 3]), second)
    assert newest.ids.tolist() == [1, 2, 3]
    np.testing.assert_allclose(newest.vectors, np.concatenate([first[:1], second]), atol=1e-6)
    full = newest.with_saved(np.arange(10, 10 + MOST - 1), some(MOST - 1))
    assert full.ids.tolist() == [3, *range(10, 10 + MOST - 1)]
    assert full.without(np.array([3, 9])).ids.tolist() == list(range(10, 10 + MOST - 1))


def test_they_take_their_places_among_what_the_store_found() -> None:
    vectors = some(3)
    newest = Newest.none().with_saved(np.array([1, 2, 3]), vectors * 5)
    store = np.array([7, 2, 8]), np.array([0.9, (vectors[1] * vectors[0]).sum(), -1.0], np.float32)
    ids, cosines = newest.among(vectors[0] * 2, store, 4)
    cosine = {1: 1.0, 7: 0.9, 8: -1.0} | {n: float(vectors[n - 1] @ vectors[0]) for n in (2, 3)}
    assert ids.tolist() == sorted(cosine, key=lambda one: -cosine[one])[:4]
    np.testing.assert_allclose(cosines, [cosine[int(one)] for one in ids], atol=1e-5)


def test_a_vector_without_meaning_is_near_to_nothing() -> None:
    assert Newest.none().with_saved(np.array([1]), np.zeros((1, DIM), np.float16)).ids.size == 0
    nothing = np.empty(0, np.int64), np.empty(0, np.float32)
    assert Newest.none().among(some(1)[0], nothing, 5) is nothing
