"""The folder `.kp/proposals` of a vault: one folder a proposal, which appears whole or not at all.

A proposal is written into a folder with a hidden name beside its place, and
gets its own name last. Everything blocks: call it in a lane.
"""

from __future__ import annotations

import logging
import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from sidecar.errors import Conflict, NotFound, NotWritten, SidecarError, Unreadable, VaultAway
from sidecar.services import proposal_record
from sidecar.services.proposal_record import FOLDER, Proposal, Resolution, Status
from sidecar.ulids import PATTERN
from sidecar.vault.displaced import Why
from sidecar.vault.door import NotThere
from sidecar.vault.files import Changed, Files
from sidecar.vault.jail import Jail
from sidecar.vault.leftovers import sweep
from sidecar.vault.notes import checksum_of
from sidecar.vault.paths import VaultPath, echo, printable
from sidecar.vault.reasons import reason_of

logger = logging.getLogger(__name__)

MAX_PATCH_BYTES: Final = 32 << 20
SHORTEST_END: Final = 6

_RECORD: Final = "proposal.json"
_PATCH: Final = "changes.patch"
_UNFINISHED: Final = re.compile(rf"\.{PATTERN.pattern}\.[0-9a-f]{{16}}\.tmp")


@dataclass(frozen=True, slots=True)
class Kept:
    """What the folder holds, oldest first."""

    proposals: tuple[Proposal, ...]
    unreadable: tuple[tuple[str, str], ...]
    """Name and reason of each folder that is passed over."""

    def facts(self, every: bool) -> dict[str, Any]:
        """The open proposals, or `every` one, as JSON."""
        return {
            "proposals": [each.facts() for each in self.proposals if every or each.status == "open"],
            "unreadable": [{"name": name, "reason": reason} for name, reason in self.unreadable],
        }


class ProposalStore:
    """The proposals of one vault. What writes gets the `Files` of the vault's one writer."""

    def __init__(self, jail: Jail) -> None:
        self._jail = jail
        self._told: set[tuple[str, str]] = set()

    def all(self) -> Kept:
        """Every proposal. A folder that can't be read is passed over, with a warning at the first time.

        Raises:
            VaultAway: the vault itself is gone.
            Unreadable: the folder can't be listed.
        """
        found: list[Proposal] = []
        unreadable: list[tuple[str, str]] = []
        for name in self._names():
            try:
                found.append(self.read(name)[0])
            except SidecarError as bad:
                unreadable.append((name, str(bad)))
                if unreadable[-1] not in self._told:
                    self._told.add(unreadable[-1])
                    logger.warning("the proposal %s is passed over: %s", printable(name), printable(str(bad)))
        return Kept(tuple(found), tuple(unreadable))

    def find(self, ending: str) -> str:
        """The id that an owner means: the whole of it, or an ending that no other has, of 6 characters at least.

        Raises:
            NotFound: none or several have it.
        """
        wanted = ending.upper()
        found = [name for name in self._names() if name.endswith(wanted) and len(wanted) >= SHORTEST_END]
        if len(found) > 1:
            raise NotFound(f"Several proposals end in '{echo(ending)}'. 'vault-sidecar proposals list' shows them.")
        if not found:
            raise no_proposal(ending)
        return found[0]

    def read(self, proposal_id: str) -> tuple[Proposal, bytes]:
        """A proposal and the bytes of its record.

        Raises:
            Unreadable: there is no record, or a damaged one; small letters, no full stop.
        """
        try:
            data = self._jail.read(_place(proposal_id, _RECORD), max_bytes=proposal_record.MAX_BYTES).data
        except NotFound:
            raise Unreadable("it has no proposal.json") from None
        return proposal_record.decode(proposal_id, data), data

    def patch(self, proposal_id: str) -> bytes:
        """The bytes of its patch.

        Raises:
            Unreadable, TooLarge: there is none, or it can't be read.
        """
        try:
            return self._jail.read(_place(proposal_id, _PATCH), max_bytes=MAX_PATCH_BYTES).data
        except NotFound:
            raise Unreadable("it has no changes.patch") from None

    def add(self, files: Files, proposal: Proposal, patch: bytes) -> None:
        """Store a new proposal.

        Raises:
            NotWritten: the disk refused, or something is in the way; nothing of it is left.
            VaultAway: the vault itself is gone.
        """
        aside = f".{proposal.id}.{secrets.token_hex(8)}.tmp"
        try:
            files.create(_place(aside, _RECORD), proposal_record.encode(proposal))
            files.create(_place(aside, _PATCH), patch)
            self._name(aside, proposal.id)
        except VaultAway:
            raise
        except (OSError, NotThere, SidecarError) as failed:
            self._discard(aside)
            raise NotWritten(f"The proposal could not be stored: {_reason(failed)}.") from failed

    def stamp(self, files: Files, proposal_id: str, status: Status, resolution: Resolution) -> Proposal:
        """Write down what was decided; the proposal as it is now.

        Raises:
            Conflict: it is not open any more.
            NotWritten, Unreadable: its record can't be changed; it is as it was.
        """
        proposal, data = self.read(proposal_id)
        refuse_settled(proposal)
        record = proposal_record.stamped(data, status, resolution)
        try:
            files.change(_place(proposal_id, _RECORD), lambda _: record, expected=checksum_of(data))
        except (Changed, NotFound) as changed:
            raise Conflict("The proposal is being changed by another program. Try again soon.") from changed
        return proposal_record.decode(proposal_id, record)

    def tidy(self, *, before_ns: int) -> int:
        """Remove what processes that were cut off have left; how many proposals that were never finished.

        Raises:
            Unreadable: the folder can't be listed.
        """
        sweep(self._jail, _forget, before_ns=before_ns, start=VaultPath(FOLDER))
        return sum(self._discard(name, before_ns=before_ns) for name in self._names(_UNFINISHED))

    def _names(self, pattern: re.Pattern[str] = PATTERN) -> list[str]:
        """Folders by name, which is by age."""
        try:
            try:
                folder = self._jail.folder(VaultPath(FOLDER))
            except NotThere:
                return []
            try:
                return sorted(name for name, is_folder in folder.entries() if is_folder and pattern.fullmatch(name))
            finally:
                folder.close()
        except OSError as failed:
            raise Unreadable(f"'{FOLDER}' can't be read: {reason_of(failed)}.") from failed

    def _name(self, aside: str, proposal_id: str) -> None:
        folder = self._jail.folder(VaultPath(FOLDER))
        try:
            folder.move(aside, proposal_id)
            try:
                folder.sync()
            except OSError:
                folder.move(proposal_id, aside)
                raise
        finally:
            folder.close()

    def _discard(self, name: str, *, before_ns: int | None = None) -> bool:
        """Remove a folder that never became a proposal, if it is old enough; whether it is gone."""
        try:
            inside = self._jail.folder(VaultPath(f"{FOLDER}/{name}"))
            try:
                if before_ns is not None and inside.status().st_ctime_ns >= before_ns:
                    return False
                for each, _ in inside.entries():
                    inside.remove(each)
            finally:
                inside.close()
            above = self._jail.folder(VaultPath(FOLDER))
            try:
                above.remove_folder(name)
            finally:
                above.close()
        except NotThere:
            return False
        except (OSError, SidecarError):
            logger.warning("a proposal that was not finished stays in %s until the next start", FOLDER, exc_info=True)
            return False
        return True


def _forget(path: VaultPath, data: bytes, why: Why) -> None:
    """What a cut off stamp leaves is an older or a newer record of ours; nothing in it is lost."""


def _reason(failed: Exception) -> str:
    """Why nothing could be stored, as the end of a sentence."""
    cause = failed if isinstance(failed, OSError) else failed.__cause__
    if isinstance(cause, OSError):
        return reason_of(cause)
    other = isinstance(failed, Conflict)
    return f"'{FOLDER}' is there in another spelling" if other else "a part of its path is no folder"


def no_proposal(ending: str) -> NotFound:
    """The error for a proposal that is not there."""
    short = f" The end of an id needs {SHORTEST_END} characters at least." if len(ending) < SHORTEST_END else ""
    return NotFound(
        f"There is no proposal '{echo(ending)}'.{short} 'vault-sidecar proposals list --all' shows those there are."
    )


def refuse_settled(proposal: Proposal) -> None:
    """Refuse a proposal that was decided on already.

    Raises:
        Conflict: it was.
    """
    if proposal.status != "open":
        raise Conflict(f"The proposal {proposal.id} was {proposal.status} already.")


def _place(proposal_id: str, name: str) -> VaultPath:
    return VaultPath(f"{FOLDER}/{proposal_id}/{name}")
