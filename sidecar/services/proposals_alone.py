"""Proposals without a daemon: what a command does that has the vault's lock, or that only looks. Blocks."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sidecar.config import Config
from sidecar.errors import NotFound, SidecarError
from sidecar.services.copies import Copies
from sidecar.services.proposal_drafts import Rules
from sidecar.services.proposal_record import By
from sidecar.services.proposal_store import ProposalStore
from sidecar.services.protection import Protection
from sidecar.services.settling import Review, Settling
from sidecar.vault import frontmatter
from sidecar.vault.files import Files
from sidecar.vault.ignore import IgnoreRules
from sidecar.vault.jail import Found, Jail
from sidecar.vault.kp_block import read_block
from sidecar.vault.notes import decode
from sidecar.vault.paths import VaultPath


class Alone:
    """The proposals of one vault that nobody serves. What decides needs the vault's lock."""

    def __init__(self, jail: Jail, state_dir: Path, config: Config) -> None:
        self._jail = jail
        self._max_note_bytes = config.index.max_note_mib << 20
        self._ignored = _ignored(jail)
        self._store = ProposalStore(jail)
        protection = Protection(config.agents.folder, config.agents.memory_note)
        rules = Rules(jail, protection, lambda path: self._ignored.ignores(path, is_folder=False))
        self._settling = Settling(self._store, rules, jail, state_dir)
        self._copies = Copies(state_dir)

    def listed(self, every: bool) -> dict[str, Any]:
        """As the daemon's."""
        return self._store.all().facts(every)

    def show(self, ending: str) -> Review:
        """As the daemon's."""
        review = self._settling.review(ending)
        return review.checked(self._taken(review.new_ids))

    def apply(self, ending: str, by: By, seen: str | None) -> dict[str, Any]:
        """As the daemon's."""
        with self._files() as files:
            self._settling.recover(files)
            review = self._settling.review(ending)
            review.refuse_unseen(seen)
            return self._settling.apply(files, review, by, self._taken(review.new_ids)).facts()

    def reject(self, ending: str, by: By, reason: str | None) -> dict[str, Any]:
        """As the daemon's."""
        with self._files() as files:
            self._settling.recover(files)
            return self._settling.reject(files, self._store.find(ending), by, reason or None).facts()

    @contextmanager
    def _files(self) -> Generator[Files]:
        files = Files(self._jail, self._copies.add, max_bytes=self._max_note_bytes)
        try:
            yield files
        finally:
            files.displaced.look_again(at_all=True)

    def _taken(self, ids: Collection[str]) -> Mapping[str, str]:
        """By reading every note, because no index is open."""
        taken: dict[str, str] = {}
        for entry in self._jail.walk(VaultPath.root(), self._ignored) if ids else ():
            if not isinstance(entry, Found):
                continue
            try:
                data = self._jail.read(entry.path, max_bytes=self._max_note_bytes).data
            except SidecarError:
                continue  # it is not indexed either
            block = frontmatter.split(decode(data)[0]).block
            note_id = read_block(entry.path, frontmatter.read(block)).note_id if block is not None else ""
            if note_id in ids:
                taken[note_id] = entry.path.text
        return taken


@contextmanager
def open_alone(vault: Path, state_dir: Path, config: Config) -> Generator[Alone]:
    """The proposals of a vault.

    Raises:
        Unreadable: there is no such vault.
    """
    jail = Jail(vault, other_devices=config.notes.other_devices)
    try:
        yield Alone(jail, state_dir, config)
    finally:
        jail.close()


def _ignored(jail: Jail) -> IgnoreRules:
    try:
        return IgnoreRules.parse(jail.read_ignore_file().decode("utf-8", "replace"))
    except NotFound:
        return IgnoreRules.parse("")
