"""What applying a proposal would write, or why it can't be applied. Nothing is written here.

The patch is believed in nothing: paths, protection and what exporters manage
are checked as if it had come from a stranger, because since it was proposed
both it and the vault may have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.errors import BadArguments, BadPath, Conflict, NotWritten, Protected, TooLarge
from sidecar.services.proposal_drafts import MAX_FILES, Rules, too_large
from sidecar.services.proposal_record import Proposal
from sidecar.vault import patch
from sidecar.vault.notes import parse_note
from sidecar.vault.patch import BadPatch, Drift, FilePatch
from sidecar.vault.paths import VaultPath, echo


class CannotApply(Conflict):
    """A check failed; the message is the reason, as a sentence."""


@dataclass(frozen=True, slots=True)
class Change:
    """One note of a plan."""

    path: VaultPath
    old: bytes | None
    """None: there is no such note."""
    new: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """Every change of a proposal, in the order of its files."""

    changes: tuple[Change, ...]

    def new_ids(self) -> dict[str, str]:
        """Ids that the new notes claim, and which note it is; ids that only stand for a path are left out.

        Raises:
            CannotApply: two of them claim one id.
        """
        claimed: dict[str, str] = {}
        for change in self.changes:
            if change.old is not None:
                continue
            note_id = parse_note(change.path, change.new).note_id
            if note_id in claimed:
                raise CannotApply(f"'{claimed[note_id]}' and '{echo(change.path.text)}' both have the id '{note_id}'.")
            if note_id != f"path:{change.path.text}":
                claimed[note_id] = echo(change.path.text)
        return claimed


def planned(rules: Rules, proposal: Proposal, data: bytes) -> Plan:
    """The plan of a proposal whose patch is `data`, for the vault as it is now. Blocks: call it in a lane.

    Raises:
        CannotApply: a check failed.
        Unreadable: a note can't be looked at, so nothing is known.
    """
    if len(proposal.files) > MAX_FILES:
        raise CannotApply(str(too_large()))
    try:
        patches = {each.path: each for each in patch.parse(data)}
    except BadPatch as bad:
        raise CannotApply(f"The patch is damaged: {bad}.") from bad
    for path in patches:
        if path not in proposal.files:
            raise CannotApply(f"The patch changes '{echo(path)}', which the proposal does not name.")
    for path in proposal.files:
        if path not in patches:
            raise CannotApply(f"The patch has no change of '{echo(path)}', which the proposal names.")
    changes = tuple(_change(rules, patches[path]) for path in proposal.files)
    try:
        rules.together([change.path for change in changes])
    except (BadArguments, BadPath) as refused:
        raise CannotApply(str(refused)) from refused
    return Plan(changes)


def refuse_taken(claimed: Mapping[str, str], taken: Mapping[str, str]) -> None:
    """Refuse new notes with ids that notes of the vault have. `taken`: id to path.

    Raises:
        CannotApply: one has.
    """
    for note_id, path in claimed.items():
        if note_id in taken:
            raise CannotApply(f"'{path}' has the id '{note_id}', which '{echo(taken[note_id])}' has already.")


def _change(rules: Rules, file: FilePatch) -> Change:
    name = f"'{echo(file.path)}'"
    try:
        path = rules.path(file.path)
        old = rules.present(path)
        if file.creates and old is not None:
            raise CannotApply(f"{name} exists by now.")
        if not file.creates and old is None:
            raise CannotApply(f"{name} is gone.")
        new = patch.apply(file, old or b"")
        rules.change(path, old, new)
    except Drift as drift:
        raise CannotApply(f"{name} has changed since: {drift}.") from drift
    except BadPatch as bad:
        raise CannotApply(f"The patch of {name} is damaged: {bad}.") from bad
    except (BadPath, Protected, TooLarge) as refused:
        raise CannotApply(str(refused)) from refused
    except NotWritten as blocked:  # something else has the name
        raise CannotApply(str(blocked)) from blocked
    except CannotApply:
        raise
    except Conflict as taken:
        raise CannotApply(str(taken)) from taken
    if new == (old or b""):
        raise CannotApply(f"{name} already has this content.")
    return Change(path, old, new)
