"""Search among some of the notes only: exact where they are few, fetched and sifted where they are many."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from sidecar.index import near
from sidecar.index.corpus import Corpus
from sidecar.index.search import Mode
from tests.index.vaults import embedded, opened

COUNT = 120
"""More notes than a leg looks at, so that those asked for are not among its best by chance."""


@pytest.fixture
async def corpus(tmp_path: Path) -> AsyncIterator[Corpus]:
    vault = tmp_path / "vault"
    vault.mkdir()
    for number in range(COUNT):
        (vault / f"Near {number}.md").write_text("lighthouse keeper lighthouse keeper\n")
    (vault / "Far.md").write_text("The keeper of that lighthouse went home; bread, salt and butter are left.\n")
    (vault / "Other.md").write_text("Nothing of the kind: engines, rails, tickets.\n")
    async with opened(vault, tmp_path / "state", embedder="hash") as corpus:
        await embedded(corpus)
        yield corpus


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
@pytest.mark.parametrize("exact", [True, False])
async def test_only_the_notes_asked_for_are_found(
    corpus: Corpus, mode: Mode, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exact:
        monkeypatch.setattr(near, "EXACT", 0)
    everywhere = await corpus.search("lighthouse keeper", 5, mode)
    assert "Far.md" not in [hit.path for hit in everywhere.hits]
    answer = await corpus.search("lighthouse keeper", 5, mode, among=["Far.md", "Other.md", "no such note.md"])
    assert answer.mode == mode
    assert answer.hits[0].path == "Far.md"
    assert {hit.path for hit in answer.hits} <= {"Far.md", "Other.md"}
    assert (await corpus.search("lighthouse keeper", 5, mode, among=[])).hits == []


async def test_a_graph_asked_for_all_and_sifted_would_miss_what_the_exact_search_finds(corpus: Corpus) -> None:
    assert corpus._meaning is not None
    ids, _ = await corpus._meaning.vectors.query("lighthouse keeper", 100)
    far = await corpus.ask(lambda reader: reader.chunks_of(["Far.md"]))
    assert not set(ids.tolist()) & set(far.tolist())
    found = await near.near_among(corpus._meaning.vectors, "lighthouse keeper", 100, far, corpus._legs.cached)
    assert [chunk_id for chunk_id, _ in found.hits] == far.tolist()


async def test_of_a_store_that_is_still_being_filled_as_many_are_fetched_as_were_asked_for(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks asked for may then be more than those in the store."""
    assert corpus._meaning is not None
    vectors = corpus._meaning.vectors
    monkeypatch.setattr(near, "EXACT", 0)
    ids = await vectors.ids()
    among = np.concatenate([ids, ids.max() + np.arange(1, 5_000)])
    found = await near.near_among(vectors, "lighthouse keeper", 40, among, corpus._legs.cached)
    assert len(found.hits) == 40


def test_nearest_is_sorted_by_cosine_and_then_by_id() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0.6, 0.8]], np.float16)
    ids, cosines = near.nearest(np.array([1, 0], np.float32), np.array([9, 8, 7, 6]), vectors, 3)
    assert ids.tolist() == [7, 9, 6]
    assert cosines == pytest.approx([1, 1, 0.6], abs=1e-3)
    assert near.nearest(np.zeros(2, np.float32), np.array([9]), vectors[:1], 3)[0].size == 0
