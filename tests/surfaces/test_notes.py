"""The notes tools keep the wordings and limits of their contract, over a real vault."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.index.vaults import until
from tests.surfaces.tools import Tools, open_tools


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    for path, text in {
        "Projects/Alpha.md": "---\ntitle: Alpha\n---\n# Alpha\nThe winter plan has three parts\n",
        "Projects/Beta/Plan.md": "beta\n",
        "Projects/Zeta.md": "zeta\r\nwinter PLAN\r\n",
        "Winter plan.md": "nothing else\n",
        "ä b/Ünï.md": "umlaut\n",
        "a.md": "small\n",
        "Z.md": "big\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    (folder / ".obsidian").mkdir()
    (folder / ".obsidian" / "app.md").write_text("hiddenword")
    (folder / "Empty").mkdir()
    (folder / "image.png").write_bytes(b"x")
    return folder


@pytest.fixture
async def tools(vault: Path, tmp_path: Path) -> AsyncIterator[Tools]:
    async with open_tools(vault, tmp_path / "state") as tools:
        yield tools


# list_notes


async def test_the_list_is_in_code_point_order(tools: Tools) -> None:
    paths = (await tools.text("list_notes")).split("\n")
    assert paths[0] == "7 of 7 notes, from number 1."
    assert paths[1:] == sorted(paths[1:])
    assert paths[1:] == [
        "Projects/Alpha.md",
        "Projects/Beta/Plan.md",
        "Projects/Zeta.md",
        "Winter plan.md",
        "Z.md",
        "a.md",
        "ä b/Ünï.md",
    ]


async def test_a_folder_is_listed_with_the_words_of_the_contract(tools: Tools) -> None:
    assert await tools.text("list_notes", folder="Projects", limit=2) == (
        "2 of 3 notes in Projects, from number 1.\nProjects/Alpha.md\nProjects/Beta/Plan.md\n"
        "More notes: call again with offset 2."
    )
    assert await tools.text("list_notes", folder="Projects/", limit=2, offset=2) == (
        "1 of 3 notes in Projects, from number 3.\nProjects/Zeta.md"
    )


async def test_pages_join_without_gap_or_overlap(tools: Tools) -> None:
    whole = (await tools.text("list_notes")).split("\n")[1:]
    for size in (1, 2, 3, 5):
        joined: list[str] = []
        while len(joined) < len(whole):
            page = (await tools.text("list_notes", limit=size, offset=len(joined))).split("\n")[1:]
            joined += [line for line in page if not line.startswith("More notes:")]
        assert joined == whole


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param(0, 1, id="N25 0"),
        pytest.param(-5, 1, id="N25 -5"),
        pytest.param(10**9, 7, id="N25 10^9"),
        pytest.param("x", 7, id="N25 text"),
        pytest.param(True, 7, id="N25 true"),
        pytest.param(None, 7, id="N25 null"),
        pytest.param(2.9, 2, id="N25 fraction"),
        pytest.param(float("inf"), 7, id="N25 infinity"),
    ],
)
async def test_numbers_are_clamped_or_become_the_default(tools: Tools, given: object, shown: int) -> None:
    assert (await tools.text("list_notes", limit=given)).startswith(f"{shown} of 7 notes")


async def test_an_empty_page_is_no_error(tools: Tools) -> None:
    assert await tools.text("list_notes", folder="Empty") == "No notes in Empty."
    assert await tools.text("list_notes", offset=2000) == "No notes from number 2001 on; there are 7."


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        ("Projcts", "There is no folder 'Projcts' in the vault."),
        ("a.md", "There is no folder 'a.md' in the vault."),
        (".obsidian", "There is no folder '.obsidian' in the vault."),
        ("../x", "'../x' is not a folder inside the vault; use one like 'Projects'."),
        ("/", "'/' is not a folder inside the vault; use one like 'Projects'."),
        ("..", "'..' is not a folder inside the vault; use one like 'Projects'."),
        ("C:/x", "'C:/x' is not a folder inside the vault; use one like 'Projects'."),
    ],
)
async def test_what_is_no_folder_is_refused_by_name(tools: Tools, folder: str, sentence: str) -> None:
    assert await tools.refusal("list_notes", folder=folder) == sentence


async def test_folders_with_blanks_and_umlauts_are_listed(tools: Tools) -> None:
    assert (await tools.text("list_notes", folder="ä b/")).endswith("\nä b/Ünï.md")


async def test_a_line_end_in_a_name_stays_on_one_line(tools: Tools, vault: Path) -> None:
    (vault / "new\nline\x1b.md").write_text("odd")
    await until(tools.corpus, lambda: "new\nline\x1b.md" in tools.corpus.names())
    assert "\nnew\\nline\\u001b.md\n" in await tools.text("list_notes")
    refusal = await tools.refusal("read_note", path="new\nline\x1b.md")
    assert refusal == "'new\\nline\\u001b.md' is not a path inside the vault; use one like 'Folder/Note.md'."


# read_note


@pytest.mark.parametrize("path", ["Projects/Alpha.md", "Projects/Zeta.md", "ä b/Ünï.md"])
async def test_a_note_is_read_whole_with_its_checksum(tools: Tools, vault: Path, path: str) -> None:
    data = (vault / path).read_bytes()
    answer = await tools.answer("read_note", path=path)
    assert answer.text.encode() == data
    assert answer.meta == {"vault-sidecar/checksum": "sha256:" + hashlib.sha256(data).hexdigest()}


async def test_a_byte_order_mark_is_removed_and_bad_bytes_are_replaced(tools: Tools, vault: Path) -> None:
    (vault / "a.md").write_bytes(b"\xef\xbb\xbfcaf\xe9")
    assert await tools.text("read_note", path="a.md") == "caf\ufffd"


async def test_an_empty_note_is_an_empty_text(tools: Tools, vault: Path) -> None:
    (vault / "a.md").write_bytes(b"")
    assert await tools.text("read_note", path="a.md") == ""


@pytest.mark.parametrize(("asked", "most"), [(200, 200), (200_000, 200_000), (5, 200), (10**9, 200_000)])
@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_a_note_is_cut_exactly_at_its_limit(tools: Tools, vault: Path, asked: int, most: int, over: int) -> None:
    text = "ü" * (most + over)
    (vault / "a.md").write_text(text)
    answer = await tools.text("read_note", path="a.md", max_chars=asked)
    if over <= 0:
        assert answer == text
    else:
        assert answer == (
            f"{text[:most]}\n\n[Cut: {most:,} of {most + 1:,} characters."
            " Ask for more with max_chars (at most 200,000), or find the place with search_notes.]"
        )


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("Plan.md", "There is no note 'Plan.md'."),
        ("projects/alpha.md", "There is no note 'projects/alpha.md'. Did you mean 'Projects/Alpha.md'?"),
        ("Projects/Alpha.MD", "There is no note 'Projects/Alpha.MD'. Did you mean 'Projects/Alpha.md'?"),
        ("/x.md", "'/x.md' is not a path inside the vault; use one like 'Folder/Note.md'."),
        ("x.png", "'x.png' is not a note; notes end in .md."),
        ("", "path: is required."),
    ],
)
async def test_what_is_no_note_is_refused_with_the_words_of_the_contract(
    tools: Tools, path: str, sentence: str
) -> None:
    assert await tools.refusal("read_note", path=path) == sentence


async def test_a_missing_path_is_named(tools: Tools) -> None:
    assert await tools.refusal("read_note") == "path: is required."
    assert await tools.refusal("read_note", path=3, colour=1) == (
        "path: must be text.\ncolour: is not an argument of read_note."
    )


async def test_J38_another_unicode_form_finds_the_note(tools: Tools) -> None:
    decomposed = unicodedata.normalize("NFD", "ä b/Ünï.md")
    assert decomposed != "ä b/Ünï.md"
    assert await tools.text("read_note", path=decomposed) == "umlaut\n"


async def test_an_ignored_note_is_not_read(tools: Tools, vault: Path) -> None:
    (vault / ".kpignore").write_text("a.md\n")
    await until(tools.corpus, lambda: "a.md" not in tools.corpus.names())
    assert await tools.refusal("read_note", path="a.md") == "There is no note 'a.md'."


# search_notes


async def test_matches_are_shown_with_line_numbers_over_the_whole_file(tools: Tools) -> None:
    assert await tools.text("search_notes", query="winter plan") == (
        '3 notes match "winter plan".\n'
        "Winter plan.md\n"
        "Projects/Alpha.md\n  5: The winter plan has three parts\n"
        "Projects/Zeta.md\n  2: winter PLAN"
    )


async def test_more_matches_than_the_limit_are_counted(tools: Tools) -> None:
    assert (await tools.text("search_notes", query="winter plan", limit=2)).startswith(
        '2 of 3 notes that match "winter plan".\n'
    )


async def test_no_match_is_no_error(tools: Tools) -> None:
    assert await tools.text("search_notes", query="zeppelin") == 'No notes match "zeppelin".'
    assert await tools.text("search_notes", query="hiddenword") == 'No notes match "hiddenword".'


@pytest.mark.parametrize("query", ["(a+)+$", "*", "[", "\\", '"', "%", "' OR 1=1 --"])
async def test_N24_a_query_is_plain_text(tools: Tools, query: str) -> None:
    assert await tools.text("search_notes", query=query) == f'No notes match "{query}".'


async def test_a_query_over_the_limit_is_refused(tools: Tools) -> None:
    assert await tools.refusal("search_notes", query="x" * 2001) == "query: at most 2,000 characters."
    assert await tools.refusal("search_notes", query=" \n ") == "query: is required."
    long = await tools.text("search_notes", query="x" * 2000)
    assert long == f'No notes match "{"x" * 80}…".'


async def test_a_result_is_at_most_100_000_characters(tools: Tools, vault: Path) -> None:
    names = [f"{'n' * 200}{number:03}.md" for number in range(600)]
    for name in names:
        (vault / name).write_text("many")
    await until(tools.corpus, lambda: len(tools.corpus.names()) == 607)
    text = await tools.text("list_notes", limit=1000)
    assert len(text) <= 100_000
    assert text.endswith("\n[Result cut at 100,000 characters.]")
    assert set(text.split("\n")[1:-1]) <= set(tools.corpus.names())
