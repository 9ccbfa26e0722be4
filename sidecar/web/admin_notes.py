"""Routes under `/admin/` about writing notes: the switch of it, and texts that are put back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pydantic import Field

from sidecar.arguments import Shape
from sidecar.web.admin_handlers import Handler, post
from sidecar.web.answers import Facts


@dataclass(frozen=True, slots=True)
class NotesActions:
    """What the daemon does for its owner. Each returns facts that are JSON as they are."""

    allow_writes: Callable[[bool], Awaitable[Facts]]
    """Called with what the switch is to be."""
    restore: Callable[[str], Awaitable[Facts]]
    """Called with the id of a kept text, or an ending of it."""


class Settings(Shape):
    """Body of /admin/settings."""

    allow_writes: bool


class Restore(Shape):
    """Body of /admin/restore."""

    id: str = Field(min_length=1)


def notes_routes(actions: NotesActions) -> Mapping[str, tuple[str, Handler]]:
    """Path to (method, handler)."""
    return {
        "/admin/settings": ("POST", post("/admin/settings", Settings, lambda a: actions.allow_writes(a.allow_writes))),
        "/admin/restore": ("POST", post("/admin/restore", Restore, lambda a: actions.restore(a.id))),
    }
