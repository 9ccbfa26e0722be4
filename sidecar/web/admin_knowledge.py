"""Routes under `/admin/` about the registry of skills and knowledge units."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pydantic import Field

from sidecar.arguments import Shape
from sidecar.web.admin_handlers import Handler, get, post
from sidecar.web.answers import Facts


@dataclass(frozen=True, slots=True)
class KnowledgeActions:
    """What the daemon does for its owner. Each returns facts that are JSON as they are."""

    listed: Callable[[], Awaitable[Facts]]
    shown: Callable[[str], Awaitable[Facts]]
    """Called with the id of an item, as those below."""
    remove: Callable[[str], Awaitable[Facts]]
    release: Callable[[str], Awaitable[Facts]]
    export: Callable[[int], Awaitable[Facts]]
    """Called with what the page before gave as `next`; 0 at first."""


class OneItem(Shape):
    """Body of the routes about one item."""

    id: str = Field(min_length=1, max_length=200)


class Page(Shape):
    """Body of /admin/knowledge/export."""

    after: int = Field(0, ge=0)


def knowledge_routes(actions: KnowledgeActions) -> Mapping[str, tuple[str, Handler]]:
    """Path to (method, handler)."""
    root = "/admin/knowledge"
    return {
        root: ("GET", get(actions.listed)),
        f"{root}/show": ("POST", post(f"{root}/show", OneItem, lambda a: actions.shown(a.id))),
        f"{root}/remove": ("POST", post(f"{root}/remove", OneItem, lambda a: actions.remove(a.id))),
        f"{root}/release": ("POST", post(f"{root}/release", OneItem, lambda a: actions.release(a.id))),
        f"{root}/export": ("POST", post(f"{root}/export", Page, lambda a: actions.export(a.after))),
    }
