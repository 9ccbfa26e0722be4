"""Routes under `/admin/` about proposals: what waits, what it would change, and the owner's decision."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pydantic import Field

from sidecar.arguments import Shape
from sidecar.services.proposal_record import MAX_REASON, By
from sidecar.services.proposals import Proposals
from sidecar.web.admin_handlers import Handler, post
from sidecar.web.answers import Facts


@dataclass(frozen=True, slots=True)
class ProposalActions:
    """What the daemon does for its owner. Each returns facts that are JSON as they are."""

    listed: Callable[[bool], Awaitable[Facts]]
    """Called with whether those that were decided on are wanted too."""
    show: Callable[[str], Awaitable[Facts]]
    """Called with an id, or an ending of it."""
    apply: Callable[[str, By, str | None], Awaitable[Facts]]
    """Called with id, way and the checksum of the patch that the owner saw."""
    reject: Callable[[str, By, str | None], Awaitable[Facts]]
    """Called with id, way and reason."""


class ListProposals(Shape):
    """Body of /admin/proposals."""

    all: bool = False


class ShowProposal(Shape):
    """Body of /admin/proposals/show."""

    id: str = Field(min_length=1)


class ApplyProposal(Shape):
    """Body of /admin/proposals/apply."""

    id: str = Field(min_length=1)
    by: By
    seen: str | None = Field(None, description="The checksum that /admin/proposals/show gave with the diff.")


class RejectProposal(Shape):
    """Body of /admin/proposals/reject."""

    id: str = Field(min_length=1)
    by: By
    reason: str | None = Field(None, max_length=MAX_REASON)


def proposal_routes(actions: ProposalActions) -> Mapping[str, tuple[str, Handler]]:
    """Path to (method, handler)."""
    base = "/admin/proposals"
    return {
        base: ("POST", post(base, ListProposals, lambda a: actions.listed(a.all))),
        f"{base}/show": ("POST", post(f"{base}/show", ShowProposal, lambda a: actions.show(a.id))),
        f"{base}/apply": ("POST", post(f"{base}/apply", ApplyProposal, lambda a: actions.apply(a.id, a.by, a.seen))),
        f"{base}/reject": (
            "POST",
            post(f"{base}/reject", RejectProposal, lambda a: actions.reject(a.id, a.by, a.reason)),
        ),
    }


def proposal_actions(proposals: Proposals) -> ProposalActions:
    """The actions of the vault's own service."""

    async def show(proposal_id: str) -> Facts:
        return (await proposals.show(proposal_id)).facts()

    async def apply(proposal_id: str, by: By, seen: str | None) -> Facts:
        return (await proposals.apply(proposal_id, by, seen=seen)).facts()

    async def reject(proposal_id: str, by: By, reason: str | None) -> Facts:
        return (await proposals.reject(proposal_id, by, reason)).facts()

    return ProposalActions(proposals.listed, show, apply, reject)
