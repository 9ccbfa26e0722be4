"""Controls of group P: with a defence taken out, the proposal does the harm. A row that can't fail proves nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sidecar.services import proposal_drafts, proposal_plans, proposal_record, proposals, protection
from sidecar.vault import paths
from sidecar.vault.paths import VaultPath
from sidecar.vault.placing import Placing
from tests.security.ground import Ground, write
from tests.security.inside import served_here
from tests.security.lures import lay_lures

Patch = pytest.MonkeyPatch


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "base"
    lay_lures(base)
    write(base / "vault", "Agents/Scout.md")
    return base


def propose(ground: Ground, *paths: str, **change: Any) -> str | None:
    """The id of what was proposed; None if it was refused."""
    files = [{"path": path, "content": "harm\n"} for path in paths]
    said = ground.call("kp_propose", **{"title": "Title", "rationale": "Why.", "files": files, **change})
    return None if said.is_error else json.loads(said.text)["id"]


def applied(ground: Ground, proposal_id: str | None) -> bool:
    answer = ground.order("proposals/apply", id=proposal_id, by="console").json()
    return answer.get("status") == "applied"


def test_without_the_check_of_names_a_proposal_reaches_hidden_places(
    base: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """P01 and P03: nothing behind it would stop it."""
    monkeypatch.setattr(protection, "writable", lambda raw, *, by: VaultPath(raw))
    with served_here(base, tmp_path / "state") as ground:
        assert applied(ground, propose(ground, ".obsidian/plugins/p/main.js"))
        assert (base / "vault/.obsidian/plugins/p/main.js").read_text() == "harm\n"


def test_without_the_second_check_a_smuggled_path_is_written(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    with served_here(base, tmp_path / "state") as ground:
        folder = base / "vault/.kp/proposals" / str(propose(ground, "x.md"))
        for name in ("proposal.json", "changes.patch"):
            (folder / name).write_text((folder / name).read_text().replace("x.md", "Agents/Scout2.md"))
        monkeypatch.setattr(proposal_drafts.Rules, "path", lambda self, raw: VaultPath(raw))
        assert applied(ground, folder.name)
        assert (base / "vault/Agents/Scout2.md").read_text() == "harm\n"


def test_without_the_check_of_twins_there_are_two(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P06, and W13."""
    monkeypatch.setattr(proposal_drafts, "folded", lambda text: text)
    monkeypatch.setattr(Placing, "_refuse_twin", lambda *_: None)
    with served_here(base, tmp_path / "state") as ground:
        assert applied(ground, propose(ground, "x.md", "X.md"))
        assert len({os.fsencode(each.name).lower() for each in (base / "vault").glob("[xX].md")}) == 1


def test_without_the_limits_a_proposal_is_as_large_as_a_request_may_be(
    base: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """P07."""
    for name in ("MAX_FILES", "MAX_FILE_BYTES", "MAX_BYTES"):
        monkeypatch.setattr(proposal_drafts, name, 1 << 30)
    with served_here(base, tmp_path / "state") as ground:
        files = [{"path": f"{number}.md", "content": "x" * (100 << 10)} for number in range(101)]
        assert propose(ground, files=files)


def test_without_escaping_a_title_decides(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P05."""

    def pasted(facts: dict[str, Any]) -> bytes:
        lines = [
            f'"{key}": ' + (f'"{value}"' if isinstance(value, str) else json.dumps(value))
            for key, value in facts.items()
        ]
        return ("{" + ", ".join(lines) + "}").encode()

    monkeypatch.setattr(proposal_record, "_json", pasted)
    title = 'x", "rationale": "", "status": "applied", "files": ["x.md"], "later": "'
    with served_here(base, tmp_path / "state") as ground:
        made = propose(ground, "x.md", title=title)
        record = json.loads((base / "vault/.kp/proposals" / str(made) / "proposal.json").read_text())
        assert record["title"] == "x"


def test_with_ids_by_the_clock_alone_the_second_is_lost(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P08."""
    monkeypatch.setattr(proposals, "new_ulid", lambda: "01ARYZ6S410000000000000000")
    with served_here(base, tmp_path / "state") as ground:
        assert propose(ground, "x.md") == "01ARYZ6S410000000000000000"
        assert propose(ground, "y.md") is None
        assert os.listdir(base / "vault/.kp/proposals") == ["01ARYZ6S410000000000000000"]


def test_without_hidden_names_a_proposal_is_a_note(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """P10: what keeps it out of the index is that its folder's name begins with a dot."""
    real = paths.is_hidden
    with served_here(base, tmp_path / "state") as ground:
        proposal = propose(ground, "x.md")
        assert proposal is not None
        write(base / "vault", f".kp/proposals/{proposal}/aside.md", "narwhal2217\n")
        assert ground.order("rebuild").status == 200
        ground.settled()
        assert ground.found("narwhal2217") == []
        for module in ("sidecar.vault.jail_posix", "sidecar.vault.paths", "sidecar.vault.watch"):
            monkeypatch.setattr(f"{module}.is_hidden", lambda name: real(name) and name != ".kp", raising=False)
        assert ground.order("rebuild").status == 200
        ground.until_found("narwhal2217", [f".kp/proposals/{proposal}/aside.md"])


def test_without_the_comparison_a_drifted_note_is_overwritten(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    with served_here(base, tmp_path / "state") as ground:
        made = propose(ground, "a.md")
        write(base / "vault", "a.md", "somebody's edit\n")
        monkeypatch.setattr(proposal_plans.patch, "apply", lambda file, old: b"harm\n")
        assert applied(ground, made)
        assert (base / "vault/a.md").read_text() == "harm\n"
