"""Ids as callers give them. What the blocks of notes say is tested with the notes."""

from __future__ import annotations

import pytest

from sidecar.errors import BadArguments, BadPath, NotFound, SidecarError
from sidecar.vault.kp_block import no_id, parse_id
from sidecar.vault.notes import parse_note
from sidecar.vault.paths import VaultPath

NOT_AN_ID = "is not a note id; use curio:…, zotero:…, kp:… or path:Folder/Note.md."
OF_KNOWLEDGE = "belongs to the knowledge store; search it with kp_search_knowledge or kp_search_skill."


@pytest.mark.parametrize(
    "raw", ["curio:1", "zotero:ABCD2345", "kp:0192", "kp: ", "kp:a:b", "curio:\udc80", "kp:tracer"]
)
def test_a_known_namespace_and_any_rest_is_an_id(raw: str) -> None:
    assert (parse_id(raw).text, parse_id(raw).path) == (raw, None)


@pytest.mark.parametrize(
    "rest", ["Plan.md", "Projects/Plan.md", "~/x.md", "%2e%2e/canary.md", "note: b.md", "x../é.MD"]
)
def test_a_path_id_names_a_path(rest: str) -> None:
    assert parse_id(f"path:{rest}").path == VaultPath(rest)


@pytest.mark.parametrize("raw", ["", "abc", ":", ":x", "kp:", "path:", "foo:1", "KP:1", " kp:1", "http://e.org", "ku"])
def test_anything_else_is_no_id(raw: str) -> None:
    with pytest.raises(BadArguments) as refused:
        parse_id(raw)
    assert str(refused.value) == f"'{raw}' {NOT_AN_ID}"


@pytest.mark.parametrize(
    "rest", ["../x.md", "/etc/x.md", "a/../b.md", " ", ".obsidian/x.md", "a\\b.md", "\0.md", "x\n.md"]
)
def test_a_path_id_obeys_the_rules_of_paths(rest: str) -> None:
    with pytest.raises(BadPath) as refused:
        parse_id(f"path:{rest}")
    with pytest.raises(BadPath) as by_path:
        VaultPath.note(rest)
    assert str(refused.value) == str(by_path.value)


@pytest.mark.parametrize("raw", ["ku-1", "skill-x", "kp:trace:1", "kp:pattern:1", "kp:sop:1"])
def test_an_id_of_the_knowledge_store_names_its_tools_and_no_file_can_claim_it(raw: str) -> None:
    with pytest.raises(NotFound) as refused:
        parse_id(raw)
    assert str(refused.value) == f"'{raw}' {OF_KNOWLEDGE}"
    note = parse_note(VaultPath("a.md"), f"---\nkp_id: {raw}\n---\n".encode())
    assert note.note_id == "path:a.md"
    assert note.warnings == ("frontmatter: kp_id is no id that a file can have; the note has its path as id",)


@pytest.mark.parametrize("raw", ["kp:\x1b[0m\n", "kp:" + "x" * 100_000, "kp:\udc80", "ku-\0", "\u2028"])
def test_messages_echo_one_short_printable_line(raw: str) -> None:
    refusals: list[SidecarError] = [no_id(raw)]
    try:
        parse_id(raw)
    except SidecarError as refused:
        refusals.append(refused)
    for refusal in refusals:
        sentence = str(refusal)
        assert sentence.isprintable()
        assert len(sentence) < 250
        sentence.encode()
