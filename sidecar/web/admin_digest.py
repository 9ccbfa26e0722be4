"""The route under `/admin/` that makes a digest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import datetime

from pydantic import Field

from sidecar.arguments import Shape
from sidecar.errors import BadArguments
from sidecar.services.digests import Digests
from sidecar.web.admin_handlers import Handler, post
from sidecar.web.answers import Facts

DigestAction = Callable[[str | None], Awaitable[Facts]]
"""Called with the time that counts as now, if it is not now. Returns facts that are JSON as they are."""


class MakeDigest(Shape):
    """Body of /admin/digest."""

    now: str | None = Field(None, max_length=50, description="RFC 3339, with its offset from UTC.")


def digest_routes(action: DigestAction) -> Mapping[str, tuple[str, Handler]]:
    """Path to (method, handler)."""
    return {"/admin/digest": ("POST", post("/admin/digest", MakeDigest, lambda a: action(a.now)))}


def digest_action(digests: Digests) -> DigestAction:
    """The action of the vault's own service."""

    async def run(now: str | None) -> Facts:
        return asdict(await digests.run(_moment(now) if now is not None else None))

    return run


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        moment.astimezone()  # not every year has a place in every time zone
    except (ValueError, OverflowError, OSError):
        raise BadArguments("now: must be a time such as 2026-11-30T06:00:00Z.") from None
    if moment.tzinfo is None:
        raise BadArguments("now: must say its offset from UTC, such as Z or +01:00.")
    return moment
