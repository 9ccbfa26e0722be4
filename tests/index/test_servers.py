"""Vectors on a Chroma server: a real `chroma run`, gone and back, shared, behind TLS, and asked as Chroma Cloud is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import chromadb
import pytest

from sidecar.index.server_names import collection_of
from sidecar.index.wire import Server
from tests.index.servers import ChromaServer, certificate, chroma_server, relay
from tests.index.vaults import embedded, opened, until_found
from tests.index.wordy import WORDS, first, forbid_second_vectors, made_vault, mode_is, said


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ChromaServer]:
    with chroma_server(tmp_path / "server") as running:
        yield running


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return made_vault(tmp_path / "vault")


def collections(port: int) -> dict[str, int]:
    """The collections of a server, with the number of their vectors."""
    client = chromadb.HttpClient("127.0.0.1", port, settings=chromadb.Settings(anonymized_telemetry=False))
    return {found.name: found.count() for found in client.list_collections()}


async def test_a_server_that_is_gone_leaves_keywords_and_comes_back_by_itself(
    vault: Path, tmp_path: Path, server: ChromaServer
) -> None:
    state = tmp_path / "state"
    async with opened(vault, state, embedder="hash", server=Server(port=server.port)) as corpus:
        await embedded(corpus)
        assert (await corpus.status()).backend == "http"
        assert await first(corpus, "birchmoor") == "birchmoor.md"
        forbid_second_vectors(state)
        await asyncio.to_thread(server.stop)
        await mode_is(corpus, "keyword")
        assert (await corpus.search("birchmoor", 3)).hits[0].path == "birchmoor.md"
        await said(corpus, "waits for the Chroma server")
        (vault / "larchglen.md").write_text("larchglen nelghcral\n")  # meanwhile
        (vault / "applelake.md").unlink()
        await until_found(corpus, "larchglen", ["larchglen.md"])
        await until_found(corpus, "applelake", [])
        await asyncio.to_thread(server.start)
        await mode_is(corpus, "hybrid")
        await embedded(corpus)
        assert await first(corpus, "larchglen") == "larchglen.md"
        assert await first(corpus, "birchmoor") == "birchmoor.md"
    assert list((await asyncio.to_thread(collections, server.port)).values()) == [len(WORDS)]


async def test_a_server_that_lost_everything_is_filled_again_from_cached_vectors(
    vault: Path, tmp_path: Path, server: ChromaServer
) -> None:
    state = tmp_path / "state"
    async with opened(vault, state, embedder="hash", server=Server(port=server.port)) as corpus:
        await embedded(corpus)
    forbid_second_vectors(state)
    server.stop()
    server.folder = tmp_path / "another"
    server.start()
    async with opened(vault, state, embedder="hash", server=Server(port=server.port)) as corpus:
        await mode_is(corpus, "hybrid")
        await embedded(corpus)
        assert await first(corpus, "cedarwind") == "cedarwind.md"
    assert list((await asyncio.to_thread(collections, server.port)).values()) == [len(WORDS)]


async def test_a_server_that_is_not_there_at_first_is_waited_for(vault: Path, tmp_path: Path) -> None:
    server = ChromaServer(tmp_path / "server")
    async with opened(vault, tmp_path / "state", embedder="hash", server=Server(port=server.port)) as corpus:
        await said(corpus, "starting: The vector worker waits for the Chroma server (ConnectError).")
        assert (await corpus.search(WORDS[0], 3)).mode == "keyword"
        try:
            await asyncio.to_thread(server.start)
            await mode_is(corpus, "hybrid")
            await embedded(corpus)
        finally:
            await asyncio.to_thread(server.stop)


async def test_a_vault_that_moves_to_a_server_and_back_embeds_nothing_again(
    vault: Path, tmp_path: Path, server: ChromaServer
) -> None:
    state = tmp_path / "state"
    async with opened(vault, state, embedder="hash") as corpus:
        await embedded(corpus)
        assert (await corpus.status()).backend == "embedded"
    forbid_second_vectors(state)
    async with opened(vault, state, embedder="hash", server=Server(port=server.port)) as corpus:
        await mode_is(corpus, "hybrid")
        await embedded(corpus)
        assert await first(corpus, "cedarwind") == "cedarwind.md"
        (vault / "cedarwind.md").unlink()
        await until_found(corpus, "cedarwind", [])
    async with opened(vault, state, embedder="hash") as corpus:
        await mode_is(corpus, "hybrid")
        await embedded(corpus)
        assert await first(corpus, "cedarrock") == "cedarrock.md"


async def test_two_vaults_on_one_server_do_not_mix(vault: Path, tmp_path: Path, server: ChromaServer) -> None:
    other = made_vault(tmp_path / "other", ["zincpond", "zincfall"])
    place = Server(port=server.port)
    async with (
        opened(vault, tmp_path / "one", embedder="hash", server=place) as one,
        opened(other, tmp_path / "two", embedder="hash", server=place) as two,
    ):
        await embedded(one)
        await embedded(two)
        assert await first(one, "birchmoor") == "birchmoor.md"
        assert await first(two, "zincpond") == "zincpond.md"
        assert await first(two, "birchmoor") in ("zincpond.md", "zincfall.md")
    assert sorted((await asyncio.to_thread(collections, server.port)).values()) == [2, len(WORDS)]
    async with opened(vault, tmp_path / "one", embedder="hash", server=place) as one:
        await mode_is(one, "hybrid")
        await embedded(one)
        assert await first(one, "birchmoor") == "birchmoor.md"
    assert sorted((await asyncio.to_thread(collections, server.port)).values()) == [2, len(WORDS)]


def test_collections_are_named_after_the_vault_and_this_state_folder(tmp_path: Path) -> None:
    folders = [tmp_path / "here" / "Notes-1a2b", tmp_path / "there" / "Notes-1a2b", tmp_path / "there" / "Notes-3c4d"]
    for folder in folders:
        folder.mkdir(parents=True)
    names = [collection_of(folder) for folder in folders[:2]]
    assert all(name.startswith("notes-1a2b-") for name in names)
    assert len(set(names)) == 2
    assert collection_of(folders[0]) == names[0]
    folders[2].joinpath("collection").write_bytes(folders[1].joinpath("collection").read_bytes())  # a copied folder
    assert collection_of(folders[2]) not in names
    folders[0].joinpath("collection").write_bytes(b"\xff\n")
    assert collection_of(folders[0]) not in names


# headers and TLS

HEADERS = {"Authorization": "Bearer hush-hush", "X-Team": "garden"}


async def test_headers_go_through_tls_to_a_server_whose_certificate_is_trusted(
    vault: Path, tmp_path: Path, server: ChromaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # must not be asked
    file, context = certificate(tmp_path)
    with relay(server.port, context) as before:
        place = Server(port=before.port, ssl=True, headers=HEADERS)
        trusted = {"SSL_CERT_FILE": str(file)}
        async with opened(vault, tmp_path / "state", embedder="hash", server=place, environ=trusted) as corpus:
            await embedded(corpus)
            assert await first(corpus, "birchmoor") == "birchmoor.md"
            assert corpus._meaning is not None
            pid = corpus._meaning.vectors.pid
            if os.path.exists("/proc"):
                for part in ("environ", "cmdline"):
                    assert b"hush-hush" not in await asyncio.to_thread(Path(f"/proc/{pid}/{part}").read_bytes)
        heads = before.heads()
        assert heads
        for head in heads:
            assert "authorization: bearer hush-hush\r\n" in head.lower()
            assert "x-team: garden\r\n" in head.lower()
        assert "hush-hush" not in (tmp_path / "state" / "chroma" / "worker.log").read_text()


async def test_a_server_whose_certificate_is_not_trusted_gets_no_header(
    vault: Path, tmp_path: Path, server: ChromaServer
) -> None:
    """Control of the one above: what lets the headers go is the trust."""
    _, context = certificate(tmp_path)
    with relay(server.port, context) as before:
        place = Server(port=before.port, ssl=True, headers=HEADERS)
        async with opened(vault, tmp_path / "state", embedder="hash", server=place) as corpus:
            status = await said(corpus, "waits for the Chroma server")
            assert "hush" not in status.vectors
        assert before.seen == []


async def test_chroma_cloud_is_asked_with_the_key(vault: Path, tmp_path: Path, server: ChromaServer) -> None:
    with relay(server.port) as before:
        place = Server("cloud", "127.0.0.1", before.port, ssl=False, api_key="ck-hush")
        async with opened(vault, tmp_path / "state", embedder="hash", server=place) as corpus:
            await embedded(corpus)
            assert (await corpus.status()).backend == "cloud"
            assert await first(corpus, "birchmoor") == "birchmoor.md"
        assert before.heads()
        assert all("x-chroma-token: ck-hush\r\n" in head.lower() for head in before.heads())
