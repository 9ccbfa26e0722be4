"""kp_propose: shapes, and the handler that hands a suggestion to the service of proposals."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sidecar.arguments import Shape
from sidecar.contract import Call
from sidecar.services.core import Core


class ProposedFile(Shape):
    """One note of a proposal."""

    path: str = Field(min_length=1, description="Path of the note in the vault, like 'Folder/Note.md'.")
    content: str = Field(description="The full new text of the note, at most 1 MiB.")


class ProposeArgs(Shape):
    """kp_propose"""

    title: str = Field(min_length=1, max_length=200, description="What the change does, in one line.")
    rationale: str = Field(max_length=20_000, description="Why it should be made, for the person who decides.")
    # how many at most is said by the service, in a sentence that names all limits at once
    files: list[ProposedFile] = Field(
        min_length=1, description="The notes to create or change: at most 100, and 4 MiB in all."
    )


class ProposeResult(Shape):
    """A proposal as it was stored."""

    id: str
    status: Literal["open"]
    dir: str
    files: list[str]


async def propose(core: Core, args: ProposeArgs, call: Call) -> ProposeResult:
    """Store a suggestion; no note is touched."""
    files = [(file.path, file.content) for file in args.files]
    proposal = await core.proposals.propose(args.title, args.rationale, files, author=f"mcp:{call.caller.agent_id}")
    return ProposeResult(id=proposal.id, status="open", dir=proposal.dir, files=list(proposal.files))
