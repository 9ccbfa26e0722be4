"""Who may run an agent is decided outside the vault."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from sidecar.services.agents.definition import Definition, parse
from sidecar.services.agents.gates import FILE_NAME, Gates, gate_of
from sidecar.vault.paths import VaultPath
from tests.agents import SCOUT

UNHASHABLE = '{"gates": [{"path": [], "name": "Scout", "checksum": ""}]}'


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "notes-0123").mkdir(mode=0o700)
    return tmp_path / "notes-0123"


def agent(text: str = SCOUT, path: str = "Agents/Scout.md") -> Definition:
    return parse(VaultPath(path), text.encode())


def is_on(state: Path, which: Definition) -> bool:
    return gate_of(Gates(state).read(), which) is not None


def test_off_is_the_default_and_on_outlives_the_process(state: Path) -> None:
    assert not is_on(state, agent())
    Gates(state).allow(agent())
    assert is_on(state, agent())
    Gates(state).forbid("Scout")
    assert not is_on(state, agent())


def test_the_file_is_private(state: Path) -> None:
    Gates(state).allow(agent())
    assert stat.S_IMODE((state / FILE_NAME).stat().st_mode) == 0o600


def test_another_path_or_another_name_is_another_agent(state: Path) -> None:
    Gates(state).allow(agent())
    assert not is_on(state, agent(path="Agents/Scout 2.md"))
    assert not is_on(state, agent(SCOUT.replace("name: Scout", "name: Ranger")))
    assert not is_on(state, agent(SCOUT.replace("name: Scout", "name: scout")))


def test_another_text_stays_on_and_is_told(state: Path) -> None:
    Gates(state).allow(agent())
    changed = agent(SCOUT + "Also write poems.")
    gate = gate_of(Gates(state).read(), changed)
    assert gate is not None
    assert gate.checksum != changed.checksum
    Gates(state).allow(changed)
    gate = gate_of(Gates(state).read(), changed)
    assert gate is not None
    assert gate.checksum == changed.checksum


def test_the_state_of_another_vault_allows_nothing(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = state.parent / "notes-4567"
    other.mkdir(mode=0o700)
    Gates(other).allow(agent())
    (state / FILE_NAME).write_bytes((other / FILE_NAME).read_bytes())
    (state / FILE_NAME).chmod(0o600)
    assert not is_on(state, agent())
    assert "belongs to another vault" in caplog.text
    assert is_on(other, agent())


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"gates": 1}', '{"gates": [{"path": "x"}]}', "null", "[" * 100_000, UNHASHABLE]
)
def test_damaged_gates_are_off(state: Path, content: str) -> None:
    Gates(state).allow(agent())
    (state / FILE_NAME).write_text(content)
    assert not is_on(state, agent())
    Gates(state).allow(agent())
    assert is_on(state, agent())


def test_a_file_that_others_may_write_is_not_believed(state: Path) -> None:
    Gates(state).allow(agent())
    (state / FILE_NAME).chmod(0o666)
    assert not is_on(state, agent())


def test_gates_of_others_stay(state: Path) -> None:
    other = agent(SCOUT.replace("name: Scout", "name: Other"), "Agents/Other.md")
    Gates(state).allow(agent())
    Gates(state).allow(other)
    Gates(state).forbid("Scout")
    assert [gate["path"] for gate in json.loads((state / FILE_NAME).read_text())["gates"]] == ["Agents/Other.md"]


def test_off_is_off_for_every_file_of_the_name(state: Path) -> None:
    twin = agent(path="Agents/A.md")
    Gates(state).allow(twin)
    Gates(state).allow(agent())
    assert Gates(state).forbid("SCOUT")
    assert not is_on(state, twin)
    assert not is_on(state, agent())
    assert not Gates(state).forbid("Scout")
