"""Proposals of clients, decided on in the editor of a real daemon."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar.bridge.pipe import LONGEST_LINE
from sidecar.editor import messages
from tests import wire
from tests.editor.conftest import Study
from tests.editor.plugin import Plugin, Refused


def propose(plugin: Plugin, **files: str) -> dict[str, Any]:
    """What a client is answered that proposes these texts of notes."""
    reply = wire.post(
        plugin.ask("status")["port"],
        plugin.ask("token/get")["token"],
        wire.tool(
            "kp_propose",
            title="Prune the plum",
            rationale="It is late.\n" * 200,
            files=[{"path": f"{name}.md", "content": text} for name, text in files.items()],
        ),
    )
    result = reply.json()["result"]
    assert not result.get("isError"), result
    return dict(result["structuredContent"])


@pytest.fixture
def proposed(shared_study: Study, plugin: Plugin) -> dict[str, Any]:
    """A proposal to change a note and to add one."""
    shared_study.write("Old.md", "# Old\n\none\ntwo\n")
    (shared_study.vault / "New.md").unlink(missing_ok=True)
    return propose(plugin, Old="# Old\n\none\nthree\n", New="# New\n")


def test_a_proposal_is_told_listed_shown_and_applied(
    shared_study: Study, plugin: Plugin, proposed: dict[str, Any]
) -> None:
    plugin.hear("proposals/changed", lambda told: told["open"] >= 1)  # that of an earlier test may come late
    listed = plugin.ask("proposals/list")
    [row] = [row for row in listed["proposals"] if row["id"] == proposed["id"]]
    assert (row["status"], row["title"], row["files"]) == ("open", "Prune the plum", ["Old.md", "New.md"])
    assert (len(row["rationale"]), listed["unreadable"], listed["left"]) == (1000, [], 0)
    shown = plugin.ask("proposals/show", id=proposed["id"][-6:])
    assert "-two\n+three\n" in shown["diff"] and (shown["cut"], shown["problem"]) == (False, None)
    assert shown["proposal"]["rationale"] == "It is late.\n" * 200
    plugin.forget()
    applied = plugin.ask("proposals/apply", id=proposed["id"], seen=shown["checksum"])
    assert applied == {"id": proposed["id"], "status": "applied", "reason": None}
    assert (shared_study.vault / "Old.md").read_text() == "# Old\n\none\nthree\n"
    assert (shared_study.vault / "New.md").read_text() == "# New\n"
    left = len(plugin.ask("proposals/list")["proposals"])
    plugin.hear("proposals/changed", lambda told: told["open"] == left)
    [row] = [row for row in plugin.ask("proposals/list", all=True)["proposals"] if row["id"] == proposed["id"]]
    assert (row["status"], row["resolution"]["by"]) == ("applied", "plugin")
    with pytest.raises(Refused) as refused:
        plugin.ask("proposals/apply", id=proposed["id"], seen=shown["checksum"])
    assert refused.value.code == "conflict"


def test_another_patch_than_the_person_saw_is_not_applied(
    shared_study: Study, plugin: Plugin, proposed: dict[str, Any]
) -> None:
    with pytest.raises(Refused) as refused:
        plugin.ask("proposals/apply", id=proposed["id"], seen="sha256:" + "0" * 64)
    assert refused.value.code == "conflict"
    assert not (shared_study.vault / "New.md").exists()
    assert plugin.ask("proposals/show", id=proposed["id"])["proposal"]["status"] == "open"


def test_a_vault_that_changed_since_has_it_rejected_with_the_reason(
    shared_study: Study, plugin: Plugin, proposed: dict[str, Any]
) -> None:
    shared_study.write("Old.md", "# Old\n\nsomething else\n")
    shown = plugin.ask("proposals/show", id=proposed["id"])
    assert shown["problem"]
    settled = plugin.ask("proposals/apply", id=proposed["id"], seen=shown["checksum"])
    assert (settled["status"], settled["reason"]) == ("rejected", shown["problem"])
    assert (shared_study.vault / "Old.md").read_text() == "# Old\n\nsomething else\n"
    assert not (shared_study.vault / "New.md").exists()


def test_one_is_rejected(shared_study: Study, plugin: Plugin, proposed: dict[str, Any]) -> None:
    rejected = plugin.ask("proposals/reject", id=proposed["id"], reason="Not now.")
    assert rejected == {"id": proposed["id"], "status": "rejected"}
    resolution = plugin.ask("proposals/show", id=proposed["id"])["proposal"]["resolution"]
    assert (resolution["by"], resolution["reason"]) == ("plugin", "Not now.")
    with pytest.raises(Refused) as refused:
        plugin.ask("proposals/show", id="ZZZZZZ")
    assert refused.value.code == "no-such"


def test_a_long_diff_is_cut_and_says_so(plugin: Plugin) -> None:
    proposed = propose(plugin, Long="\u0001 é 笔\n" * 80_000)
    shown = plugin.ask("proposals/show", id=proposed["id"])
    assert shown["cut"] and shown["diff"].startswith("--- /dev/null\n+++ b/Long.md\n")
    assert max(map(len, plugin.raw.splitlines())) <= LONGEST_LINE
    plugin.ask("proposals/reject", id=proposed["id"])


@pytest.mark.parametrize("text", ["", "plum", "\u0001" * 50, "é笔🌳" * 20, '"\\' * 30])
@pytest.mark.parametrize("room", [0, 2, 3, 20, 100, 1000])
def test_the_beginning_of_a_text_takes_no_more_room_than_it_has(text: str, room: int) -> None:
    kept = messages.beginning(text, room)
    assert text.startswith(kept)
    assert not kept or messages.size(kept) <= room
    if len(kept) < len(text):
        assert messages.size(text[: len(kept) + 1]) > room
    assert messages.size(kept) == len(json.dumps(kept, ensure_ascii=False).encode())
