"""Routes under `/admin/` about databases: which there are, a new one, one that is forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from sidecar.arguments import Shape
from sidecar.web.admin_handlers import Handler, get, post
from sidecar.web.answers import Facts


@dataclass(frozen=True, slots=True)
class DatabaseActions:
    """What the daemon does for its owner. Each returns facts that are JSON as they are."""

    status: Callable[[], Awaitable[Facts]]
    add: Callable[[str, str], Awaitable[Facts]]
    """Called with name and folder."""
    remove: Callable[[str], Awaitable[Facts]]
    """Called with the name."""


class AddDatabase(Shape):
    """Body of /admin/databases/add. What is allowed is the service's business."""

    name: str
    folder: str


class RemoveDatabase(Shape):
    """Body of /admin/databases/remove."""

    name: str


def database_routes(actions: DatabaseActions) -> Mapping[str, tuple[str, Handler]]:
    """Path to (method, handler)."""
    add, remove = "/admin/databases/add", "/admin/databases/remove"
    return {
        "/admin/databases": ("GET", get(actions.status)),
        add: ("POST", post(add, AddDatabase, lambda asked: actions.add(asked.name, asked.folder))),
        remove: ("POST", post(remove, RemoveDatabase, lambda asked: actions.remove(asked.name))),
    }
