"""Databases as a service: real folders, real indexes, and files that come, change, go and come back."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from sidecar.arguments import check
from sidecar.errors import BadArguments, NotFound
from sidecar.index import exact, indexer
from sidecar.index.branches import Passage
from sidecar.index.corpus import Corpus
from sidecar.index.documents.readers import DocumentReaders
from sidecar.index.opening import CorpusOptions, open_corpus
from sidecar.index.profile import MOST_DOCUMENT_BYTES
from sidecar.index.vector_options import VectorOptions
from sidecar.index.workers import Workers
from sidecar.services import database, databases
from sidecar.services.database_registry import Registry, index_of
from sidecar.services.database_rules import Ground
from sidecar.services.databases import Databases, Found, Source, open_databases
from sidecar.surfaces.databases import SURFACE
from tests.calls import call_by
from tests.index.embedders import FACTORY
from tests.index.rigs import PATIENCE_S, PATIENT

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground(tmp_path / "state", tmp_path / "vault", tmp_path / "home")
    for folder in (ground.state_dir, ground.vault, ground.home):
        folder.mkdir()
    return ground


@pytest.fixture
def docs(ground: Ground) -> Path:
    folder = ground.home / "docs"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "AGAIN_S", 0.05)


@asynccontextmanager
async def shelf(ground: Ground, embedder: str | None = None) -> AsyncIterator[Databases]:
    """The databases as the daemon opens them."""
    async with AsyncExitStack() as stack:
        readers = await stack.enter_async_context(DocumentReaders(os.environ, ground.state_dir))
        workers = None
        if embedder:
            options = VectorOptions(embedder, ground.state_dir, os.environ, factory=FACTORY, patience=PATIENT)
            workers = await stack.enter_async_context(Workers(ground.state_dir / "chroma", options))

        def open_folder(folder: Path, place: Path, whose: str) -> AbstractAsyncContextManager[Corpus]:
            options = CorpusOptions(MOST_DOCUMENT_BYTES, whose=whose)
            return open_corpus(folder, place, options, lambda progress: None, workers, documents=readers)

        yield await stack.enter_async_context(open_databases(ground, open_folder))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


async def settled(databases: Databases, *, vectors: bool = False) -> None:
    """Wait until every database is loaded and indexed."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            states = (await databases.status())["databases"]
            if all(state.get("settled") for state in states) and (
                not vectors or all(state["chunks"]["vector"] == state["chunks"]["total"] for state in states)
            ):
                return
            await asyncio.sleep(0.02)


async def words(databases: Databases, query: str, db: str = "docs", limit: int = 100) -> list[Source]:
    found = await databases.search(db, query, "keyword", limit)
    assert found.semantic is None and found.keyword is not None
    return list(found.keyword)


async def names(databases: Databases, query: str, db: str = "docs") -> list[str]:
    return sorted(Path(source.path).name for source in await words(databases, query, db))


async def until_names(databases: Databases, query: str, expected: list[str]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await names(databases, query) != expected:
            await asyncio.sleep(0.02)


async def refusal(databases: Databases, *arguments: object) -> str:
    with pytest.raises(BadArguments) as refused:
        await databases.search(*arguments)  # pyright: ignore[reportArgumentType]
    return str(refused.value)


def tree_hash(folder: Path) -> str:
    """Names, times and bytes of everything below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        digest.update(f"{path.relative_to(folder)}|{status.st_mode}|{status.st_mtime_ns}|".encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def numbers(sources: Sequence[Source]) -> list[int]:
    return [number for source in sources for number, _ in source.matches]


# adding and removing


async def test_a_database_is_registered_at_once_loaded_soon_and_gone_at_once(ground: Ground, docs: Path) -> None:
    (docs / "rag.md").write_text("RAG combines retrieval with generation.\n\nAnother paragraph.\n")
    before = tree_hash(docs)
    async with shelf(ground) as databases:
        assert databases.listed() == type(databases.listed())([], [])
        added = await databases.add("my docs", str(docs))
        assert [db for db, _ in databases.listed().registered] == ["my_docs"] == [added["db"]]
        assert await refusal(databases, "my_docs", "retrieval", None, 10) == (
            "'my_docs' is registered but not loaded yet: its index is being opened. Try again soon."
        )
        await until(lambda: list(databases.listed().loaded) == ["my_docs"])
        await settled(databases)
        [source] = await words(databases, "retrieval", "my_docs")
        assert source.path == f"{docs.as_posix()}/rag.md"
        assert source.matches == [(1, "RAG combines retrieval with generation.")]
        [entry] = await asyncio.to_thread(Registry(ground.state_dir).entries)
        assert index_of(ground.state_dir, entry).is_dir()
        await databases.remove("my docs")
        assert databases.listed().registered == databases.listed().loaded == []
        assert await refusal(databases, "my_docs", "x", None, 10) == (
            "'my_docs' does not exist; list_rag names the databases."
        )
        assert not index_of(ground.state_dir, entry).exists()
        with pytest.raises(NotFound):
            await databases.remove("my_docs")
    assert tree_hash(docs) == before


async def test_searches_that_have_begun_are_answered_while_their_database_is_removed(
    ground: Ground, docs: Path
) -> None:
    for number in range(50):
        (docs / f"{number}.txt").write_text(f"common words {number}\n")
    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await settled(databases)
        searches = [asyncio.create_task(words(databases, "common words")) for _ in range(30)]
        await asyncio.sleep(0)
        await databases.remove("docs")
        assert [len(await search) for search in searches] == [50] * 30


async def test_databases_are_there_again_at_the_next_start_and_unknown_indexes_are_not(
    ground: Ground, docs: Path
) -> None:
    (docs / "a.txt").write_text("lighthouse\n")
    async with shelf(ground) as databases:
        for name in ("zebra", "apple"):
            await databases.add(name, str(docs))
        await settled(databases)
    stray = ground.state_dir / "databases" / "i-0123456789"
    stray.mkdir()
    async with shelf(ground) as databases:
        assert not stray.exists()
        assert [db for db, _ in databases.listed().registered] == ["zebra", "apple"]
        await until(lambda: list(databases.listed().loaded) == ["apple", "zebra"])
        await settled(databases)
        assert await names(databases, "lighthouse", "zebra") == ["a.txt"]


async def test_a_damaged_registry_stops_no_start_and_is_told(ground: Ground) -> None:
    (ground.state_dir / "db.json").write_text("{")
    async with shelf(ground) as databases:
        assert databases.listed().registered == []
        assert "db.json in the state folder is damaged" in (await databases.status())["databases_problem"]


# what can't be opened


async def test_one_whose_folder_is_missing_stays_registered_and_is_loaded_when_it_is_back(
    ground: Ground, docs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (docs / "a.txt").write_text("lighthouse\n")
    other = ground.home / "other"
    other.mkdir()
    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await databases.add("other", str(other))
        await settled(databases)
    docs.rename(ground.home / "away")
    caplog.clear()
    async with shelf(ground) as databases:
        await until(lambda: list(databases.listed().loaded) == ["other"])
        await until(lambda: "can't be opened" in str([d.why for d in databases._all.values()]))
        assert [db for db, _ in databases.listed().registered] == ["docs", "other"]
        assert await refusal(databases, "docs", "x", None, 10) == (
            "'docs' is registered but not loaded yet: its folder can't be opened. Try again soon."
        )
        state = (await databases.status())["databases"][0]
        assert (state["loaded"], state["problem"]) == (False, "it is not loaded: its folder can't be opened")
        await asyncio.sleep(0.3)  # several more attempts
        assert sum("'docs' is not loaded" in record.message for record in caplog.records) == 1
        (ground.home / "away").rename(docs)
        await until(lambda: list(databases.listed().loaded) == ["docs", "other"])
        await settled(databases)  # what is indexed is read in first
        assert await names(databases, "lighthouse") == ["a.txt"]


async def test_one_whose_index_cannot_be_opened_holds_up_no_other(ground: Ground, docs: Path) -> None:
    (docs / "a.txt").write_text("lighthouse\n")
    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await settled(databases)
    [entry] = await asyncio.to_thread(Registry(ground.state_dir).entries)
    place = index_of(ground.state_dir, entry)
    shutil.rmtree(place)
    place.write_text("in the way")
    async with shelf(ground) as databases:
        await databases.add("second", str(docs))
        await until(lambda: list(databases.listed().loaded) == ["second"])
        await until(lambda: "can't be opened" in str([d.why for d in databases._all.values()]))
        assert await refusal(databases, "docs", "x", None, 10) == (
            "'docs' is registered but not loaded yet: its index can't be opened. Try again soon."
        )
        place.unlink()
        await until(lambda: list(databases.listed().loaded) == ["docs", "second"])


def replaced_by_a_link(ground: Ground, docs: Path, above: bool) -> None:
    """A folder elsewhere stands behind the path of `docs` now, where that, or the folder above it, is a link."""
    elsewhere = ground.state_dir.parent / "elsewhere"
    (elsewhere / "docs").mkdir(parents=True)
    (elsewhere / "docs" / "canary.txt").write_text("canary elsewhere\n")
    moved = docs.parent if above else docs
    moved.rename(ground.state_dir.parent / "moved")
    moved.symlink_to(elsewhere if above else elsewhere / "docs")


@pytest.fixture
async def registered(ground: Ground) -> Path:
    """`docs`, with another folder above it that is not the home folder."""
    docs = ground.home / "above" / "docs"
    docs.mkdir(parents=True)
    (docs / "a.txt").write_text("lighthouse\n")
    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await settled(databases)
    return docs


@needs_links
@pytest.mark.parametrize("above", [False, True], ids=["in its place", "above it"])
async def test_a_link_that_was_put_in_the_way_of_a_folder_is_not_followed(
    ground: Ground, registered: Path, above: bool
) -> None:
    await asyncio.to_thread(replaced_by_a_link, ground, registered, above)
    async with shelf(ground) as databases:
        await until(lambda: "can't be opened" in str([d.why for d in databases._all.values()]))
        assert await refusal(databases, "docs", "canary", None, 10) == (
            "'docs' is registered but not loaded yet: its folder can't be opened. Try again soon."
        )
        assert databases.listed().loaded == []


@needs_links
@pytest.mark.parametrize("above", [False, True], ids=["in its place", "above it"])
async def test_without_a_second_look_what_is_behind_the_link_is_told(
    ground: Ground, registered: Path, above: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control."""
    monkeypatch.setattr(databases, "still_folder_of", lambda folder, ground: folder)
    await asyncio.to_thread(replaced_by_a_link, ground, registered, above)
    async with shelf(ground) as opened:
        await settled(opened)
        assert await names(opened, "canary") == ["canary.txt"]


# files that change


async def test_files_are_followed_as_they_change(ground: Ground, docs: Path) -> None:
    (docs / "sub").mkdir()
    (docs / "sub" / "one.txt").write_text("lighthouse\n")
    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await settled(databases)
        assert await names(databases, "lighthouse") == ["one.txt"]
        (docs / "sub" / "one.txt").write_text("windmill\n")
        await until_names(databases, "windmill", ["one.txt"])
        assert await names(databases, "lighthouse") == []
        (docs / "sub" / "one.txt").rename(docs / "two.txt")
        await until_names(databases, "windmill", ["two.txt"])
        [source] = await words(databases, "windmill")
        assert source.path == f"{docs.as_posix()}/two.txt"
        (docs / "three.md").write_text("windmill, too\n")
        await until_names(databases, "windmill", ["three.md", "two.txt"])
        (docs / "two.txt").unlink()
        await until_names(databases, "windmill", ["three.md"])


async def test_a_folder_that_goes_while_it_is_open_keeps_its_index_until_it_is_back_and_is_told_of_once(
    ground: Ground, docs: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "_AWAY_S", 0.05)
    (docs / "a.txt").write_text("lighthouse\n")
    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await settled(databases)
        caplog.clear()
        docs.rename(ground.home / "unmounted")
        async with asyncio.timeout(PATIENCE_S):
            while (await databases.status())["databases"][0]["phase"] != "vault unavailable":
                await asyncio.sleep(0.05)
        assert await names(databases, "lighthouse") == ["a.txt"]
        await asyncio.sleep(0.5)  # it is looked for several times
        (ground.home / "unmounted" / "b.txt").write_text("windmill\n")
        (ground.home / "unmounted").rename(docs)
        await until_names(databases, "windmill", ["b.txt"])
        assert await names(databases, "lighthouse") == ["a.txt"]
    [told] = [record.message for record in caplog.records if "is missing" in record.message]
    assert told == (
        "The folder of this database is missing, or another one is in its place."
        " The index of database 'docs' is kept, and the folder is looked for every 0 s"
    )


async def test_a_folder_that_is_found_empty_keeps_its_index_and_says_what_to_do(ground: Ground, docs: Path) -> None:
    for number in range(12):
        (docs / f"{number}.txt").write_text("lighthouse\n")
    (docs / "broken.pdf").write_bytes(b"broken")
    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await settled(databases)
    shutil.rmtree(docs)
    docs.mkdir()
    async with shelf(ground) as databases:
        async with asyncio.timeout(PATIENCE_S):
            while not (problem := (await databases.status())["databases"][0]["problem"]) or "not loaded" in problem:
                await asyncio.sleep(0.02)
        assert problem == (
            "The folder of this database holds no files any more; perhaps its disk is not mounted. If it was emptied on"
            " purpose, 'vault-sidecar db remove' deletes its index."
        )
        assert len(await names(databases, "lighthouse")) == 12


async def test_a_file_that_is_half_written_breaks_nothing(ground: Ground, docs: Path) -> None:
    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await until(lambda: bool(databases.listed().loaded))
        text = "".join(f"paragraph {number} about lighthouses\n\n" for number in range(200))
        data = text.encode() + "Ende: Müller".encode()
        with (docs / "slow.txt").open("wb") as file:
            for start in range(0, len(data), 700):
                file.write(data[start : start + 700])  # cuts letters of two bytes as well
                file.flush()
                await asyncio.sleep(0.005)
        await until_names(databases, "Müller", ["slow.txt"])
        await settled(databases)
        [source] = await words(databases, "lighthouses")
        assert len(source.matches) == len(set(numbers([source]))) == 100
        assert (await databases.status())["databases"][0]["chunks"]["total"] == 201


@needs_links
async def test_nothing_outside_the_folder_is_ever_a_source(
    ground: Ground, docs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    outside = ground.home / "outside"
    outside.mkdir()
    (outside / "canary.txt").write_text("canary outside\n")
    (docs / "in.txt").write_text("canary inside\n")
    (docs / "link.txt").symlink_to(outside / "canary.txt")
    (docs / "folder").symlink_to(outside)
    (docs / ".hidden.txt").write_text("canary hidden\n")
    (docs / ".git").mkdir()
    (docs / ".git" / "config.txt").write_text("canary in git\n")
    os.mkfifo(docs / "pipe.txt")
    odd = os.fsencode(docs) + b"/caf\xe9.txt"
    with open(odd, "wb") as file:
        file.write(b"canary of a name that is not UTF-8\n")
    strange = {"-rf; $(x) \\n.txt", "line\n2026 ERROR forged\x1b[2J.txt"}
    for name in strange:
        (docs / name).write_text("canary strange\n")
    (docs / "no\x1b[2J.pdf").write_bytes(b"broken")
    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await settled(databases)
        sources = await words(databases, "canary")
        assert {Path(source.path).name for source in sources} == {"in.txt", *strange}
        assert all(source.path.startswith(f"{docs.as_posix()}/") for source in sources)
        (outside / "canary.txt").write_text("canary changed outside\n")
        (docs / "in.txt").unlink()
        (docs / "in.txt").symlink_to(outside / "canary.txt")
        await until_names(databases, "canary", sorted(strange))
    told = [record.message for record in caplog.records if record.name.startswith("sidecar")]
    assert all(message.isprintable() for message in told)
    skipped = [message for message in told if message.startswith("skipped ")]
    assert len(skipped) >= 3 and all(" of database 'docs': " in message for message in skipped)


# the two branches


@pytest.mark.parametrize("embedder", ["hash", None], ids=["with an embedder", "without one"])
@pytest.mark.parametrize("query", ["lighthouse keeper", "nonsense"], ids=["hit", "no hit"])
@pytest.mark.parametrize("branch", [None, "keyword", "semantic"])
async def test_the_branches_that_run(
    ground: Ground, docs: Path, embedder: str | None, query: str, branch: str | None
) -> None:
    (docs / "a.txt").write_text("lighthouse keeper\n")
    async with shelf(ground, embedder) as databases:
        await databases.add("docs", str(docs))
        await settled(databases, vectors=embedder is not None)
        if embedder is None and branch == "semantic":
            assert await refusal(databases, "docs", query, branch, 10) == (
                'Semantic search is not available: embeddings are off or their model is missing. Use mode "keyword".'
            )
            return
        found = await databases.search("docs", query, branch, 10)  # pyright: ignore[reportArgumentType]
    hits = [Source(f"{docs.as_posix()}/a.txt", [(1, "lighthouse keeper")])] if query != "nonsense" else []
    ran = {"keyword": branch != "semantic", "semantic": branch != "keyword" and embedder is not None}
    assert found == Found(hits if ran["keyword"] else None, hits if ran["semantic"] else None)


async def test_a_model_that_is_missing_is_none(ground: Ground, docs: Path) -> None:
    (docs / "a.txt").write_text("lighthouse keeper\n")
    async with shelf(ground, "missing") as databases:
        await databases.add("docs", str(docs))
        await settled(databases)
        async with asyncio.timeout(PATIENCE_S):
            while not (sentence := await refusal(databases, "docs", "lighthouse", "semantic", 10)).endswith('rd".'):
                assert sentence.startswith("Semantic search is not available now. ")
                await asyncio.sleep(0.02)
        found = await databases.search("docs", "lighthouse", None, 10)
        assert (found.semantic, len(found.keyword or ())) == (None, 1)


async def test_a_limit_counts_passages_and_equal_ones_stand_in_the_order_of_the_files(
    ground: Ground, docs: Path
) -> None:
    (docs / "b.txt").write_text("the same words\n\n" * 125)
    (docs / "a.txt").write_text("the same words\n\n" * 125)
    async with shelf(ground, "hash") as databases:
        await databases.add("docs", str(docs))
        await settled(databases, vectors=True)
        for limit in (1, 10, 100):
            found = await databases.search("docs", "same words", None, limit)
            assert found.keyword is not None and found.semantic is not None
            for branch in (found.keyword, found.semantic):
                assert [Path(source.path).name for source in branch] == ["a.txt"]
                assert numbers(branch) == list(range(1, limit + 1))
        sources = await words(databases, "same words", limit=200)
        assert [Path(source.path).name for source in sources] == ["a.txt", "b.txt"]
        assert numbers(sources) == [*range(1, 126), *range(1, 76)]


@pytest.mark.parametrize("most", [exact.MOST, 0], ids=["compared one by one", "by the graph"])
async def test_a_passage_among_many_equal_ones_is_found_by_meaning(
    ground: Ground, docs: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The second is the control: a graph has no way to those that stand beside many equal ones."""
    monkeypatch.setattr(exact, "MOST", most)
    (docs / "a.txt").write_text("green apple tree\n\nblue sky above\n")
    (docs / "b.txt").write_text("an equal row\n\n" * 1_000)
    async with shelf(ground, "hash") as databases:
        await databases.add("docs", str(docs))
        await settled(databases, vectors=True)
        queries = ("green apple tree", "blue sky above")
        found = [await databases.search("docs", query, "semantic", 1) for query in queries]
        hits = [Path(answer.semantic[0].path).name for answer in found if answer.semantic]
        assert (hits == ["a.txt", "a.txt"]) == (most > 0)


async def test_sources_stand_in_the_order_of_their_best_passage_and_nothing_comes_twice(
    ground: Ground, docs: Path
) -> None:
    (docs / "weak.txt").write_text("one word about lighthouses among very many others that say nothing of them\n")
    (docs / "strong.txt").write_text("nothing here\n\nlighthouses lighthouses\n\nlighthouses and more of it to read\n")
    async with shelf(ground, "hash") as databases:
        await databases.add("docs", str(docs))
        await settled(databases, vectors=True)
        found = await databases.search("docs", "lighthouses", None, 100)
        for branch in (found.keyword, found.semantic):
            assert branch is not None
            assert [Path(source.path).name for source in branch][:1] == ["strong.txt"]
            places = [(source.path, number) for source in branch for number, _ in source.matches]
            assert len(places) == len(set(places))
            assert len({source.path for source in branch}) == len(branch)
        assert [number for number, _ in (found.keyword or ())[0].matches] == [2, 3]
        assert [Path(source.path).name for source in found.keyword or ()] == ["strong.txt", "weak.txt"]


# mistakes


@pytest.mark.parametrize(
    "arguments",
    [
        {"db": "docs", "q": "plum", "mode": "fuzzy"},
        {"db": "docs"},
        {"db": "docs", "q": "  "},
        {"db": "docs", "q": "plum", "limit": "5"},
        {"db": "../x", "q": "plum"},
        {"db": "%", "q": "plum"},
        {"db": "nope", "q": "plum"},
    ],
)
async def test_a_mistake_never_touches_an_index(
    ground: Ground, docs: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, object]
) -> None:
    """The control is in it: the same call without a mistake is counted."""
    (docs / "a.txt").write_text("a plum\n")
    original, asked = Corpus.passages, []

    async def counted(corpus: Corpus, query: str, limit: int, by: Literal["words", "meaning"]) -> list[Passage]:
        asked.append(query)
        return await original(corpus, query, limit, by)

    monkeypatch.setattr(Corpus, "passages", counted)
    [tool] = [tool for tool in SURFACE.tools if tool.name == "search_rag"]

    async def call(given: dict[str, object], databases: Databases) -> None:
        args = check(tool.args, given, owner=tool.name, numbers=SURFACE.numbers)
        await tool.run(SimpleNamespace(databases=databases), args, call_by())  # pyright: ignore[reportArgumentType]

    async with shelf(ground) as databases:
        await databases.add("docs", str(docs))
        await settled(databases)
        with pytest.raises(BadArguments):
            await call(arguments, databases)
        assert asked == []
        await call({"db": "docs", "q": "plum", "mode": "keyword"}, databases)
        assert asked == ["plum"]
