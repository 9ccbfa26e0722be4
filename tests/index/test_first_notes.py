"""What a search is told that comes before the first notes are indexed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import NotReady
from sidecar.index import corpus as corpus_module
from sidecar.index.corpus import Corpus
from sidecar.index.look import Findings, Looker
from sidecar.index.opening import CorpusOptions, open_corpus
from sidecar.index.progress import Phase
from tests.index.vaults import PATIENCE_S, found, ranked, settled

Ask = Callable[[Corpus, str], Coroutine[Any, Any, list[str]]]
ASKS = pytest.mark.parametrize("ask", [found, ranked])


@pytest.fixture
def go_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Nothing is looked at before this is set."""
    event, look = threading.Event(), Looker.look

    def wait(self: Looker, *args: Any, **options: Any) -> Findings:
        assert event.wait(PATIENCE_S)
        return look(self, *args, **options)

    monkeypatch.setattr(Looker, "look", wait)
    yield event
    event.set()


@pytest.fixture
async def corpus(tmp_path: Path, go_on: threading.Event) -> AsyncIterator[Corpus]:
    """It knows the names of two notes and nothing more."""
    vault, state = tmp_path / "vault", tmp_path / "state"
    for folder in (vault, state):
        folder.mkdir()
    for name in ("Plum", "Pear"):
        (vault / f"{name}.md").write_text(f"A {name} tree.\n")
    async with open_corpus(vault, state, CorpusOptions(max_note_bytes=1 << 20), lambda progress: None, None) as opened:
        await opened.wait_for_names()
        try:
            yield opened
        finally:
            go_on.set()


@ASKS
async def test_it_waits_for_them_a_moment(
    corpus: Corpus, go_on: threading.Event, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "_FIRST_NOTES_S", PATIENCE_S)
    asked = asyncio.create_task(ask(corpus, "plum"))
    await asyncio.sleep(0.1)
    assert not asked.done()
    go_on.set()
    assert await asked == ["Plum.md"]


@ASKS
async def test_when_that_takes_long_it_is_told_how_far_it_is(
    corpus: Corpus, go_on: threading.Event, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "_FIRST_NOTES_S", 0.05)
    with pytest.raises(NotReady) as early:
        await ask(corpus, "plum")
    assert str(early.value) == "The index is still being built (0 of 2 notes). Try again soon."
    go_on.set()
    await settled(corpus)
    assert await ask(corpus, "plum") == ["Plum.md"]


@ASKS
async def test_while_the_index_is_made_again_nothing_is_said_to_be_missing(
    corpus: Corpus, go_on: threading.Event, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "_FIRST_NOTES_S", 0.05)
    go_on.set()
    await settled(corpus)
    go_on.clear()
    corpus._indexer.distrust("is damaged")
    async with asyncio.timeout(PATIENCE_S):
        while corpus._indexer.phase is not Phase.INDEXING:
            await asyncio.sleep(0.01)
    with pytest.raises(NotReady, match="still being built"):
        await ask(corpus, "plum")
    go_on.set()
    await settled(corpus)
    assert await ask(corpus, "plum") == ["Plum.md"]


@ASKS
async def test_in_a_vault_without_notes_nothing_is_waited_for(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "state").mkdir()
    options = CorpusOptions(max_note_bytes=1 << 20)
    async with open_corpus(tmp_path / "vault", tmp_path / "state", options, lambda progress: None, None) as corpus:
        await settled(corpus)
        assert await ask(corpus, "plum") == []
