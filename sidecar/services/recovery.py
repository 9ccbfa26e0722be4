"""Puts a kept text back into the vault. For the owner alone, with or without a daemon."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.errors import NotFound
from sidecar.services.copies import Copy
from sidecar.vault.files import Files
from sidecar.vault.paths import VaultPath


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    copy_id: str
    path: str
    checksum: str
    old_is_kept: bool
    """The note had another text; it is among the copies now."""


def restore(files: Files, copy: Copy, data: bytes) -> Restored:
    """Give a note the text of a copy, also when it is gone; a text that it has now becomes a copy. Blocks.

    Raises:
        BadPath, Conflict, NotWritten: the note can't be written; the sentence says why.
    """
    path = VaultPath.found(copy.path)
    try:
        if files.read(path) == data:
            return Restored(copy.copy_id, path.text, copy.checksum, old_is_kept=False)
        files.change(path, lambda _: data, keep="replaced")
        return Restored(copy.copy_id, path.text, copy.checksum, old_is_kept=True)
    except NotFound:
        files.create(path, data)
        return Restored(copy.copy_id, path.text, copy.checksum, old_is_kept=False)
