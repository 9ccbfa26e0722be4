"""Another embedder: the old one answers until the new one's vectors are complete; then nothing of it is left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sidecar.index import succession
from sidecar.index.corpus import Corpus
from sidecar.index.manifest import Manifest
from sidecar.index.store_folder import name_for
from sidecar.index.wire import EmbedderOptions, Server
from tests.index.embed.service_double import Asked, Handler, Service, serving
from tests.index.embedders import DIM, FACTORY
from tests.index.servers import chroma_server
from tests.index.test_servers import collections
from tests.index.vaults import PATIENCE_S, embedded, opened, until_found
from tests.index.wordy import WORDS, cached, cached_are, first, forbid_second_vectors, made_vault, mode_is, said, stores

HASH = f"hash@1/{DIM}"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return made_vault(tmp_path / "vault")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opens the service for more than the one word that it is asked at a start."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def service(gate: threading.Event) -> Iterator[Service]:
    def gated(handler: Handler, asked: Asked) -> None:
        if asked.body["input"] != ["text"]:
            gate.wait()
        handler.vectors(asked)

    with serving() as running:
        running.usual = gated
        yield running
        gate.set()


def by(service: Service) -> dict[str, object]:
    return {"embedder": "openai:m", "embedder_options": EmbedderOptions(service.base_url)}


async def filled(vault: Path, state: Path, **options: object) -> None:
    async with opened(vault, state, **{"embedder": "hash", **options}) as corpus:
        await embedded(corpus)
        await complete(corpus)


async def complete(corpus: Corpus) -> None:
    """Wait until the present embedder's vectors are complete and what was before is cleared away."""
    assert corpus._meaning is not None
    async with asyncio.timeout(PATIENCE_S):
        while corpus._meaning.succession._complete is None:
            await asyncio.sleep(0.02)


async def looked_for_useless(corpus: Corpus) -> None:
    """Wait until the look for vectors of no use that follows the start is over."""
    assert corpus._meaning is not None
    succession = corpus._meaning.succession
    async with asyncio.timeout(PATIENCE_S):
        while succession._removed:
            await asyncio.sleep(0.02)
    await succession._lane.run(lambda: None)


async def test_the_old_embedder_answers_until_the_new_one_is_complete_and_is_then_gone(
    vault: Path, state: Path, service: Service, gate: threading.Event
) -> None:
    await filled(vault, state)
    assert stores(state) == [name_for(HASH), f"{name_for(HASH)}.lock"]
    async with opened(vault, state, **by(service)) as corpus:
        await said(corpus, "answers until")
        status = await corpus.status()
        new = status.embedder
        assert status.vectors == f"ready: {HASH} answers until all vectors by {new} are made"
        assert status.counts.chunks_ready == 0
        assert await first(corpus, "birchmoor") == "birchmoor.md"
        assert (await corpus.search("birchmoor", 3)).mode == "hybrid"
        (vault / "larchglen.md").write_text("larchglen nelghcral\n")
        (vault / "applelake.md").unlink()
        await until_found(corpus, "larchglen", ["larchglen.md"])
        await until_found(corpus, "applelake", [])
        assert "larchglen.md" in [hit.path for hit in (await corpus.search("larchglen", 3)).hits]
        assert "applelake.md" not in [
            hit.path for hit in (await corpus.search("applelake ekalelppa", 50, "vector")).hits
        ]
        gate.set()
        await embedded(corpus)
        await complete(corpus)
        assert (await corpus.status()).vectors == "ready"
        assert await first(corpus, "birchmoor") == "birchmoor.md"
        assert await first(corpus, "larchglen") == "larchglen.md"
        assert new is not None
        assert stores(state) == sorted([name_for(new), f"{name_for(new)}.lock"])
        await cached_are(state, {new: len(WORDS)})


async def test_a_restart_in_between_changes_nothing(
    vault: Path, state: Path, service: Service, gate: threading.Event
) -> None:
    await filled(vault, state)
    for _ in range(2):
        async with opened(vault, state, **by(service)) as corpus:
            await said(corpus, f"ready: {HASH} answers until")
            assert await first(corpus, "birchmoor") == "birchmoor.md"
    gate.set()
    async with opened(vault, state, **by(service)) as corpus:
        await embedded(corpus)
        await complete(corpus)
    assert list(await asyncio.to_thread(cached, state)) != [HASH]


async def test_going_back_before_the_end_embeds_nothing_again(
    vault: Path, state: Path, service: Service, gate: threading.Event
) -> None:
    await filled(vault, state)
    async with opened(vault, state, **by(service)) as corpus:
        await said(corpus, "answers until")
    forbid_second_vectors(state)
    async with opened(vault, state, embedder="hash") as corpus:
        await embedded(corpus)
        await complete(corpus)
        assert await first(corpus, "birchmoor") == "birchmoor.md"
        assert stores(state) == [name_for(HASH), f"{name_for(HASH)}.lock"]
        await cached_are(state, {HASH: len(WORDS)})


async def test_where_the_old_embedder_is_not_here_any_more_words_answer_and_the_new_one_as_far_as_it_is(
    vault: Path, state: Path, service: Service, gate: threading.Event
) -> None:
    gate.set()
    await filled(vault, state, **by(service))
    [old] = await asyncio.to_thread(cached, state)
    with serving() as another:  # at another address it may be another model
        async with opened(vault, state, embedder="hash", embedder_options=EmbedderOptions(another.base_url)) as corpus:
            assert (await corpus.search("birchmoor", 3)).hits[0].path == "birchmoor.md"
            await embedded(corpus)
            await complete(corpus)
            assert await first(corpus, "birchmoor") == "birchmoor.md"
            await cached_are(state, {HASH: len(WORDS)})
    assert name_for(old) not in stores(state)


async def test_another_embedder_of_the_same_dimension_is_another_one(vault: Path, state: Path) -> None:
    await filled(vault, state, factory=FACTORY)
    async with opened(vault, state, embedder="other", factory=FACTORY) as corpus:
        await embedded(corpus)
        await complete(corpus)
        await cached_are(state, {"Hash@2/64": len(WORDS)})
        assert (await corpus.status()).embedder == "Hash@2/64"


async def test_a_service_whose_vectors_get_another_size_is_another_embedder(
    vault: Path, state: Path, service: Service, gate: threading.Event
) -> None:
    gate.set()
    async with opened(vault, state, **by(service)) as corpus:
        await embedded(corpus)
        await complete(corpus)
        service.usual = lambda handler, asked: handler.vectors(asked, dim=48)
        (vault / "larchglen.md").write_text("larchglen nelghcral\n")
        async with asyncio.timeout(PATIENCE_S):
            while not ((await corpus.status()).embedder or "").endswith("/48"):
                await asyncio.sleep(0.02)
        await embedded(corpus)
        await complete(corpus)
        assert await first(corpus, "larchglen") == "larchglen.md"
        assert await first(corpus, "birchmoor") == "birchmoor.md"
        assert {name[-3:] for name in await asyncio.to_thread(cached, state)} == {"/48"}


async def test_on_a_server_the_old_collection_answers_and_is_then_deleted(
    vault: Path, state: Path, tmp_path: Path, service: Service, gate: threading.Event
) -> None:
    with chroma_server(tmp_path / "server") as chroma:
        place = Server(port=chroma.port)
        await filled(vault, state, server=place)
        async with opened(vault, state, server=place, **by(service)) as corpus:
            await said(corpus, f"ready: {HASH} answers until")
            assert await first(corpus, "birchmoor") == "birchmoor.md"
            assert len(await asyncio.to_thread(collections, chroma.port)) == 2
            gate.set()
            await embedded(corpus)
            await complete(corpus)
            assert await first(corpus, "birchmoor") == "birchmoor.md"
        [(name, count)] = (await asyncio.to_thread(collections, chroma.port)).items()
        assert "openai-m" in name and count == len(WORDS)


# the service, gone and back


async def test_a_service_that_is_gone_leaves_words_and_comes_back_by_itself(
    vault: Path, state: Path, service: Service, gate: threading.Event
) -> None:
    gate.set()
    async with opened(vault, state, **by(service)) as corpus:
        await embedded(corpus)
        usual = service.usual
        service.usual = lambda handler, asked: handler.reply(401, b"{}")
        await mode_is(corpus, "keyword")
        assert "wants another key (401)" in (await said(corpus, "401")).vectors
        (vault / "larchglen.md").write_text("larchglen nelghcral\n")
        await until_found(corpus, "larchglen", ["larchglen.md"])
        service.usual = usual
        await mode_is(corpus, "hybrid")
        await embedded(corpus)
        assert await first(corpus, "larchglen") == "larchglen.md"
    passages = [text for text in service.texts if "\n" in text]  # a chunk begins with its title
    assert len(passages) == len(set(passages)) + passages.count("larchglen\nlarchglen nelghcral") - 1


# vectors of texts that are gone


async def test_vectors_of_texts_that_are_gone_are_forgotten_and_shared_ones_are_kept(
    vault: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("one", "two"):
        (vault / folder).mkdir()
        (vault / folder / "twin.md").write_text("both say this\n")
    async with opened(vault, state, embedder="hash") as corpus:
        await embedded(corpus)
        await looked_for_useless(corpus)
        assert await asyncio.to_thread(cached, state) == {HASH: len(WORDS) + 1}
        (vault / "one" / "twin.md").unlink()
        (vault / "birchmoor.md").unlink()
        await until_found(corpus, "birchmoor", [])
        await embedded(corpus)
        assert await asyncio.to_thread(cached, state) == {HASH: len(WORDS) + 1}  # they may come back
    async with opened(vault, state, embedder="hash") as corpus:
        await cached_are(state, {HASH: len(WORDS)})
        monkeypatch.setattr(succession, "_REMOVED_CHUNKS", 1)
        monkeypatch.setattr(succession, "_CALM_S", 0.0)
        (vault / "two" / "twin.md").unlink()
        await cached_are(state, {HASH: len(WORDS) - 1})
        await embedded(corpus)
        assert await first(corpus, "cedarwind") == "cedarwind.md"


async def test_a_folder_that_goes_and_comes_back_finds_its_vectors(
    vault: Path, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That they are kept for a while is what does it: see the end of the one above."""
    monkeypatch.setattr(succession, "_REMOVED_CHUNKS", 1)
    async with opened(vault, state, embedder="hash") as corpus:
        await embedded(corpus)
        await looked_for_useless(corpus)
        await asyncio.to_thread(forbid_second_vectors, state)
        for word in WORDS:
            (vault / f"{word}.md").rename(tmp_path / f"{word}.md")
        (vault / "larchglen.md").write_text("larchglen nelghcral\n")
        await until_found(corpus, "birchmoor", [])
        await embedded(corpus)
        for word in WORDS:
            (tmp_path / f"{word}.md").rename(vault / f"{word}.md")
        await until_found(corpus, "birchmoor", ["birchmoor.md"])
        await embedded(corpus)
        assert await first(corpus, "birchmoor") == "birchmoor.md"
        assert len(await asyncio.to_thread(cached, state)) == 1


def test_a_text_that_came_back_while_it_was_sought_keeps_its_vector(vault: Path, state: Path) -> None:
    asyncio.run(filled(vault, state))
    with closing(Manifest(state / "manifest.sqlite")) as manifest:
        kept = [row[0] for row in manifest._db.execute("SELECT text_hash FROM chunks ORDER BY chunk_id")]
        useless = [(text_hash, HASH) for text_hash in kept]
        [last] = manifest._db.execute("SELECT max(chunk_id) FROM chunks").fetchone()
        manifest.forget_vectors(useless, last_chunk=last - 3)
        left = [row[0] for row in manifest._db.execute("SELECT text_hash FROM vectors")]
        assert sorted(left) == sorted(kept[-3:])
        manifest.forget_vectors(useless, last_chunk=last)
        assert not manifest._db.execute("SELECT 1 FROM vectors").fetchone()


def test_vectors_are_sought_page_by_page(state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(succession, "_SOUGHT", 3)
    monkeypatch.setattr(succession, "_DELETED", 2)
    vault = made_vault(tmp_path / "vault", [])
    state.mkdir()
    with closing(Manifest(state / "manifest.sqlite")) as manifest:
        rows = {bytes([number]) * 16: np.zeros(DIM, np.float16).tobytes() for number in range(20)}
        for embedder in (HASH, "gone@1/64"):
            manifest.keep_vectors(embedder, rows)

    async def run() -> None:
        async with opened(vault, state, embedder="hash"):
            await cached_are(state, {})

    asyncio.run(run())
