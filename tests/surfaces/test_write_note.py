"""write_note keeps the wordings, modes and limits of its contract, over a real vault."""

from __future__ import annotations

import asyncio
import hashlib
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sidecar.services import writing
from sidecar.vault.displaced import Displaced
from sidecar.vault.files import Files
from tests.index.vaults import embedded
from tests.surfaces.tools import Tools, open_tools

STALE = "sha256:" + "0" * 64
MIB = 1 << 20


def checksum(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "Plan.md").write_bytes(b"# Plan\n")
    (folder / "Agents").mkdir()
    (folder / "Agents/Scout.md").write_bytes(b"persona\n")
    (folder / "Agents/Memory.md").write_bytes(b"- a fact\n")
    return folder


@pytest.fixture
async def tools(vault: Path, tmp_path: Path) -> AsyncIterator[Tools]:
    async with open_tools(vault, tmp_path / "state") as tools:
        yield tools


async def test_tidying_goes_on_after_a_mistake_of_ours(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    again = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look_again(displaced: Displaced, *, at_all: bool = False) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ValueError("a mistake")
        loop.call_soon_threadsafe(again.set)

    monkeypatch.setattr(Displaced, "look_again", look_again)
    await tools.text("write_note", path="Plan.md", content="x", mode="append")
    async with asyncio.timeout(30):
        await again.wait()


# the modes


async def test_create_says_so_and_writes_the_bytes_as_given(tools: Tools, vault: Path) -> None:
    content = "Ünï\r\nno final line end"
    assert await tools.text("write_note", path="Inbox/Idea.md", content=content) == (
        f"Created 'Inbox/Idea.md' (22 characters, checksum {checksum(content.encode())})."
    )
    assert (vault / "Inbox/Idea.md").read_bytes() == content.encode()


async def test_an_empty_note_can_be_created_and_emptied(tools: Tools, vault: Path) -> None:
    assert (await tools.text("write_note", path="Empty.md", content="")).startswith("Created 'Empty.md' (0 characters,")
    text = await tools.text("write_note", path="Plan.md", content="", mode="overwrite")
    assert text.startswith("Replaced 'Plan.md' (0 characters,")
    assert (vault / "Plan.md").read_bytes() == b""


async def test_w18_create_refuses_what_exists(tools: Tools, vault: Path) -> None:
    assert await tools.refusal("write_note", path="Plan.md", content="x") == (
        '\'Plan.md\' exists already. Use mode "append" to add to it or "overwrite" to replace it.'
    )
    assert (vault / "Plan.md").read_bytes() == b"# Plan\n"


async def test_w20_overwrite_without_expected_keeps_the_old_text(tools: Tools, vault: Path) -> None:
    assert await tools.text("write_note", path="Plan.md", content="new", mode="overwrite") == (
        f"Replaced 'Plan.md' (3 characters, checksum {checksum(b'new')})."
        " The old text is kept; see 'vault-sidecar recover'."
    )
    assert (vault / "Plan.md").read_bytes() == b"new"
    assert await tools.kept() == [("Plan.md", "replaced", b"# Plan\n")]


async def test_overwrite_with_the_right_checksum_keeps_nothing(tools: Tools) -> None:
    seen = (await tools.answer("read_note", path="Plan.md")).meta["vault-sidecar/checksum"]
    assert await tools.text("write_note", path="Plan.md", content="new", mode="overwrite", expected=seen) == (
        f"Replaced 'Plan.md' (3 characters, checksum {checksum(b'new')})."
    )
    assert await tools.kept() == []


@pytest.mark.parametrize("mode", ["overwrite", "append"])
async def test_overwrite_and_append_create_what_is_missing(tools: Tools, vault: Path, mode: str) -> None:
    assert await tools.text("write_note", path="a/New.md", content="new", mode=mode) == (
        f"Created 'a/New.md' (3 characters, checksum {checksum(b'new')})."
    )
    assert (vault / "a/New.md").read_bytes() == b"new"


APPENDS = [
    pytest.param(b"one\n", b"one\nmore", id="W21-line end"),
    pytest.param(b"one", b"one\nmore", id="W21-no line end"),
    pytest.param(b"one\r\ntwo", b"one\r\ntwo\r\nmore", id="W21-CRLF"),
    pytest.param(b"one\r\ntwo\r\n", b"one\r\ntwo\r\nmore", id="W21-CRLF at the end"),
    pytest.param(b"one\ntwo\r\nthree", b"one\ntwo\r\nthree\r\nmore", id="W21-mixed"),
    pytest.param(b"one\rtwo", b"one\rtwo\rmore", id="W21-CR"),
    pytest.param(b"\n", b"\nmore", id="W21-one line end"),
    pytest.param(b"", b"more", id="W21-empty"),
    pytest.param(b"\xef\xbb\xbf", b"\xef\xbb\xbfmore", id="W21-BOM alone"),
    pytest.param(b"\xef\xbb\xbfone", b"\xef\xbb\xbfone\nmore", id="W21-BOM"),
    pytest.param(b"caf\xe9", b"caf\xe9\nmore", id="W21-not UTF-8"),
    pytest.param(
        "\ufeffone\r\ntwo".encode("utf-16-le"), "\ufeffone\r\ntwo\r\nmore".encode("utf-16-le"), id="W21-UTF-16"
    ),
]


@pytest.mark.parametrize("old, new", APPENDS)
async def test_append_leaves_the_bytes_before_it_unchanged(tools: Tools, vault: Path, old: bytes, new: bytes) -> None:
    (vault / "Plan.md").write_bytes(old)
    said = await tools.text("write_note", path="Plan.md", content="more", mode="append")
    assert (vault / "Plan.md").read_bytes() == new
    characters = len(await tools.text("read_note", path="Plan.md"))
    assert said == f"Appended 4 characters to 'Plan.md' (now {characters}, checksum {checksum(new)})."
    assert await tools.kept() == []


async def test_one_character_is_one(tools: Tools) -> None:
    assert (await tools.text("write_note", path="One.md", content="😀")).startswith("Created 'One.md' (1 character, ")


# expected


@pytest.mark.parametrize("mode", ["overwrite", "append"])
async def test_w19_a_stale_checksum_is_refused(tools: Tools, vault: Path, mode: str) -> None:
    (vault / "Plan.md").write_bytes(b"foreign edit\n")
    assert await tools.refusal("write_note", path="Plan.md", content="x", mode=mode, expected=STALE) == (
        f"'Plan.md' has changed; its checksum is now {checksum(b'foreign edit' + bytes([10]))}."
        " Read it again before writing."
    )
    assert (vault / "Plan.md").read_bytes() == b"foreign edit\n"


async def test_expected_of_a_missing_note_is_refused(tools: Tools, vault: Path) -> None:
    for mode in ("overwrite", "append"):
        assert await tools.refusal("write_note", path="a/No.md", content="x", mode=mode, expected=STALE) == (
            "There is no note 'a/No.md'; leave out expected to create it."
        )
    assert not (vault / "a").exists()


@pytest.mark.parametrize("expected", ["sha256:", STALE.upper(), STALE[:-1], STALE + "0", "0" * 64, "md5:0", " "])
async def test_a_malformed_checksum_is_a_mistake(tools: Tools, vault: Path, expected: str) -> None:
    assert await tools.refusal("write_note", path="Plan.md", content="x", mode="append", expected=expected) == (
        "expected: must be a checksum as read_note gives it: sha256: and 64 hex digits."
    )
    assert (vault / "Plan.md").read_bytes() == b"# Plan\n"


# arguments


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({}, "path: is required.\ncontent: is required."),
        ({"path": "", "content": "x"}, "path: is required."),
        ({"path": "x.md", "content": 3}, "content: must be text."),
        ({"path": "x.md", "content": None}, "content: must be text."),
        ({"path": "x.md", "content": "x", "mode": "replace"}, "mode: must be one of create, overwrite, append."),
        ({"path": "x.md", "content": "x", "mode": None}, "mode: must be one of create, overwrite, append."),
        ({"path": "x.md", "content": "x", "force": True}, "force: is not an argument of write_note."),
        ({"path": "x.md", "content": "", "mode": "append"}, "content: is required."),
        (
            {"path": "x.md", "content": "x", "expected": STALE},
            'expected: goes with the modes "overwrite" and "append" only.',
        ),
        pytest.param({"path": "x.md", "content": "x" * (2 * MIB + 1)}, "content: at most 2 MiB.", id="W15-too large"),
        pytest.param({"path": "x.md", "content": "ü" * MIB + "x"}, "content: at most 2 MiB.", id="W15-in bytes"),
        pytest.param({"path": "x.md", "content": "a\ud800b"}, "content: must be text.", id="W16"),
        pytest.param({"path": "x.md", "content": "a\0b"}, "content: must not hold NUL characters.", id="W17"),
    ],
)
async def test_mistakes_are_named_and_nothing_is_written(
    tools: Tools, vault: Path, arguments: dict[str, object], sentence: str
) -> None:
    assert await tools.refusal("write_note", **arguments) == sentence
    assert not (vault / "x.md").exists()


async def test_w16_w17_the_old_note_stays(tools: Tools, vault: Path) -> None:
    for content in ("a\ud800b", "a\0b", "x" * (2 * MIB + 1)):
        await tools.refusal("write_note", path="Plan.md", content=content, mode="overwrite")
    assert (vault / "Plan.md").read_bytes() == b"# Plan\n"


async def test_two_mib_are_written(tools: Tools, vault: Path) -> None:
    text = await tools.text("write_note", path="Big.md", content="ü" * MIB)
    assert text.startswith("Created 'Big.md' (1,048,576 characters, ")
    assert (vault / "Big.md").stat().st_size == 2 * MIB


async def test_a_note_never_grows_beyond_what_is_read(vault: Path, tools: Tools) -> None:
    (vault / "Plan.md").write_bytes(b"x" * (32 * MIB - 10))
    assert await tools.refusal("write_note", path="Plan.md", content="y" * 20, mode="append") == (
        "'Plan.md' would be larger than 32 MiB."
    )
    (vault / "Plan.md").write_bytes(b"x" * (32 * MIB + 1))
    assert await tools.refusal("write_note", path="Plan.md", content="y", mode="append") == (
        "'Plan.md' is larger than 32 MiB."
    )


# what is protected


PROTECTED = [
    "Agents/Scout.md",
    "Agents/New.md",
    "Agents/deep/New.md",
    "agents/Scout.md",
    "AGENTS/scout.MD",
    "Agents/Memory.md",
    "agents/MEMORY.md",
    "\u0391gents/x.md",  # a Greek letter: another folder, and so the control
]


@pytest.mark.parametrize("mode", ["create", "overwrite", "append"])
@pytest.mark.parametrize("path", PROTECTED)
async def test_the_agents_folder_and_the_memory_note_are_protected(
    tools: Tools, vault: Path, path: str, mode: str
) -> None:
    if path.startswith("\u0391"):
        assert "'" + path in await tools.text("write_note", path=path, content="x", mode=mode)
        return
    assert await tools.refusal("write_note", path=path, content="x", mode=mode) == (
        f"'{path}' is protected: agent files, the memory note and dot folders can't be written by a client."
    )
    assert sorted(str(each.relative_to(vault)) for each in vault.rglob("*.md")) == [
        "Agents/Memory.md", "Agents/Scout.md", "Plan.md",
    ]  # fmt: skip
    assert (vault / "Agents/Scout.md").read_bytes() == b"persona\n"


@pytest.mark.parametrize("path", ["./Agents/Scout.md", "Agents//Scout.md", "x/../Agents/Scout.md", "Agents\\Scout.md"])
async def test_no_detour_leads_to_them(tools: Tools, vault: Path, path: str) -> None:
    assert "is not a path inside the vault" in await tools.refusal(
        "write_note", path=path, content="x", mode="overwrite"
    )


async def test_what_is_ignored_is_not_written(tools: Tools, vault: Path) -> None:
    (vault / ".kpignore").write_text("Templates/\n")
    await asyncio.wait_for(_until_ignored(tools), 30)
    assert await tools.refusal("write_note", path="Templates/x.md", content="x") == (
        "'Templates/x.md' is left out of the vault by .kpignore; it can't be written."
    )


async def _until_ignored(tools: Tools) -> None:
    from sidecar.vault.paths import VaultPath

    while not tools.corpus.is_ignored(VaultPath("Templates/x.md")):
        await asyncio.sleep(0.01)


MANAGED = """---
schema: curio.frontmatter.v1
title: A page
---
free
<!-- curio:managed:begin v1 -->
managed
<!-- curio:managed:end -->
free
"""


@pytest.mark.parametrize(
    "old, new, allowed",
    [
        pytest.param("managed\n", "changed\n", False, id="region"),
        pytest.param("title: A page", "title: Another", False, id="property"),
        pytest.param("title: A page\n", "", False, id="property gone"),
        pytest.param(MANAGED[MANAGED.index("<!--") : MANAGED.rindex("free")], "", False, id="region gone"),
        pytest.param("---\n", "", False, id="fence gone"),
        pytest.param("---\nfree", "mine: yes\n---\nfree", True, id="new property"),
        pytest.param("---\nfree", "---\nmore, before it", True, id="text before"),
        pytest.param("-->\nfree", "-->\nmore, after it", True, id="text after"),
    ],
)
async def test_what_an_exporter_manages_stays(tools: Tools, vault: Path, old: str, new: str, allowed: bool) -> None:
    (vault / "Clip.md").write_text(MANAGED)
    changed = MANAGED.replace(old, new, 1)
    assert changed != MANAGED
    if allowed:
        await tools.text("write_note", path="Clip.md", content=changed, mode="overwrite")
    else:
        assert await tools.refusal("write_note", path="Clip.md", content=changed, mode="overwrite") == (
            "'Clip.md' is managed by its exporter:"
            " its existing frontmatter and the marked region must stay as they are."
        )
    assert (vault / "Clip.md").read_text() == (changed if allowed else MANAGED)


async def test_appending_to_a_managed_note_is_free_but_not_into_an_open_region(tools: Tools, vault: Path) -> None:
    (vault / "Clip.md").write_text(MANAGED)
    await tools.text("write_note", path="Clip.md", content="mine\n", mode="append")
    assert (vault / "Clip.md").read_text() == MANAGED + "mine\n"
    (vault / "Open.md").write_text("<!-- curio:managed:begin v1 -->\nmanaged\n")
    assert "managed by its exporter" in await tools.refusal("write_note", path="Open.md", content="x", mode="append")


# names


async def test_w13_w14_a_twin_is_named_with_the_spelling_that_is_there(tools: Tools, vault: Path) -> None:
    (vault / "README.md").write_bytes(b"x")
    (vault / "Ü.md").write_bytes(b"x")
    for mode in ("create", "overwrite", "append"):
        assert await tools.refusal("write_note", path="readme.md", content="x", mode=mode) == (
            "'readme.md' differs only in case from 'README.md'; use that name."
        )
        assert "differs only in Unicode form from 'Ü.md'" in await tools.refusal(
            "write_note", path=unicodedata.normalize("NFD", "Ü.md"), content="x", mode=mode
        )
    assert len(list(vault.glob("*.md"))) == 3


# finding what was written


async def test_a_write_is_found_at_once_and_listed(tools: Tools) -> None:
    for number in range(5):
        await tools.text("write_note", path=f"Note {number}.md", content=f"zeppelin {number}")
        assert (await tools.text("search_notes", query=f"zeppelin {number}")).startswith("1 note matches")
        assert f"Note {number}.md" in await tools.text("list_notes")
    await tools.text("write_note", path="Note 1.md", content="balloon", mode="overwrite")
    assert (await tools.text("search_notes", query="zeppelin 1")) == 'No notes match "zeppelin 1".'


async def test_without_the_wait_a_search_comes_too_early(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""

    async def at_once() -> None:
        return

    monkeypatch.setattr(tools.corpus, "_wait_for_own_writes", at_once)
    misses = 0
    for number in range(200):
        await tools.text("write_note", path=f"Note {number}.md", content=f"zeppelin{number}x")
        misses += (await tools.text("search_notes", query=f"zeppelin{number}x")).startswith("No notes")
        if misses:
            return
    pytest.fail("it was always found, so the wait proves nothing")


async def test_a_write_is_found_by_meaning_once_the_index_has_caught_up(vault: Path, tmp_path: Path) -> None:
    async with open_tools(vault, tmp_path / "state 2", embedder="hash") as tools:
        await tools.text("write_note", path="Pump.md", content="The heat pump hums in the cellar.")
        await embedded(tools.corpus)
        text = await tools.text("semantic_search", query="heat pump cellar")
        assert "Pump.md (score" in text and "Keywords only" not in text


async def test_the_watcher_does_not_take_our_own_write_for_a_foreign_one(tools: Tools) -> None:
    await tools.text("write_note", path="Note.md", content="zeppelin")
    await tools.text("search_notes", query="zeppelin")
    generation = tools.corpus.generation
    tools.corpus._indexer.changed(["Note.md"])  # what the watcher says
    await tools.corpus._indexer.wait_until_looked(tools.corpus._indexer.look_at("Plan.md"))
    assert tools.corpus.generation == generation


# several at once


async def test_w27_of_two_who_saw_the_same_text_one_is_refused(tools: Tools, vault: Path) -> None:
    seen = checksum(b"# Plan\n")
    for _ in range(20):
        (vault / "Plan.md").write_bytes(b"# Plan\n")
        answers = await asyncio.gather(
            *(
                tools.answer("write_note", path="Plan.md", content=word * 5000, mode="overwrite", expected=seen)
                for word in ("one", "two")
            ),
            return_exceptions=True,
        )
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        assert len(failed) == 1 and "'Plan.md' has changed" in str(failed[0])
        assert (vault / "Plan.md").read_bytes() in (b"one" * 5000, b"two" * 5000)


async def test_appends_at_once_without_expected_are_all_there(tools: Tools, vault: Path) -> None:
    lines = [f"line {number}\n" for number in range(100)]
    await asyncio.gather(*(tools.answer("write_note", path="Log.md", content=line, mode="append") for line in lines))
    assert sorted((vault / "Log.md").read_text().splitlines(keepends=True)) == sorted(lines)


async def test_two_spellings_created_at_once_become_one_note(tools: Tools, vault: Path) -> None:
    for number in range(20):
        await asyncio.gather(
            *(
                tools.answer("write_note", path=f"{folder}{number}/{name}.md", content="x")
                for folder in ("F", "f")
                for name in ("Note", "note")
            ),
            return_exceptions=True,
        )
        assert len([path for path in vault.rglob("*.md") if str(number) in path.parent.name]) == 1, number


async def test_a_client_that_leaves_does_not_leave_half_a_write(
    tools: Tools, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = asyncio.create_task(tools.answer("write_note", path="Left.md", content="x"))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    answer = await tools.refusal("write_note", path="Left.md", content="y")  # it waited for the first
    assert answer.startswith("'Left.md' exists already.")
    assert (vault / "Left.md").read_bytes() == b"x"


async def test_a_write_that_waited_while_writing_was_switched_off_is_refused(
    tools: Tools, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R04 and W03."""
    change, entered = Files.change, asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(*args: object, **more: object) -> object:
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(tools.core.switches.set_writes(False), loop).result(20)
        return change(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Files, "change", slow)
    first = asyncio.create_task(tools.answer("write_note", path="Plan.md", content="1", mode="append"))
    second = asyncio.create_task(tools.answer("write_note", path="Plan.md", content="2", mode="append"))
    await asyncio.wait_for(entered.wait(), 20)
    assert (await first).text.startswith("Appended")
    with pytest.raises(Exception, match="Writing notes has been switched off"):
        await second
    assert (vault / "Plan.md").read_bytes() == b"# Plan\n1"


def test_the_limit_is_the_contracts() -> None:
    assert writing.MAX_CONTENT_BYTES == 2 * MIB
