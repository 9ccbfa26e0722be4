"""How the daemon is, in the words of the Status row."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.editor.state import state_of
from tests.editor import law

READY: dict[str, Any] = {
    "phase": "ready",
    "settled": True,
    "progress": {"done": 3, "total": 3},
    "notes": {"total": 3, "keyword": 3, "vector": 3, "skipped": 0},
    "chunks": {"total": 3, "vector": 3},
    "port": 24783,
    "url": "http://127.0.0.1:24783/mcp",
    "clients": [],
    "last_refused": None,
    "last_problem": None,
    "vectors": "ready",
}


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        ("ready", None),
        ("starting: The vector index is starting.", None),
        ("off", None),
        ("off: There is no model.", "Search by meaning is away: There is no model."),
        ("away: It was killed: signal 9.", "Search by meaning is away: It was killed: signal 9."),
        ("away", "Search by meaning is away."),
    ],
)
def test_vectors_that_are_away_are_a_problem_with_the_reason_alone(vectors: str, reason: str | None) -> None:
    state = state_of(READY | {"vectors": vectors})
    law.check("event.state", state)
    assert (state["problem"] and state["problem"]["reason"]) == reason
