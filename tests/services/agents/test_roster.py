"""The folder of agents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.errors import NotFound, VaultAway
from sidecar.services.agents.roster import Roster
from sidecar.vault.jail import Jail
from tests.agents import SCOUT, roster_of, write_agent


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    (tmp_path / "vault" / "Agents").mkdir(parents=True)
    return tmp_path / "vault"


@pytest.fixture
def roster(vault: Path) -> Iterator[Roster]:
    jail, roster = roster_of(vault)
    yield roster
    jail.close()


def problems(roster: Roster) -> dict[str, str | None]:
    return {agent.path: agent.problem for agent in roster.read()}


def test_agents_are_sorted_by_name_without_case(vault: Path, roster: Roster) -> None:
    for name in ("zebra", "Apple", "äpfel", "banana"):
        write_agent(vault, f"{name}.md", "x")
    assert [agent.name for agent in roster.read()] == ["Apple", "banana", "zebra", "äpfel"]


def test_only_notes_directly_in_the_folder_count(vault: Path, roster: Roster) -> None:
    for name in ("Good.md", "Memory.md", "memory.md", ".hidden.md", "Text.txt"):
        write_agent(vault, name, "x")
    (vault / "Agents" / "Sub").mkdir()
    (vault / "Agents" / "Sub" / "Deep.md").write_text("x")
    (vault / "Elsewhere.md").write_text("x")
    assert problems(roster) == {"Agents/Good.md": None}


def test_a_link_is_an_agent_with_a_problem_and_its_target_is_not_read(vault: Path, roster: Roster) -> None:
    (vault.parent / "outside.md").write_text(SCOUT)
    os.symlink(vault.parent / "outside.md", vault / "Agents" / "Scout.md")
    [agent] = roster.read()
    assert (agent.name, agent.problem, agent.persona) == ("Scout", "it is a link, and links are not followed", "")


def test_files_that_cannot_be_read_are_listed_with_the_reason(vault: Path, roster: Roster) -> None:
    write_agent(vault, "Huge.md", "x" * (300 * 1024))
    write_agent(vault, "Long.md", "x" * (70 * 1024))
    os.mkfifo(vault / "Agents" / "Pipe.md")
    assert problems(roster) == {
        "Agents/Huge.md": "the file is larger than 256 KiB",
        "Agents/Long.md": "the persona is longer than 64 KiB",
        "Agents/Pipe.md": "it is not a regular file",
    }


def test_two_files_of_one_name_both_have_the_problem(vault: Path, roster: Roster) -> None:
    write_agent(vault, "A.md", "---\nname: Scout\n---\nx")
    write_agent(vault, "B.md", "---\nname: SCOUT\n---\ny")
    write_agent(vault, "C.md", "z")
    shared = "two files have this name"
    assert problems(roster) == {"Agents/A.md": shared, "Agents/B.md": shared, "Agents/C.md": None}


def test_names_are_found_exactly_or_without_case_if_only_one_matches(vault: Path, roster: Roster) -> None:
    write_agent(vault)
    assert roster.find("Scout").path == roster.find("sCOUT").path == "Agents/Scout.md"
    for wrong in ("Scuot", "Scout ", "../x", "$(x)", "Agents/Scout.md", "", "Scout.md"):
        with pytest.raises(NotFound) as refused:
            roster.find(wrong)
        assert str(refused.value) == f"There is no agent '{wrong}'. list_agents names them."


def test_a_change_counts_from_the_next_look_on(vault: Path, roster: Roster) -> None:
    file = write_agent(vault)
    before = roster.find("Scout")
    file.write_text(SCOUT.replace("one reason", "two reasons"))
    assert "two reasons" in roster.find("Scout").persona
    assert roster.find("Scout").checksum != before.checksum
    file.unlink()
    assert roster.read() == []


def test_without_the_folder_there_are_no_agents(vault: Path, roster: Roster) -> None:
    (vault / "Agents").rmdir()
    assert roster.read() == []
    os.symlink(vault.parent, vault / "Agents")  # nor behind a link
    assert roster.read() == []


def test_without_the_vault_nothing_is_concluded(vault: Path, roster: Roster) -> None:
    vault.rename(vault.parent / "gone")
    with pytest.raises(VaultAway):
        roster.read()


def test_what_the_vault_ignores_is_no_agent(vault: Path) -> None:
    write_agent(vault, "A.md", "x")
    write_agent(vault, "B.md", "x")
    jail = Jail(vault)
    roster = Roster(jail, "Agents", "Agents/Memory.md", lambda path: path.text == "Agents/B.md")
    assert [agent.name for agent in roster.read()] == ["A"]
    jail.close()
