"""Ids, links and times of single notes, over a real vault and its manifest."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.index import aside
from sidecar.index.cards import Card, card_of, last_of_folder, links_of, mean_vector, recent
from sidecar.index.corpus import Corpus
from sidecar.index.linking import MOST_OF_ONE_NAME, resolve
from sidecar.index.manifest_file import FILE_NAME, SCHEMA_VERSION
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.search import Mode
from sidecar.vault.kp_block import Namespace, parse_id
from tests.index.vaults import embedded, opened, settled, until

KP = "kp:0190a5c4-7f3b-7d11-8a52-3f1f6f0a9b21"


def write(vault: Path, notes: dict[str, str]) -> Path:
    for path, text in notes.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    return vault


def claiming(note_id: str, text: str = "") -> str:
    return f"---\nkp_id: '{note_id}'\n---\n{text}"


async def card(corpus: Corpus, raw: str) -> Card | None:
    return await corpus.ask(lambda reader: card_of(reader, parse_id(raw)))


async def ids(corpus: Corpus) -> dict[str, str]:
    """The id of each note, by path."""
    found: dict[str, str] = {}
    for path in corpus.names():
        one = await card(corpus, f"path:{path}")
        assert one is not None and one.path == path
        found[path] = one.note_id
    return found


async def looked_at(corpus: Corpus, vault: Path, notes: dict[str, str | None]) -> None:
    """Change files, and wait until they are indexed."""
    for path, text in notes.items():
        if text is None:
            (vault / path).unlink()
        else:
            write(vault, {path: text})

    async def is_so(path: str, text: str | None) -> bool:
        stored = await corpus.ask(lambda reader: reader.text_at(path))
        return stored == text

    async with asyncio.timeout(30):
        generation = corpus.generation
        while not all([await is_so(path, text) for path, text in notes.items()]):
            generation = await corpus.wait_beyond(generation)
    await settled(corpus)


# ids


async def test_N28_an_id_of_two_files_belongs_to_the_shortest_path_then_the_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vault = write(
        tmp_path / "vault", {"z.md": claiming(KP), "a/b.md": claiming(KP), "a.md": claiming("kp:1"), "n.md": "plain"}
    )
    with caplog.at_level(logging.WARNING):
        async with opened(vault, tmp_path / "state") as corpus:
            assert await ids(corpus) == {"z.md": KP, "a/b.md": "path:a/b.md", "a.md": "kp:1", "n.md": "path:n.md"}
            assert [line for line in caplog.messages if "a/b.md" in line] == [
                "another note has the id of a/b.md; its path is its id"
            ]
            owner = await card(corpus, KP)
            assert owner is not None and owner.path == "z.md"
            await looked_at(corpus, vault, {"b.md": claiming(KP)})
            assert (await ids(corpus))["b.md"] == KP
            assert (await ids(corpus))["z.md"] == "path:z.md"
            await looked_at(corpus, vault, {"b.md": "no claim any more", "n.md": claiming("kp:1")})
            assert await ids(corpus) == {
                "a.md": "kp:1", "a/b.md": "path:a/b.md", "b.md": "path:b.md", "n.md": "path:n.md", "z.md": KP,
            }  # fmt: skip
            await looked_at(corpus, vault, {"z.md": None, "a.md": claiming("kp:2")})
            assert await ids(corpus) == {"a.md": "kp:2", "a/b.md": KP, "b.md": "path:b.md", "n.md": "kp:1"}
            await looked_at(corpus, vault, {"a/b.md": None})
            assert await card(corpus, KP) is None


async def test_an_id_goes_with_a_renamed_note(tmp_path: Path) -> None:
    vault = write(tmp_path / "vault", {"a.md": claiming(KP, "text"), "long name.md": claiming(KP, "other")})
    async with opened(vault, tmp_path / "state") as corpus:
        (vault / "a.md").rename(vault / "a much longer name.md")
        await until(corpus, lambda: list(corpus.names()) == ["a much longer name.md", "long name.md"])
        await settled(corpus)
        assert await ids(corpus) == {"a much longer name.md": "path:a much longer name.md", "long name.md": KP}


@pytest.mark.parametrize("raw", ["kp:nothing", "path:nothing.md", "kp:\udc80", "curio:\0", "path:a.MD"])
async def test_an_id_that_no_note_has_finds_none(tmp_path: Path, raw: str) -> None:
    async with opened(write(tmp_path / "vault", {"a.md": "x"}), tmp_path / "state") as corpus:
        assert await card(corpus, raw) is None


async def test_the_owner_of_an_id_is_found_without_looking_at_all_who_claim_it(tmp_path: Path) -> None:
    """Fifty thousand files with one id would cost the square of that."""
    async with opened(write(tmp_path / "vault", {"a.md": claiming(KP)}), tmp_path / "state") as corpus:
        await settled(corpus)
    with closing(sqlite3.connect(tmp_path / "state" / FILE_NAME)) as db:
        first = "SELECT note_key FROM notes WHERE claimed = ? ORDER BY length(path), path LIMIT 1"
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {first}", (KP,))]
        assert len(plan) == 1 and "INDEX notes_claiming" in plan[0]


# links


@pytest.mark.parametrize(
    ("target", "kind", "to"),
    [
        ("B", "wikilink", "path:B.md"),
        ("b", "wikilink", "path:B.md"),
        ("p/b", "wikilink", "path:P/b.md"),
        ("sub/Deep", "wikilink", "path:P/Sub/Deep.md"),
        ("deep", "wikilink", "path:P/Sub/Deep.md"),
        ("ub/Deep", "wikilink", "path:ub/Deep.md"),
        ("Q/Deep", "wikilink", "path:Q/Deep.md"),
        ("B", "markdown", "path:P/b.md"),
        ("P/b", "markdown", "path:P/b.md"),
        ("Sub/Deep", "markdown", "path:P/Sub/Deep.md"),
        ("other name", "wikilink", "path:P/alias.md"),
        ("far", "wikilink", "path:far.md"),
        ("twin", "wikilink", "path:X/twin.md"),
        ("zwei/twin", "wikilink", "path:A/Zwei/twin.md"),
        ("near", "wikilink", "path:P/near.md"),
        ("U\u0308nï", "wikilink", "path:\u00dcnï.md"),
        ("AC/DC", "wikilink", "path:P/alias.md"),
        ("nobody", "wikilink", "path:nobody.md"),
        ("no/body", "markdown", "path:no/body.md"),
    ],
)
async def test_a_link_is_resolved_by_path_then_by_stem_or_alias(
    linked: Corpus, target: str, kind: str, to: str
) -> None:
    def ask(reader: ManifestReader) -> list[tuple[str, str]]:
        return resolve("P/from.md", [(target, kind)], lambda name: reader.notes_called(name, MOST_OF_ONE_NAME))  # type: ignore[list-item]

    assert await linked.ask(ask) == [(to, kind)]


LINKED = {
    "B.md": "", "P/b.md": "", "P/Sub/Deep.md": "", "far.md": "", "A/far.md": "", "Ünï.md": "",
    "P/alias.md": "---\naliases: [Other Name, far away, AC/DC]\n---\n",
    "X/twin.md": "", "A/Zwei/twin.md": "", "Z/twin.md": "", "near.md.md": "", "P/near.md": "", "near/near.md": "",
    "C/known.md": claiming(KP),
    "P/from.md": "[[B]] [[b#x|y]] ![[known]] [k](../C/known.md) [[from]] [[P/from]] [e](https://e.org) [m](mailto:a@b)"
    " [[#here]] [[nobody]] [p](b.md)",
}  # fmt: skip


@pytest.fixture
async def linked(tmp_path: Path) -> AsyncIterator[Corpus]:
    async with opened(write(tmp_path / "vault", LINKED), tmp_path / "state") as corpus:
        yield corpus


async def test_links_of_a_note_are_unique_sorted_and_not_to_itself(linked: Corpus) -> None:
    assert await linked.ask(lambda reader: links_of(reader, "P/from.md")) == [
        (KP, "markdown"),
        (KP, "wikilink"),
        ("path:B.md", "wikilink"),
        ("path:P/b.md", "markdown"),
        ("path:nobody.md", "wikilink"),
    ]
    assert await linked.ask(lambda reader: links_of(reader, "gone.md")) == []


def test_notes_of_one_name_are_looked_at_up_to_a_limit() -> None:
    asked: list[str] = []

    def called(name: str) -> list[tuple[str, str]]:
        asked.append(name)
        return (
            []
            if name != "index"
            else [(f"{'d/' * depth}index.md", f"path:{depth}") for depth in range(1, MOST_OF_ONE_NAME)]
        )

    links = [(f"{number}/index", "wikilink") for number in range(50)]
    assert len(resolve("from.md", links, called)) == 50  # type: ignore[arg-type]
    assert len(asked) == len(set(asked)) == 51  # each name once


# titles


async def first(corpus: Corpus, query: str, mode: Mode = "keyword", k: int = 10) -> list[str]:
    return [hit.path for hit in (await corpus.search(query, k, mode)).hits]


SUBJECT = "sleep well sleep long sleep deep, and sleep again " * 5
TITLED = {
    "d/aa.md": "---\ntitle: Sleep\n---\n" + "A long text about the night. " * 25,
    "sleep.md": "---\ntitle: Other\n---\nNothing of it.",
    "b.md": "---\naliases: ['  SLEEP ']\n---\nNothing of it.",
    "long.md": SUBJECT,
    "Sleeping.md": "sleep",
}  # fmt: skip


@pytest.mark.parametrize("query", ["Sleep", "sleep", " SLEEP  "])
async def test_the_note_with_the_title_comes_first_then_those_of_the_name(tmp_path: Path, query: str) -> None:
    async with opened(write(tmp_path / "vault", TITLED), tmp_path / "state", embedder="hash") as corpus:
        await embedded(corpus)
        for mode in ("keyword", "hybrid"):
            found = await corpus.search(query, 10, mode)
            paths, scores = [hit.path for hit in found.hits], [hit.score for hit in found.hits]
            assert paths[0] == "d/aa.md"
            assert set(paths[1:3]) == {"sleep.md", "b.md"}
            assert set(paths[3:5]) == {"long.md", "Sleeping.md"}
            assert scores == sorted(scores, reverse=True)
            assert await first(corpus, query, mode, 1) == ["d/aa.md"]
            assert len(set(paths)) == len(paths)
        assert 0 < found.hits[-1].score <= found.hits[0].score <= 1
        # passages are ranked by what they say alone, and so would notes be
        for mode in ("keyword", "hybrid"):
            assert (await corpus.search(query, 10, mode, per_note=2)).hits[0].path != "d/aa.md"


async def test_a_title_is_no_name_that_a_link_may_use(tmp_path: Path) -> None:
    vault = write(tmp_path / "vault", {"a.md": "---\ntitle: The Title\n---\n", "b.md": "[[The Title]]"})
    async with opened(vault, tmp_path / "state") as corpus:
        assert await corpus.ask(lambda reader: links_of(reader, "b.md")) == [("path:The Title.md", "wikilink")]
        assert await first(corpus, "the title") == ["a.md", "b.md"]
        await looked_at(corpus, vault, {"a.md": "---\ntitle: Another\n---\n"})
        assert await first(corpus, "another") == ["a.md"]
        assert await first(corpus, "the title") == ["b.md"]


# times


async def rows(corpus: Corpus, days: int = 7, kind: Namespace | None = None, now: int | None = None) -> list[str]:
    moment = int(time.time()) if now is None else now
    found = await corpus.ask(lambda reader: recent(reader, moment - days * 86_400, moment, kind, 50))
    return [one.note_id for one in found]


def set_times(state: Path, times: dict[str, int]) -> None:
    with closing(sqlite3.connect(state / FILE_NAME)) as db, db:
        db.executemany("UPDATE notes SET ingested_at = ? WHERE path = ?", [(at, path) for path, at in times.items()])


async def test_recent_goes_by_the_time_of_indexing_then_by_id(tmp_path: Path) -> None:
    now = 1_800_000_000
    notes = {f"{number:02}.md": "x" for number in range(51)} | {
        "old.md": "x",
        "kp.md": claiming(KP),
        "c.md": claiming("curio:1"),
    }
    vault, state = write(tmp_path / "vault", notes), tmp_path / "state"
    async with opened(vault, state) as corpus:
        times = dict.fromkeys(notes, now - 60)
        times |= {"old.md": now - 7 * 86_400, "30.md": now - 5, "kp.md": now + 10_000, "00.md": now, "c.md": now - 61}
        await asyncio.to_thread(set_times, state, times)
        found = await rows(corpus, now=now)
        first = [KP, "path:00.md", "path:30.md"]  # what lies ahead counts as now
        rest = [f"path:{number:02}.md" for number in range(1, 51) if number != 30]
        assert found == (first + rest)[:50]
        assert await rows(corpus, kind="kp", now=now) == [KP]
        assert await rows(corpus, kind="curio", now=now) == ["curio:1"]
        assert await rows(corpus, kind="zotero", now=now) == []
        assert KP not in await rows(corpus, kind="path", now=now)
        assert await rows(corpus, days=0, now=now) == []
        assert "path:old.md" not in await rows(corpus, kind="path", days=7, now=now)
        assert await rows(corpus, days=3650, now=now + 3600 * 86_400) == found


async def test_a_rebuild_and_a_new_layout_keep_the_times_of_unchanged_notes(tmp_path: Path) -> None:
    vault, state = write(tmp_path / "vault", {"a.md": "a", "b.md": "b", "c.md": claiming(KP)}), tmp_path / "state"

    async def times(corpus: Corpus) -> dict[str, int]:
        found = await corpus.ask(lambda reader: [card_of(reader, parse_id(f"path:{n}.md")) for n in "abc"])
        return {one.path: one.ingested_at for one in found if one}

    old = {"a.md": 1_000, "b.md": 2_000, "c.md": 3_000}
    async with opened(vault, state) as corpus:
        await asyncio.to_thread(set_times, state, old)
        corpus.rebuild()
        await settled(corpus)
        assert await times(corpus) == old
    (vault / "b.md").write_text("changed")
    with closing(sqlite3.connect(state / FILE_NAME)) as db, db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    async with opened(vault, state) as corpus:
        assert len(await asyncio.to_thread(aside.found, state / FILE_NAME)) == 1
        now = await times(corpus)
        assert (now["a.md"], now["c.md"]) == (1_000, 3_000)
        assert now["b.md"] > 1_700_000_000
        (vault / "a.md").unlink()
        await until(corpus, lambda: "a.md" not in corpus.names())
        await looked_at(corpus, vault, {"a.md": "a"})
        assert (await times(corpus))["a.md"] > 1_700_000_000  # it is new now, whatever was known of it once


async def test_the_last_note_of_a_folder_is_found_by_path(tmp_path: Path) -> None:
    notes = {
        "d/1.md": claiming("kp:1"),
        "d/2.md": claiming("kp:2"),
        "d/3.md": "x",
        "d2/9.md": claiming("kp:9"),
        "d/x/0.md": claiming("zotero:1"),
    }
    async with opened(write(tmp_path / "vault", notes), tmp_path / "state") as corpus:
        found = await corpus.ask(lambda reader: last_of_folder(reader, "d", "kp"))
        assert found is not None and found.path == "d/2.md"
        assert await corpus.ask(lambda reader: last_of_folder(reader, "e", "kp")) is None


# meaning


async def test_related_is_by_the_mean_of_the_vectors_without_the_note_itself(tmp_path: Path) -> None:
    near = "heat pump boiler winter"
    notes = {
        "anchor.md": f"# a\n{near} {near}",
        "close.md": f"{near} house",
        "far.md": "poetry of the sea",
        "b.md": f"{near} house",
        "empty.md": "",
    }
    async with opened(write(tmp_path / "vault", notes), tmp_path / "state", embedder="hash") as corpus:
        await embedded(corpus)
        found = await corpus.related("anchor.md", 10)
        assert [hit.path for hit in found][:2] in (["b.md", "close.md"], ["close.md", "b.md"])
        assert "anchor.md" not in [hit.path for hit in found]
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        assert len(await corpus.related("anchor.md", 1)) == 1
        assert await corpus.related("empty.md", 10) == []
        assert await corpus.related("gone.md", 10) == []
        assert await corpus.ask(lambda reader: mean_vector(reader, "empty.md", "hash@1/256")) is None
    shutil.rmtree(tmp_path / "state")
    async with opened(tmp_path / "vault", tmp_path / "state") as corpus:
        assert await corpus.related("anchor.md", 10) == []
