"""Decides on proposals: what a review shows, applying as a whole, rejecting. With or without a daemon.

Everything blocks: call it in a lane. What writes gets the `Files` of the
vault's one writer, which nobody else uses on these notes meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sidecar.errors import Conflict, NotFound, NotWritten, SidecarError, TooLarge, Unreadable, VaultAway
from sidecar.services import applying
from sidecar.services.applying import Journal
from sidecar.services.proposal_drafts import Rules
from sidecar.services.proposal_plans import CannotApply, Change, planned, refuse_taken
from sidecar.services.proposal_record import By, Proposal, Resolution, refuse_no_reason
from sidecar.services.proposal_store import ProposalStore, refuse_settled
from sidecar.vault import patch
from sidecar.vault.files import Changed, Files
from sidecar.vault.jail import Jail
from sidecar.vault.leftovers import sweep
from sidecar.vault.notes import checksum_of
from sidecar.vault.patch import BadPatch, Drift, FilePatch
from sidecar.vault.paths import VaultPath, printable
from sidecar.vault.placing import Exists

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Review:
    """A proposal as a person looks at it before deciding."""

    proposal: Proposal
    patch: bytes
    problem: str | None
    """Why it can't be applied, as a sentence."""
    new_ids: Mapping[str, str]
    """Ids that its new notes claim, and which note it is; empty if there is a problem."""

    @property
    def checksum(self) -> str:
        """Of what was looked at: given to `apply`, nothing else is applied."""
        return checksum_of(self.patch)

    def checked(self, taken: Mapping[str, str]) -> Review:
        """The same, now that it is known which of its new ids are taken, and by which note."""
        try:
            refuse_taken(self.new_ids, taken)
        except CannotApply as problem:
            return Review(self.proposal, self.patch, str(problem), {})
        return self

    def refuse_unseen(self, seen: str | None) -> None:
        """Refuse another patch than the one with the checksum `seen`, if that is given.

        Raises:
            Conflict: it is another one.
        """
        if seen is not None and seen != self.checksum:
            raise _unseen()

    def facts(self) -> dict[str, Any]:
        """As JSON. Bytes of the diff that are no UTF-8 are escaped in it."""
        return {
            **self.proposal.facts(),
            "applicable": self.problem is None,
            "problem": self.problem,
            "checksum": self.checksum,
            "diff": self.patch.decode("utf-8", "backslashreplace"),
        }


@dataclass(frozen=True, slots=True)
class Settled:
    """A proposal after the decision. Its status says whether it was applied, its resolution why not."""

    proposal: Proposal
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        notes = {"created_notes": list(self.created), "changed_notes": list(self.changed)}
        return {**self.proposal.facts(), **notes}


class Settling:
    """The decisions about the proposals of one vault."""

    def __init__(self, store: ProposalStore, rules: Rules, jail: Jail, state_dir: Path) -> None:
        """In `state_dir` it is noted what is being applied."""
        self._store = store
        self._rules = rules
        self._jail = jail
        self._state_dir = state_dir

    def review(self, ending: str) -> Review:
        """A proposal with its patch, and whether that could be applied now. Whether ids are taken is not asked.

        Raises:
            NotFound: no proposal, or several, have this ending.
            Unreadable, TooLarge: it can't be read.
        """
        proposal, data = self._read(self._store.find(ending))
        try:
            refuse_settled(proposal)
            claimed = planned(self._rules, proposal, data).new_ids()
        except (Conflict, Unreadable) as problem:
            return Review(proposal, data, str(problem), {})
        return Review(proposal, data, None, claimed)

    def apply(self, files: Files, seen: Review, by: By, taken: Mapping[str, str]) -> Settled:
        """Write all that a proposal suggests and stamp it; if a check fails, stamp it rejected with the reason.

        `taken`: which of its new ids are taken, and by which note.

        Raises:
            Conflict: it is not open, not what was looked at, or a note is being changed just now.
            NotWritten, Unreadable: the disk refused; all is as it was, and the proposal open.
        """
        proposal, data = self._read(seen.proposal.id)
        refuse_settled(proposal)
        if data != seen.patch or proposal.files != seen.proposal.files:
            raise _unseen()
        try:
            plan = planned(self._rules, proposal, data)
            refuse_taken(plan.new_ids(), taken)
            applied = self._write(files, proposal.id, by, plan.changes)
        except CannotApply as refused:
            return Settled(self.reject(files, proposal.id, by, str(refused)))
        created = tuple(each.path.text for each in plan.changes if each.old is None)
        return Settled(applied, created, tuple(path for path in proposal.files if path not in created))

    def reject(self, files: Files, proposal_id: str, by: By, reason: str | None) -> Proposal:
        """Stamp it rejected.

        Raises:
            Conflict: it is not open.
            BadArguments: the reason is too long, or no text.
            NotWritten, Unreadable: the stamp could not be set.
        """
        refuse_no_reason(reason or "")
        try:
            return self._store.stamp(files, proposal_id, "rejected", _now(by, reason))
        except (Unreadable, TooLarge) as bad:
            raise _unreadable(proposal_id, bad) from bad

    def begun(self) -> tuple[VaultPath, ...]:
        """The notes of a proposal whose application was begun and not ended.

        Raises:
            Unreadable: it can't be told.
        """
        journal = Journal.read(self._state_dir)
        return tuple(VaultPath(path) for path, _, _ in journal.files) if journal else ()

    def recover(self, files: Files) -> None:
        """End what an earlier process began: what was written as a whole is stamped, what was not is taken back.

        Raises:
            Unreadable, NotWritten: it can't be done now; it is still noted.
        """
        journal = Journal.read(self._state_dir)
        if journal is None:
            return
        proposal, patches = self._begun(journal)
        if proposal is not None and proposal.status == "open":
            made = self._made(journal, patches)
            if len(made) == len(journal.files):
                self._store.stamp(files, proposal.id, "applied", _now(journal.by))
                logger.warning("the proposal %s was applied; its process had ended before it said so", proposal.id)
            else:
                folders = [VaultPath(each) for each in journal.folders]
                for folder in folders:  # new folders hold nothing but our own new texts
                    sweep(self._jail, lambda path, data, why: None, before_ns=time.time_ns(), start=folder)
                stay = applying.take_back(files, self._jail, made, folders)
                logger.warning("the proposal %s was being applied when its process ended; it was taken back, and is"
                               " still open.%s", proposal.id, applying.not_put_back(stay))  # fmt: skip
        Journal.remove(self._state_dir)

    def _begun(self, journal: Journal) -> tuple[Proposal | None, Mapping[str, FilePatch]]:
        """The proposal that was being applied; None if it is gone or damaged, and so can't be taken back.

        Raises:
            Unreadable: it can't be told now.
        """
        try:
            proposal, data = self._read(journal.proposal_id)
            return proposal, {each.path: each for each in patch.parse(data)}
        except VaultAway:
            raise
        except Unreadable as lost:
            if lost.__cause__ is not None and isinstance(lost.__cause__.__cause__, OSError):
                raise  # the disk refused, which may pass
            logger.warning("%s It was being applied when its process ended; the old texts of notes are kept, see"
                           " 'vault-sidecar recover'.", lost)  # fmt: skip
            return None, {}

    def _made(self, journal: Journal, patches: Mapping[str, FilePatch]) -> list[Change]:
        """Those of its changes that are in the vault."""
        made: list[Change] = []
        for text, was, new in journal.files:
            path = VaultPath(text)
            present = self._rules.present(path)
            if present is None or checksum_of(present) != new:
                continue
            try:
                old = None if was is None else patch.apply(patch.reverse(patches[text]), present)
            except (KeyError, Drift, BadPatch):  # it is not the patch any more that was applied
                logger.warning("%s stays as a proposal left it; its old text is kept", printable(text))
                continue
            made.append(Change(path, old, present))
        return made

    def _write(self, files: Files, proposal_id: str, by: By, changes: tuple[Change, ...]) -> Proposal:
        folders = applying.lacking_folders(self._jail, changes)
        Journal.of(proposal_id, by, changes, folders).write(self._state_dir)
        made: list[Change] = []
        try:
            applying.write_all(files, changes, made)
            applied = self._store.stamp(files, proposal_id, "applied", _now(by))
        except BaseException as failed:
            if len(made) == len(changes) and self._has_stamp(proposal_id):
                raise  # all is written, and says so; to take the notes back now would make that a lie
            stay = applying.take_back(files, self._jail, made, folders)
            if not stay:
                Journal.remove(self._state_dir)
                if isinstance(failed, Changed | Exists | NotFound):  # since it was checked
                    raise CannotApply(str(failed)) from failed
            if isinstance(failed, SidecarError):
                remains = applying.not_put_back(stay) or " The proposal was not applied, and is still open."
                raise NotWritten(f"{failed}{remains}") from failed
            raise
        try:
            Journal.remove(self._state_dir)
        except Unreadable:
            logger.warning("the note about the applied proposal %s stays", proposal_id, exc_info=True)
        return applied

    def _has_stamp(self, proposal_id: str) -> bool:
        try:
            return self._store.read(proposal_id)[0].status == "applied"
        except SidecarError:
            return False

    def _read(self, proposal_id: str) -> tuple[Proposal, bytes]:
        try:
            return self._store.read(proposal_id)[0], self._store.patch(proposal_id)
        except VaultAway:
            raise
        except (Unreadable, TooLarge) as bad:
            raise _unreadable(proposal_id, bad) from bad


def _unseen() -> Conflict:
    return Conflict("The proposal has changed since it was shown. Look at it again before applying it.")


def _unreadable(proposal_id: str, bad: SidecarError) -> Unreadable:
    return Unreadable(f"The proposal {printable(proposal_id)} can't be read: {str(bad).rstrip('.')}.")


def _now(by: str, reason: str | None = None) -> Resolution:
    return Resolution(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), by, reason)
