"""A real vault with its proposals, as the daemon opens them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.services.proposal_record import Proposal
from sidecar.services.proposals import Proposals
from tests.e2e.test_served import tree_hash
from tests.surfaces.tools import Tools, open_tools

AUTHOR = "mcp:tester"


@dataclass(frozen=True)
class Bench:
    """`tools` is everything a tool may use; `vault` is the folder on the disk."""

    tools: Tools
    vault: Path
    state: Path

    @property
    def proposals(self) -> Proposals:
        return self.tools.core.proposals

    def lay(self, path: str, content: str | bytes) -> Path:
        file = self.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    async def propose(self, *files: tuple[str, str], title: str = "Tidy up") -> Proposal:
        return await self.proposals.propose(title, "Because.", files, AUTHOR)

    def folders(self) -> list[str]:
        """Everything in the folder of proposals, hidden too."""
        folder = self.vault / ".kp/proposals"
        return sorted(each.name for each in folder.iterdir()) if folder.exists() else []

    def record(self, proposal: Proposal) -> dict[str, Any]:
        """`proposal.json` as it is."""
        found: dict[str, Any] = json.loads((self.vault / proposal.dir / "proposal.json").read_text("utf-8"))
        return found

    def patch(self, proposal: Proposal) -> Path:
        return self.vault / proposal.dir / "changes.patch"

    def notes(self) -> dict[str, bytes]:
        """Every file outside of hidden folders."""
        found = (path for path in self.vault.rglob("*") if path.is_file())
        files = {path.relative_to(self.vault): path.read_bytes() for path in found}
        return {str(path): data for path, data in files.items() if not path.parts[0].startswith(".")}

    def tree(self) -> str:
        """The hash of all that is no proposal."""
        return tree_hash(self.vault, without=".kp")

    async def problem(self, proposal: Proposal) -> str | None:
        """What a look at it says; the stamp stays as it was."""
        before = self.record(proposal)
        review = await self.proposals.show(proposal.id)
        assert self.record(proposal) == before
        return review.problem

    async def rejected(self, proposal: Proposal) -> str:
        """The reason of the rejection; every note is as it was."""
        problem, before = await self.problem(proposal), self.notes()
        settled = await self.proposals.apply(proposal.id, "cli")
        assert self.notes() == before
        assert settled.proposal.status == self.record(proposal)["status"] == "rejected"
        assert settled.proposal.resolution is not None
        assert settled.proposal.resolution.reason == problem
        assert problem is not None
        return problem


@asynccontextmanager
async def open_bench(base: Path) -> AsyncIterator[Bench]:
    """A vault with one note of nine lines."""
    await asyncio.to_thread((base / "vault").mkdir)
    plan = base / "vault/Projects/Plan.md"
    plan.parent.mkdir()
    plan.write_text("".join(f"line {number}\n" for number in range(1, 10)))
    async with open_tools(base / "vault", base / "state") as tools:
        yield Bench(tools, base / "vault", base / "state")
