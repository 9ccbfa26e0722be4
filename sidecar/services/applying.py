"""Changes several notes as one: all of them, or none.

What is about to be done is written down in the state folder first. A process
that is ended in the middle leaves that note behind, and the next one completes
the work or takes it back. Everything blocks: call it in a lane, while nobody
else changes these notes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from sidecar.bridge import private_files
from sidecar.errors import BadPath, NotFound, NotWritten, SidecarError, Unreadable
from sidecar.services.proposal_plans import Change
from sidecar.vault.door import NotThere
from sidecar.vault.files import Changed, Files
from sidecar.vault.jail import Jail
from sidecar.vault.notes import checksum_of
from sidecar.vault.paths import VaultPath, echo, printable

logger = logging.getLogger(__name__)

JOURNAL: Final = "applying.json"
_MAX_BYTES: Final = 16 << 20  # a hundred new notes, each below thirty new folders of its own, need 5 MiB


@dataclass(frozen=True, slots=True)
class Journal:
    """What was begun: which proposal, and the checksums of each note before (None: there was none) and after."""

    proposal_id: str
    by: str
    files: tuple[tuple[str, str | None, str], ...]
    folders: tuple[str, ...]
    """Made for new notes; the deepest first."""

    @classmethod
    def of(cls, proposal_id: str, by: str, changes: Sequence[Change], folders: Sequence[VaultPath]) -> Journal:
        """For changes that are about to be made."""
        files = tuple(
            (each.path.text, None if each.old is None else checksum_of(each.old), checksum_of(each.new))
            for each in changes
        )
        return cls(proposal_id, by, files, tuple(folder.text for folder in folders))

    def write(self, state_dir: Path) -> None:
        """Put it on the disk.

        Raises:
            NotWritten: the disk refused.
        """
        facts = {"id": self.proposal_id, "by": self.by, "files": self.files, "folders": self.folders}
        try:
            private_files.make_folder(state_dir)
            private_files.write(state_dir / JOURNAL, json.dumps(facts).encode())
        except Unreadable as failed:
            raise NotWritten(f"The proposal could not be applied: {failed}. No note was changed.") from failed

    @staticmethod
    def read(state_dir: Path) -> Journal | None:
        """What an earlier process has begun and not ended.

        Raises:
            Unreadable: it can't be told.
        """
        data = private_files.read(state_dir / JOURNAL, max_bytes=_MAX_BYTES)
        if data is None:
            return None
        try:
            facts = cast("dict[str, Any]", json.loads(data))
            files = tuple((str(path), old, str(new)) for path, old, new in facts["files"])
            return Journal(str(facts["id"]), str(facts["by"]), files, tuple(map(str, facts["folders"])))
        except (ValueError, TypeError, KeyError, RecursionError) as bad:
            raise Unreadable(
                f"{JOURNAL} in the state folder is damaged, so a proposal that was being applied can't be taken back."
                " Compare its notes with 'vault-sidecar recover list', then delete that file."
            ) from bad

    @staticmethod
    def remove(state_dir: Path) -> None:
        """All is done, or taken back."""
        private_files.remove(state_dir / JOURNAL)


def lacking_folders(jail: Jail, changes: Sequence[Change]) -> list[VaultPath]:
    """Folders that have to be made for the new notes, the deepest first.

    Raises:
        Unreadable: a folder can't be looked at.
    """
    lacking: set[str] = set()
    for change in changes:
        above = change.path.parent
        while change.old is None and above.text and above.text not in lacking and jail.kind(above) == "missing":
            lacking.add(above.text)
            above = above.parent
    return [VaultPath(text) for text in sorted(lacking, key=len, reverse=True)]


def write_all(files: Files, changes: Sequence[Change], made: list[Change]) -> None:
    """Make every change, each against the bytes that it was made for. `made` grows; on a failure it is taken back.

    Raises:
        Conflict, NotWritten: one could not be made.
    """
    for change in changes:
        try:
            if change.old is None:
                files.create(change.path, change.new)
            else:
                new = change.new
                files.change(change.path, lambda _, new=new: new, expected=checksum_of(change.old), keep="applied")
        except BaseException:
            if _may_be_made(files, change):
                made.append(change)
            raise
        made.append(change)


def take_back(files: Files, jail: Jail, changes: Sequence[Change], folders: Sequence[VaultPath]) -> list[str]:
    """Undo changes; the notes that could not be put back. One that somebody changed meanwhile is left as it is."""
    stay: list[str] = []
    for change in reversed(changes):
        made = checksum_of(change.new)
        try:
            if change.old is None:
                files.remove(change.path, expected=made)
            else:
                old = change.old
                files.change(change.path, lambda _, old=old: old, expected=made)
        except NotFound:
            if change.old is not None:
                stay.append(change.path.text)
        except Changed:
            stay.append(change.path.text)
        except (BadPath, SidecarError):
            logger.warning("%s could not be put back", printable(change.path.text), exc_info=True)
            stay.append(change.path.text)
    for folder in folders:
        _remove_folder(jail, folder)
    return stay[::-1]


def not_put_back(stay: Sequence[str]) -> str:
    """What to say of notes that could not be put back; empty if all were."""
    if not stay:
        return ""
    names = ", ".join(f"'{echo(path)}'" for path in stay[:5]) + (" and others" if len(stay) > 5 else "")
    return f" These could not be put back: {names}; their old texts are kept, see 'vault-sidecar recover'."


def _may_be_made(files: Files, change: Change) -> bool:
    """Whether a change that failed has reached the note all the same, or nobody can tell."""
    try:
        return files.read(change.path) == change.new
    except NotFound:
        return False
    except SidecarError:
        return True


def _remove_folder(jail: Jail, folder: VaultPath) -> None:
    try:
        above = jail.folder(folder.parent)
    except (NotThere, OSError, SidecarError):
        return
    try:
        above.remove_folder(folder.name)
    except OSError:
        pass  # something is in it by now, or it was never made
    finally:
        above.close()
