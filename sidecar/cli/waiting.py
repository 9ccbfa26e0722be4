"""Waits until the daemon's index has taken in what there is, and shows how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sidecar.bridge.client import LocalClient
from sidecar.cli.screen import Reporter
from sidecar.errors import NotReady

_HELD_S: Final = 0.5  # how long the daemon holds an answer back while nothing changes


@dataclass(frozen=True, slots=True)
class _Progress:
    phase: str
    done: int
    total: int


def until_settled(client: LocalClient, facts: dict[str, Any], report: Reporter, away: str) -> dict[str, Any]:
    """The daemon's status once nothing is queued. `facts` is its status now, or holds a generation to look beyond.

    Raises:
        NotReady: the vault can't be read; `away` says what that means.
    """
    while not facts.get("settled"):
        if facts.get("phase") == "vault unavailable":
            raise NotReady(away)
        if "progress" in facts:
            report(_Progress(facts["phase"], facts["progress"]["done"], facts["progress"]["total"]))
        facts = client.get("/admin/status", after=facts["generation"], wait_s=_HELD_S)
    return facts


def all_of(facts: dict[str, Any]) -> _Progress:
    """The progress of an index that is settled."""
    return _Progress("ready", facts["notes"]["keyword"], facts["notes"]["total"])
