"""Proposals: how clients suggest changes of notes, and how a person decides on them.

Proposing writes into `.kp/proposals` and nowhere else. Applying is asked for
by the vault's owner alone, and goes through the one writer of the vault.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sidecar.errors import SidecarError
from sidecar.index.corpus import Corpus
from sidecar.services.proposal_drafts import Rules, drafted, refuse_no_text
from sidecar.services.proposal_record import FOLDER, By, Proposal
from sidecar.services.proposal_store import ProposalStore
from sidecar.services.protection import Protection
from sidecar.services.settling import Review, Settled, Settling
from sidecar.services.writing import Writing
from sidecar.tasks import Lane
from sidecar.ulids import new_ulid
from sidecar.vault.paths import VaultPath

logger = logging.getLogger(__name__)

_DECIDING: Final = VaultPath(FOLDER)
"""Held by whoever decides: one at a time, because there is one note of what is being applied."""

Taken = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""Which of these ids notes of the vault have: id to path."""


class Proposals:
    """The proposals of one vault. Open it with `open_proposals`."""

    def __init__(
        self, store: ProposalStore, rules: Rules, settling: Settling, writing: Writing, taken: Taken, lane: Lane
    ) -> None:
        self._store = store
        self._rules = rules
        self._settling = settling
        self._writing = writing
        self._taken = taken
        self._lane = lane
        self.on_changed: Callable[[], None] = lambda: None
        """Called when a proposal was made or decided on."""

    async def propose(self, title: str, rationale: str, files: Sequence[tuple[str, str]], author: str) -> Proposal:
        """Store a suggestion: `files` are paths and whole new texts. No note is touched.

        Raises:
            SidecarError: nothing was stored; the sentence says what is wrong.
        """
        refuse_no_text(title, rationale)
        patch = await self._lane.run(drafted, self._rules, files)
        proposal = Proposal(
            id=new_ulid(),
            created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            author=author,
            title=title,
            rationale=rationale,
            status="open",
            files=tuple(path for path, _ in files),
        )
        await self._writing.together([], lambda writer: self._store.add(writer, proposal, patch))
        logger.info("a proposal of %s waits: %s", author, proposal.id)
        self.on_changed()
        return proposal

    async def listed(self, every: bool = False) -> dict[str, Any]:
        """The open proposals, or all, oldest first, and the folders that can't be read; as JSON."""
        kept = await self._lane.run(self._store.all)
        return kept.facts(every)

    async def show(self, ending: str) -> Review:
        """A proposal, by its id or an ending of it, and whether it could be applied now.

        Raises:
            NotFound, Unreadable: there is no such proposal, or it can't be read.
        """
        review = await self._lane.run(self._settling.review, ending)
        return review.checked(await self._taken(review.new_ids))

    async def apply(self, ending: str, by: By, *, seen: str | None = None) -> Settled:
        """Apply a proposal as a whole, or reject it when a check fails. `seen`: checksum of the patch that was shown.

        Raises:
            NotFound, Unreadable: there is no such proposal, or it can't be read.
            Conflict: it is not open, or not the one that was shown.
            NotWritten: the disk refused; the notes are as they were, and it is open.
        """
        await self._end_what_was_begun()
        review = await self._lane.run(self._settling.review, ending)
        review.refuse_unseen(seen)
        taken = await self._taken(review.new_ids)
        paths = [_DECIDING, *(VaultPath(path) for path in review.proposal.files)]
        settled = await self._writing.together(paths, lambda files: self._settling.apply(files, review, by, taken))
        self._has_settled(settled.proposal)
        return settled

    async def reject(self, ending: str, by: By, reason: str | None = None) -> Proposal:
        """Reject a proposal.

        Raises:
            NotFound, Unreadable: there is no such proposal, or it can't be read.
            Conflict: it is not open.
            BadArguments: the reason is too long, or no text.
        """
        await self._end_what_was_begun()
        proposal_id = await self._lane.run(self._store.find, ending)
        proposal = await self._writing.together(
            [_DECIDING], lambda files: self._settling.reject(files, proposal_id, by, reason or None)
        )
        self._has_settled(proposal)
        return proposal

    async def _end_what_was_begun(self) -> None:
        """Before any decision: one on the proposal that was being applied would leave its notes half changed."""
        if begun := await self._lane.run(self._settling.begun):
            await self._writing.together([_DECIDING, *begun], self._settling.recover)

    def _has_settled(self, proposal: Proposal) -> None:
        logger.info("the proposal %s was %s", proposal.id, proposal.status)
        self.on_changed()


@asynccontextmanager
async def open_proposals(
    corpus: Corpus, writing: Writing, protection: Protection, state_dir: Path
) -> AsyncGenerator[Proposals]:
    """The proposals of a vault, after what an earlier process left unfinished has been ended or taken back."""
    started_ns = time.time_ns()
    store = ProposalStore(corpus.jail)
    rules = Rules(corpus.jail, protection, corpus.is_ignored)
    settling = Settling(store, rules, corpus.jail, state_dir)
    lane = Lane("proposals")
    try:
        await _clear_up(store, settling, writing, lane, started_ns)
        yield Proposals(store, rules, settling, writing, _taken(corpus), lane)
    finally:
        await lane.close()


def _taken(corpus: Corpus) -> Taken:
    """By what the index knows."""

    async def taken(ids: Collection[str]) -> Mapping[str, str]:
        if not ids:
            return {}
        found = await corpus.ask(lambda reader: {note_id: reader.note_named(note_id) for note_id in ids})
        return {note_id: note.path for note_id, note in found.items() if note is not None}

    return taken


async def _clear_up(store: ProposalStore, settling: Settling, writing: Writing, lane: Lane, started_ns: int) -> None:
    try:
        await writing.together(await lane.run(settling.begun), settling.recover)
        await writing.together([], lambda _: store.tidy(before_ns=started_ns))
    except SidecarError as away:
        logger.warning("what was left of proposals is not cleared up now: %s", away)
