"""The settings of protected places, and how much of a note an exporter manages."""

from __future__ import annotations

import pytest

from sidecar.errors import BadConfig, Protected
from sidecar.services.protection import Protection, refuse_managed
from sidecar.vault.paths import VaultPath

CLIP = VaultPath("Clip.md")


@pytest.mark.parametrize("folder", ["", "/", "..", "../x", ".obsidian", "a/.b", "C:/x", "/etc"])
def test_an_agents_folder_outside_the_jail_stops_the_start(folder: str) -> None:
    with pytest.raises(BadConfig, match=r"\[agents\] folder must be a folder inside the vault"):
        Protection(folder, "Agents/Memory.md")


@pytest.mark.parametrize("note", ["", "../Memory.md", ".obsidian/Memory.md", "Memory.txt", "/Memory.md"])
def test_a_memory_note_outside_the_jail_stops_the_start(note: str) -> None:
    with pytest.raises(BadConfig, match=r"\[agents\] memory_note must be a note inside the vault"):
        Protection("Agents", note)


@pytest.mark.parametrize("path", ["Bots/x.md", "bots/deep/x.md", "Facts.md", "FACTS.md"])
def test_other_places_are_protected_where_the_settings_name_them(path: str) -> None:
    with pytest.raises(Protected):
        Protection("Bots/", "Facts.md").check(path)
    assert Protection("Agents", "Agents/Memory.md").check(path).text == path


@pytest.mark.parametrize("path", ["Agents.md", "Agents 2/x.md", "x/Agents/y.md", "Memory.md", "Bots/Agents.md"])
def test_names_that_only_look_alike_are_free(path: str) -> None:
    assert Protection("Agents", "Agents/Memory.md").check(path).text == path


def test_a_note_of_the_agents_folders_own_name_is_refused() -> None:
    with pytest.raises(Protected):
        Protection("agents.md", "Memory.md").check("Agents.MD")


def test_the_end_of_the_sentence_is_the_callers() -> None:
    with pytest.raises(Protected, match=r"can't be changed by a proposal\.$"):
        Protection("Agents", "Agents/Memory.md").check("Agents/x.md", by="changed by a proposal")


REGION = "<!-- curio:managed:begin v1 -->\nmine\n<!-- curio:managed:end -->"


@pytest.mark.parametrize(
    "old, new",
    [
        ("ordinary", "whatever"),
        ("---\ntitle: x\n---\nordinary", "no frontmatter any more"),
        (f"a\n{REGION}\nb", f"c\n{REGION}\nd"),
        (REGION, f"---\nnew: yes\n---\n{REGION}"),
        (f"{REGION}\n{REGION}", f"{REGION}\nbetween\n{REGION}"),
        ("---\nschema: curio.frontmatter.v1\n---\nbody", "---\nmine: 1\nschema: curio.frontmatter.v1\n---\nother"),
    ],
)
def test_what_is_not_managed_may_change(old: str, new: str) -> None:
    refuse_managed(CLIP, old, new)


@pytest.mark.parametrize(
    "old, new",
    [
        (REGION, REGION.replace("mine", "yours")),
        ("---\nschema: curio.frontmatter.v1\nread: true\n---\n", "---\nschema: curio.frontmatter.v1\nread: 1\n---\n"),
        ("---\nschema: curio.frontmatter.v1\nn: [1]\n---\n", "---\nschema: curio.frontmatter.v1\nn: [1.0]\n---\n"),
        (REGION, REGION.replace("v1", "v2")),
        (REGION, REGION.replace("\n<!-- curio:managed:end -->", "")),
        (REGION, f"{REGION}\n{REGION}"),
        (f"{REGION}\n{REGION}", REGION),
        ("<!-- curio:managed:begin v1 -->\nopen", "<!-- curio:managed:begin v1 -->\nopen, and more"),
        ("---\nschema: curio.frontmatter.v1\na: [1]\n---\n", "---\nschema: curio.frontmatter.v1\na: [1, 2]\n---\n"),
        ("---\nschema: curio.frontmatter.v1\n---\n", "body alone"),
        ("---\nschema: curio.frontmatter.v1\n---\n", "---\nschema: {broken\n---\n"),
        (f"---\n{{{{broken}}}}: x\n---\n{REGION}", f"---\nrepaired: x\n---\n{REGION}"),
    ],
)
def test_what_is_managed_may_not(old: str, new: str) -> None:
    with pytest.raises(Protected, match="managed by its exporter"):
        refuse_managed(CLIP, old, new)


@pytest.mark.timeout(30)
def test_marks_without_end_are_read_in_linear_time() -> None:
    text = "<!-- curio:managed:begin v1 -->" * 50_000 + "<!--" * 100_000
    refuse_managed(CLIP, text, text)
