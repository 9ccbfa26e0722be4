"""The check of the registry of skills and knowledge units."""

from __future__ import annotations

from sidecar.cli.doctor.scene import Finding, Scene
from sidecar.errors import Unreadable
from sidecar.services.knowledge.store_file import looked_at

_CURE = "do so with the daemon stopped; what the registry holds is in no other place"


def knowledge(scene: Scene) -> Finding:
    """Whether the registry can be used: what the daemon says of it or, where none runs, what SQLite finds."""
    if scene.status:
        problem = scene.status.get("knowledge_problem")
        return Finding("wrong", problem, _CURE) if problem else Finding("ok", "the registry is in use")
    if scene.is_locked:
        return Finding("note", "is not looked at while a daemon that does not answer may have it open")
    try:
        count = looked_at(scene.state_dir)
    except Unreadable as unusable:
        return Finding("wrong", str(unusable), _CURE)
    if count is None:
        return Finding("ok", "there is no registry yet; the first start makes it")
    return Finding("ok", f"the registry is whole, {count:,} items")


__all__ = ["knowledge"]
