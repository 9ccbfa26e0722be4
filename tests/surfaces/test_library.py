"""The library tools keep the shapes, limits and sentences of their contract, over a real vault."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sidecar.index.manifest_file import FILE_NAME
from tests.index.vaults import embedded, settled, until
from tests.surfaces.tools import Tools, open_tools

KP = "kp:0190a5c4-7f3b-7d11-8a52-3f1f6f0a9b21"
CURIO = "curio:1f0a2b3c-0000-4000-8000-000000000001"
NOT_AN_ID = "is not a note id; use curio:…, zotero:…, kp:… or path:Folder/Note.md."
NOTES: dict[str, str | bytes] = {
    "Projects/Plan.md": "# The plan\n\nThe winter plan has three parts.\n"
    "See [[Offer|the offer]], [[nobody]] and [k](../Kp.md).\n",
    "Projects/Offer.md": "---\ntitle: Offer\naliases: [quote]\nsecretkey: zeppelin\ntags: [house]\n---\n"
    "A heat pump for the winter.\n",
    "Kp.md": f"---\nkp_id: {KP}\nkp_schema: kp-note/v1\ntitle: Kept\ntags: [a, b]\n"
    "created: 2026-01-02T03:04:05Z\nupdated: 2026-02-03\nsource: https://e.org/x\n---\n"
    "A note of a producer about boilers.\n",
    "Clips/Clip.md": f"---\nschema: curio.frontmatter.v1\ncurio_id: {CURIO[6:]}\n"
    "saved: 2026-03-04T05:06:07Z\nsource: https://clip.org/y\ntags: [web]\n---\nClipped words about boilers.\n",
    "Web.md": "---\ntitle: A clip\nurl: https://w.org\npublished: 2025-05-05\n---\nWords of a web page.\n",
    "Zotero.md": "---\nkp_id: zotero:ABCD2345\n---\nA reference.\n",
    "Broken.md": "---\nkp_id: [kp:1\ntitle: {{x}}\n---\nBroken block, whole body.\n",
    "Status.md": f"---\nkp_id: {KP}\nstatus: open\n---\nForbidden.\n",
    "Twin/Kp.md": f"---\nkp_id: {KP}\n---\nA second note with one id.\n",
    "Empty.md": "",
    "Open.md": "---\nno end of this block\n",
    "Bytes.md": b"\xef\xbb\xbf---\r\ntitle: bytes\r\n---\r\ncaf\xe9 and\0nul\r\n",
    "日本.md": "桜の季節に三日間泊まった。\n",
}  # fmt: skip


def write(vault: Path, notes: dict[str, str | bytes]) -> Path:
    for path, text in notes.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / ".draft").write_bytes(text.encode() if isinstance(text, str) else text)
        (vault / ".draft").replace(vault / path)  # else it would be empty for a moment
    return vault


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return write(tmp_path / "vault", NOTES)


@pytest.fixture
async def tools(vault: Path, tmp_path: Path) -> AsyncIterator[Tools]:
    async with open_tools(vault, tmp_path / "state") as tools:
        yield tools


@pytest.fixture
async def meaning(vault: Path, tmp_path: Path) -> AsyncIterator[Tools]:
    """The same with vectors."""
    async with open_tools(vault, tmp_path / "state", embedder="hash") as tools:
        await embedded(tools.corpus)
        yield tools


def paths(facts: dict[str, Any]) -> list[str]:
    return [hit["path"] for hit in facts["results"]]


# kp_search


async def test_search_by_words_has_the_shape_and_marks_the_words(tools: Tools) -> None:
    found = await tools.facts("kp_search", query="winter plan", mode="fts")
    assert found["mode"] == "fts"
    assert paths(found) == ["Projects/Plan.md", "Projects/Offer.md"]
    first = found["results"][0]
    assert set(first) == {"id", "title", "path", "snippet", "score"}
    assert (first["id"], first["title"]) == ("path:Projects/Plan.md", "Plan")
    assert "[winter] [plan]" in first["snippet"]


async def test_hybrid_without_vectors_says_that_words_served_it(tools: Tools) -> None:
    found = await tools.facts("kp_search", query="boilers")
    assert found["mode"] == "fts"
    assert {hit["id"] for hit in found["results"]} == {KP, CURIO}


async def test_vector_without_vectors_is_an_error(tools: Tools) -> None:
    assert await tools.refusal("kp_search", query="x", mode="vector") == (
        'There is no vector index: embeddings are off or their model is missing. Use mode "fts".'
    )


async def test_every_mode_is_served_as_asked_where_there_are_vectors(meaning: Tools) -> None:
    for mode in ("hybrid", "vector", "fts"):
        found = await meaning.facts("kp_search", query="boilers of a producer", mode=mode, k=100)
        assert found["mode"] == mode
        scores = [hit["score"] for hit in found["results"]]
        assert scores == sorted(scores, reverse=True)
        assert len(set(paths(found))) == len(paths(found))
        assert found["results"][0]["id"] == KP
        assert ("[boilers]" in found["results"][0]["snippet"]) is (mode != "vector")
    assert (await meaning.facts("kp_search", query="boilers"))["mode"] == "hybrid"
    assert len((await meaning.facts("kp_search", query="boilers", k=1))["results"]) == 1


NAMES = ("red", "sea", "sky", "sun", "tin")


async def test_equal_scores_are_in_the_order_of_ids_wherever_the_answer_ends(tmp_path: Path) -> None:
    notes: dict[str, str | bytes] = {f"{name}.md": "the same words" for name in NAMES[::-1]}
    notes["z.md"] = f"---\nkp_id: {KP}\n---\nthe same words"
    async with open_tools(write(tmp_path / "vault", notes), tmp_path / "state") as tools:
        whole = [hit["id"] for hit in (await tools.facts("kp_search", query="same words"))["results"]]
        assert whole == [KP, *(f"path:{name}.md" for name in NAMES)]
        for k in range(1, 7):
            assert [h["id"] for h in (await tools.facts("kp_search", query="same words", k=k))["results"]] == whole[:k]


async def test_a_snippet_shows_the_matching_text_and_never_the_frontmatter(tools: Tools) -> None:
    for query in ("quote", "house", "Offer", "winter", "heat pump"):
        [hit] = [
            h for h in (await tools.facts("kp_search", query=query))["results"] if h["path"] == "Projects/Offer.md"
        ]
        assert hit["snippet"].replace("[", "").replace("]", "") == "A heat pump for the winter."
    assert paths(await tools.facts("kp_search", query="zeppelin")) == []


async def test_a_snippet_is_one_line_of_160_characters_around_the_words(tools: Tools, vault: Path) -> None:
    write(vault, {"Long.md": "one word\n" * 90 + "the needle here\n" + "more text\n" * 90})
    await until(tools.corpus, lambda: "Long.md" in tools.corpus.names())
    await settled(tools.corpus)
    snippet = (await tools.facts("kp_search", query="needle"))["results"][0]["snippet"]
    assert "[needle]" in snippet and "\n" not in snippet
    assert snippet[0] == "…"
    assert len(snippet.replace("[", "").replace("]", "").strip("…")) <= 160


async def test_text_without_a_searchable_word_finds_nothing(tools: Tools) -> None:
    assert await tools.facts("kp_search", query="!!! ---", mode="fts") == {"mode": "fts", "results": []}


@pytest.mark.parametrize("query", ["(a+)+$", "*", "[", "\\", '"', "%' OR 1=1 --", "../x", "winter*"])
async def test_N24_a_query_is_plain_text(tools: Tools, query: str) -> None:
    await tools.facts("kp_search", query=query)


MODE = "mode: must be one of hybrid, vector, fts."
DAYS = "days: must be a whole number from 0 to 3,650."
WHOLE = "must be a whole number from 1 to 100."


@pytest.mark.parametrize("tool", ["kp_search", "kp_related"])
@pytest.mark.parametrize(
    "k",
    [
        pytest.param(0, id="N25-0"),
        pytest.param(-1, id="N25--1"),
        pytest.param(101, id="N25-101"),
        pytest.param(10**9, id="N25-10^9"),
        pytest.param(1.5, id="N25-1.5"),
        pytest.param("ten", id="N25-ten"),
        pytest.param(True, id="N25-true"),
        pytest.param(None, id="N25-null"),
    ],
)
async def test_a_number_that_is_none_of_the_allowed_is_an_error(tools: Tools, tool: str, k: object) -> None:
    first = {"query": "x"} if tool == "kp_search" else {"id": "path:Kp.md"}
    assert await tools.refusal(tool, **first, k=k) == f"k: {WHOLE}"


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("kp_search", {}, "query: is required."),
        ("kp_search", {"query": " \n "}, "query: is required."),
        ("kp_search", {"query": "x" * 2001}, "query: at most 2,000 characters."),
        ("kp_search", {"query": 3}, "query: must be text."),
        pytest.param("kp_search", {"query": "x", "mode": "bm25"}, MODE, id="N27-mode"),
        ("kp_search", {"query": "x", "mode": None}, MODE),
        ("kp_search", {"query": "x", "colour": 1}, "colour: is not an argument of kp_search."),
        ("kp_get_note", {}, "id: is required."),
        ("kp_get_note", {"id": 3}, "id: must be text."),
        pytest.param("kp_recent", {"days": -1}, DAYS, id="N26--1"),
        pytest.param("kp_recent", {"days": 10**9}, DAYS, id="N26-10^9"),
        pytest.param("kp_recent", {"days": float("nan")}, DAYS, id="N26-NaN"),
        ("kp_recent", {"days": 3651}, DAYS),
        pytest.param("kp_recent", {"kind": "md"}, "kind: must be one of curio, zotero, kp, path.", id="N27-kind"),
        ("kp_digest_latest", {"x": 1}, "x: is not an argument of kp_digest_latest."),
    ],
)  # fmt: skip
async def test_mistakes_are_named(tools: Tools, tool: str, arguments: dict[str, Any], sentence: str) -> None:
    assert await tools.refusal(tool, **arguments) == sentence


async def test_the_limits_themselves_are_allowed(tools: Tools) -> None:
    for arguments in (
        {"query": "x" * 2000},
        {"query": "x", "k": 1},
        {"query": "x", "k": 100},
        {"query": "x", "k": 5.0},
    ):
        await tools.facts("kp_search", **arguments)
    for days in (0, 3650, 7.0):
        assert (await tools.facts("kp_recent", days=days))["days"] == days


# kp_get_note


async def test_a_note_of_a_producer_whole(tools: Tools, vault: Path) -> None:
    data = (vault / "Kp.md").read_bytes()
    assert await tools.facts("kp_get_note", id=KP) == {
        "id": KP,
        "title": "Kept",
        "path": "Kp.md",
        "content": "A note of a producer about boilers.\n",
        "frontmatter": {
            "tags": ["a", "b"],
            "source": "https://e.org/x",
            "created": "2026-01-02T03:04:05Z",
            "updated": "2026-02-03T00:00:00Z",
            "checksum": f"sha256:{hashlib.sha256(data).hexdigest()}",
        },
        "index": {"ingested_at": (await tools.facts("kp_get_note", id=KP))["index"]["ingested_at"], "links": []},
    }


@pytest.mark.parametrize(
    ("asked", "note_id", "path"),
    [
        (KP, KP, "Kp.md"),
        ("path:Kp.md", KP, "Kp.md"),
        (CURIO, CURIO, "Clips/Clip.md"),
        ("path:Clips/Clip.md", CURIO, "Clips/Clip.md"),
        ("zotero:ABCD2345", "zotero:ABCD2345", "Zotero.md"),
        ("path:Projects/Plan.md", "path:Projects/Plan.md", "Projects/Plan.md"),
        pytest.param("path:Twin/Kp.md", "path:Twin/Kp.md", "Twin/Kp.md", id="N28"),
        ("path:Status.md", "path:Status.md", "Status.md"),
        ("path:Broken.md", "path:Broken.md", "Broken.md"),
        ("path:日本.md", "path:日本.md", "日本.md"),
    ],
)
async def test_a_note_is_found_by_its_id_and_by_its_path(tools: Tools, asked: str, note_id: str, path: str) -> None:
    found = await tools.facts("kp_get_note", id=asked)
    assert (found["id"], found["path"]) == (note_id, path)
    assert (await tools.facts("kp_related", id=asked)) == {"id": note_id, "results": []}


@pytest.mark.parametrize(
    ("path", "title", "frontmatter"),
    [
        ("Web.md", "A clip", {"tags": [], "source": "https://w.org", "created": "2025-05-05T00:00:00Z"}),
        ("Clips/Clip.md", "Clip", {"tags": ["web"], "source": "https://clip.org/y", "created": "2026-03-04T05:06:07Z"}),
        ("Broken.md", "Broken", {"tags": [], "source": None, "created": None}),
        ("Empty.md", "Empty", {"tags": [], "source": None, "created": None}),
        ("Open.md", "Open", {"tags": [], "source": None, "created": None}),
    ],
)  # fmt: skip
async def test_the_five_keys_are_always_there(tools: Tools, path: str, title: str, frontmatter: dict[str, Any]) -> None:
    found = await tools.facts("kp_get_note", id=f"path:{path}")
    assert found["title"] == title
    checksum = found["frontmatter"].pop("checksum")
    assert found["frontmatter"] == {**frontmatter, "updated": None}
    assert checksum.startswith("sha256:")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("Broken.md", "Broken block, whole body.\n"),
        ("Empty.md", ""),
        ("Open.md", "---\nno end of this block\n"),
        ("Bytes.md", "caf\ufffd and\0nul\r\n"),
    ],
)
async def test_the_content_is_the_body_as_it_is(tools: Tools, path: str, content: str) -> None:
    assert (await tools.facts("kp_get_note", id=f"path:{path}"))["content"] == content


async def test_links_are_ids_of_notes(tools: Tools) -> None:
    assert (await tools.facts("kp_get_note", id="path:Projects/Plan.md"))["index"]["links"] == [
        {"to": KP, "kind": "markdown"},
        {"to": "path:Projects/Offer.md", "kind": "wikilink"},
        {"to": "path:nobody.md", "kind": "wikilink"},
    ]


async def test_a_note_that_changed_a_moment_ago_is_told_as_it_is_now(
    tools: Tools, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools.corpus._indexer, "changed", lambda paths: None)  # nothing is noticed
    write(vault, {"Web.md": "---\ntitle: New title\ntags: [new]\n---\nNew body.\n"})
    found = await tools.facts("kp_get_note", id="path:Web.md")
    assert (found["title"], found["content"], found["frontmatter"]["tags"]) == ("New title", "New body.\n", ["new"])
    data = (vault / "Web.md").read_bytes()
    assert found["frontmatter"]["checksum"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    (vault / "Web.md").unlink()
    assert await tools.refusal("kp_get_note", id="path:Web.md") == (
        "No note has the id 'path:Web.md'. Find ids with kp_search or kp_recent."
    )


ALL_BY_ID = ("kp_get_note", "kp_related")


@pytest.mark.parametrize("tool", ALL_BY_ID)
@pytest.mark.parametrize("raw", ["kp:x", "path:No.md", "path:kp.md", "path:~/x.md", "path:%2e%2e/canary.md", "kp:a\nb"])
async def test_an_unknown_id_says_where_to_find_ids(tools: Tools, tool: str, raw: str) -> None:
    shown = raw.replace("\n", "\\n")
    assert await tools.refusal(tool, id=raw) == f"No note has the id '{shown}'. Find ids with kp_search or kp_recent."


@pytest.mark.parametrize("tool", ALL_BY_ID)
@pytest.mark.parametrize("raw", ["abc", "", "kp:", "KP:1", "file:///etc/hosts", ".", "..", "/", " "])
async def test_what_is_no_id_is_told_what_is(tools: Tools, tool: str, raw: str) -> None:
    assert await tools.refusal(tool, id=raw) == f"'{raw}' {NOT_AN_ID}"


@pytest.mark.parametrize("tool", ALL_BY_ID)
@pytest.mark.parametrize("raw", ["ku-0192", "skill-x", "kp:trace:1", "kp:pattern:x", "kp:sop:x"])
async def test_an_id_of_the_knowledge_store_names_the_other_tools(tools: Tools, tool: str, raw: str) -> None:
    assert await tools.refusal(tool, id=raw) == (
        f"'{raw}' belongs to the knowledge store; search it with kp_search_knowledge or kp_search_skill."
    )


async def test_an_id_is_echoed_cut(tools: Tools) -> None:
    sentence = await tools.refusal("kp_get_note", id="kp:" + "x" * 100)
    assert sentence == f"No note has the id 'kp:{'x' * 77}…'. Find ids with kp_search or kp_recent."


@pytest.mark.parametrize("tool", ALL_BY_ID)
@pytest.mark.parametrize("raw", ["\ud800", "path:\ud800.md", "kp:\ud800"])
async def test_J35_a_lone_surrogate_is_an_error(tools: Tools, tool: str, raw: str) -> None:
    (await tools.refusal(tool, id=raw)).encode()


# kp_related


async def test_related_has_the_shape_of_hits_without_the_note_itself(meaning: Tools) -> None:
    found = await meaning.facts("kp_related", id="path:Kp.md", k=3)
    assert found["id"] == KP
    assert len(found["results"]) == 3
    assert KP not in [hit["id"] for hit in found["results"]]
    assert "[" not in found["results"][0]["snippet"]
    everything = await meaning.facts("kp_related", id=KP, k=100)
    assert "Empty.md" not in paths(everything) and "Kp.md" not in paths(everything)
    assert await meaning.facts("kp_related", id="path:Empty.md") == {"id": "path:Empty.md", "results": []}


# kp_recent


async def test_recent_shows_at_most_fifty_the_newest_first(tools: Tools, vault: Path, tmp_path: Path) -> None:
    write(vault, {f"n/{number:02}.md": "x" for number in range(51)})
    await until(tools.corpus, lambda: "n/50.md" in tools.corpus.names())
    await settled(tools.corpus)
    found = await tools.facts("kp_recent")
    assert (found["days"], found["kind"], len(found["notes"])) == (7, None, 50)
    order = [(note["ingested_at"], note["id"]) for note in found["notes"]]
    assert order == sorted(sorted(order, key=lambda one: one[1]), key=lambda one: one[0], reverse=True)
    assert await tools.facts("kp_recent", days=0) == {"days": 0, "kind": None, "notes": []}


@pytest.mark.parametrize(("kind", "ids"), [("curio", [CURIO]), ("zotero", ["zotero:ABCD2345"]), ("kp", [KP])])
async def test_recent_by_kind_of_id(tools: Tools, kind: str, ids: list[str]) -> None:
    found = await tools.facts("kp_recent", kind=kind)
    assert (found["kind"], [note["id"] for note in found["notes"]]) == (kind, ids)
    others = await tools.facts("kp_recent", kind="path")
    assert all(note["id"].startswith("path:") for note in others["notes"])
    assert len(others["notes"]) == len(NOTES) - 3


async def test_recent_goes_by_the_time_of_indexing_and_not_by_that_of_the_file(
    tools: Tools, vault: Path, tmp_path: Path
) -> None:
    os.utime(vault / "Web.md", (0, 0))
    now = int(time.time())

    def age() -> None:
        with closing(sqlite3.connect(tmp_path / "state" / FILE_NAME)) as db, db:
            db.execute("UPDATE notes SET ingested_at = ?", (now - 3 * 86_400,))
            db.execute("UPDATE notes SET ingested_at = ? WHERE path = 'Web.md'", (now - 60,))
            db.execute("UPDATE notes SET ingested_at = ? WHERE path = 'Kp.md'", (now + 90_000,))

    await asyncio.to_thread(age)
    assert [note["path"] for note in (await tools.facts("kp_recent", days=1))["notes"]] == ["Kp.md", "Web.md"]
    assert len((await tools.facts("kp_recent", days=4))["notes"]) == len(NOTES)
