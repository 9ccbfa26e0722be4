"""Looks at paths of the vault and says what the index should believe of them.

Events and scans only name paths; what is true is read here, now, through the
jail. So it does not matter whether an event came late, twice or for the wrong
half of a rename.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sidecar.errors import BadPath, NotFound, TooLarge, Unreadable, VaultAway
from sidecar.index.crowd import Crowd
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.prepare import NO_STAT, Skip
from sidecar.index.preparing import Read
from sidecar.index.profile import NOTES, Profile
from sidecar.vault.ignore import IGNORE_FILE, IgnoreRules
from sidecar.vault.jail import FileStat, Found, Jail, Kind, Trouble
from sidecar.vault.notes import checksum_of
from sidecar.vault.paths import VaultPath, printable

logger = logging.getLogger(__name__)

_SUSPICIOUS = 10
"""From so many known notes on, a scan that finds none at all is taken for an empty mount point."""


@dataclass(slots=True)
class Findings:
    """What a few paths are now."""

    reads: list[Read] = field(default_factory=list[Read])
    """Notes with other bytes than the indexed ones, to be prepared and stored."""
    touched: list[tuple[str, FileStat]] = field(default_factory=list[tuple[str, FileStat]])
    skips: list[Skip] = field(default_factory=list[Skip])
    gone: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    """Paths that were not looked at, because so much was read already."""
    bytes: int = 0
    """Of the notes that were read."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a scan of the whole vault found, against what the index knows."""

    names: list[str]
    """Every note that was found, by name."""
    to_look_at: list[str]
    """New, changed and missing paths: what may have been renamed first, then newest first, missing ones last."""
    skips: list[Skip]
    complete: bool
    """Every folder could be listed: there are no others. Only then do missing paths stand in `to_look_at`."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """Single files to look at, and entries that are known to be no readable note."""

    paths: list[str]
    skips: list[Skip]
    folders: list[str]


class Looker:
    """Reads the vault for the indexer. Blocks: call it in a lane."""

    def __init__(self, jail: Jail, *, max_note_bytes: int, profile: Profile = NOTES, whose: str = "") -> None:
        """`whose` says in the log whose files these are, such as " of database 'x'"; nothing for the vault's."""
        self._jail = jail
        self._profile = profile
        self.whose = whose
        self._max_note_bytes = max_note_bytes
        self.version = profile.version
        self._takes = profile.takes
        self._crowd = None if profile.most_files is None else Crowd(profile.most_files)
        self.ignored = IgnoreRules.parse("")

    @property
    def root(self) -> str:
        """Where the vault is, without links."""
        return str(self._jail.root)

    @property
    def problem(self) -> str | None:
        """What keeps files out that could be read."""
        return self._crowd.problem if self._crowd else None

    def read_ignore_rules(self) -> None:
        """Take `.kpignore` as it is now; an unreadable one keeps the rules that were."""
        try:
            self.ignored = IgnoreRules.parse(self._jail.read_ignore_file().decode("utf-8", "replace"))
        except NotFound:
            self.ignored = IgnoreRules.parse("")
        except (Unreadable, TooLarge) as bad:
            logger.warning("%s stays as it was read last: %s", IGNORE_FILE, bad)
        if self.ignored.left_out:
            logger.warning("%s is too long: its last %d rules are not followed", IGNORE_FILE, self.ignored.left_out)

    def survey(self, reader: ManifestReader, *, everything: bool, may_be_empty: bool) -> Survey:
        """Walk the vault and compare.

        Args:
            reader: of what is indexed.
            everything: look at unchanged notes too.
            may_be_empty: a vault without a note is believed, whatever was in it before.

        Raises:
            VaultAway: the vault itself is gone; nothing may be concluded.
        """
        self._jail.reopen()
        self.read_ignore_rules()
        seen = reader.seen()
        found: dict[str, FileStat] = {}
        skips: list[Skip] = []
        complete = True
        for entry in self._jail.walk(VaultPath.root(), self.ignored):
            if isinstance(entry, Found):
                found[entry.path.text] = entry.stat
                continue
            complete = complete and not entry.lost
            skips.append(_skip_of(entry))
        if not found and not may_be_empty and len(seen) >= _SUSPICIOUS:
            raise VaultAway(self._profile.empty)
        if self._crowd:
            found = {path: found[path] for path in self._crowd.admit_all(found, seen)}
        changed = [path for path, stat in found.items() if everything or seen.get(path) != stat]
        changed.sort(key=lambda path: found[path].mtime_ns, reverse=True)
        in_trouble = {skip.path for skip in skips}
        missing = [path for path in seen if path not in found and path not in in_trouble] if complete else []
        to_look_at = with_old_names({path: found[path] for path in changed}, {path: seen[path] for path in missing})
        return Survey(list(found), to_look_at, skips, complete)

    def expand(self, paths: Iterable[str], reader: ManifestReader) -> Expansion:
        """Paths named by events, with folders replaced by what is in them and what was known to be in them.

        Raises:
            VaultAway: the vault itself is gone.
        """
        expanded: dict[str, None] = {}
        skips: list[Skip] = []
        folders: list[str] = []
        walked: set[str] = set()
        incomplete: set[str] = set()
        for text in sorted(paths):  # a folder before what is in it
            path = _path(text)
            if path is None:
                continue
            kind = "missing" if self.ignored.ignores(path, is_folder=True) else self._kind(path)
            if kind == "unknown":
                incomplete.add(text)
            # a deep tree that appears at once is named folder by folder; to walk each to its end would be cubic
            elif kind == "folder" and walked.isdisjoint(_above(text)):
                walked.add(text)
                folders.append(text)
                for entry in self._below(path):
                    if isinstance(entry, Found):
                        expanded[entry.path.text] = None
                        continue
                    skip = _skip_of(entry)
                    skips.append(skip)
                    if entry.lost:
                        incomplete.update((skip.path, *_above(skip.path)))
            if kind != "folder" and self._takes(path.name):
                expanded[text] = None
            if text not in incomplete:
                expanded.update(dict.fromkeys(self._known(path, reader)))
        in_trouble = {skip.path for skip in skips}
        return Expansion([path for path in expanded if path not in in_trouble], skips, folders)

    def in_order(self, paths: Iterable[str], reader: ManifestReader) -> list[str]:
        """The same paths, each one that may be a renamed note with its old name behind it. A stat each."""
        seen = reader.seen()
        stats = {path: self._stat(VaultPath(path)) for path in paths}
        missing = {path: seen[path] for path, stat in stats.items() if stat == NO_STAT and path in seen}
        return with_old_names({path: stat for path, stat in stats.items() if path not in missing}, missing)

    def _below(self, folder: VaultPath) -> Iterator[Found | Trouble]:
        try:
            yield from self._jail.walk(folder, self.ignored)
        except NotFound:
            return  # it went away after it was seen
        except VaultAway:
            raise
        except Unreadable as closed:  # so did the way to it
            yield Trouble(folder, printable(folder.text), str(closed), lost=True)

    def _kind(self, path: VaultPath) -> Kind | Literal["unknown"]:
        """What is there; "unknown" where a folder above can't be entered."""
        if self.ignored.ignores(path, is_folder=False):
            return "missing"
        try:
            return self._jail.kind(path)
        except VaultAway:
            raise
        except Unreadable:
            return "unknown"

    def _known(self, path: VaultPath, reader: ManifestReader) -> list[str]:
        here = [path.text] if reader.checksum(path.text) or reader.is_skipped(path.text) else []
        return here + reader.below(path.text)

    def look(
        self,
        paths: Sequence[str],
        reader: ManifestReader,
        skips: Iterable[Skip] = (),
        *,
        again: bool = False,
        enough_bytes: int | None = None,
    ) -> Findings:
        """What these paths are now. `again`: take unchanged bytes as new. `enough_bytes`: stop when so many are read.

        Raises:
            VaultAway: the vault itself is gone.
        """
        findings = Findings(skips=list(skips))
        for at, text in enumerate(paths):
            path = _path(text)
            if path is not None:
                self._look_at(path, reader, findings, again=again)
            if enough_bytes is not None and findings.bytes >= enough_bytes:
                findings.left = list(paths[at + 1 :])
                break
        return findings

    def _look_at(self, path: VaultPath, reader: ManifestReader, findings: Findings, *, again: bool) -> None:
        match self._kind(path):
            case "note" if self._takes(path.name):
                self._look_at_note(path, reader, findings, again=again)
            case "unknown":
                pass  # it may still be there; a scan reports the folder
            case "other" if self._takes(path.name):
                findings.gone.append(path.text)
                findings.skips.append(Skip(path.text, self._refusal(path), listed=False))
            case _:
                findings.gone.append(path.text)
                if self._crowd:
                    self._crowd.leave(path.text)

    def _look_at_note(self, path: VaultPath, reader: ManifestReader, findings: Findings, *, again: bool) -> None:
        if self._crowd and not self._crowd.admit(path.text):
            return
        try:
            file = self._jail.read(path, max_bytes=self._max_note_bytes)
        except NotFound:
            findings.gone.append(path.text)
        except VaultAway:
            raise
        except TooLarge as bad:
            findings.skips.append(Skip(path.text, str(bad), listed=True, stat=self._stat(path), drops=True))
        except Unreadable as bad:
            # what was indexed stays: a permission that comes and goes must not empty the index
            logger.warning("skipped %s%s: %s", printable(path.text), self.whose, bad)
            findings.skips.append(Skip(path.text, str(bad), listed=True, stat=self._stat(path)))
        else:
            if not again and reader.checksum(path.text) == checksum_of(file.data):
                findings.touched.append((path.text, file.stat))
            else:
                findings.reads.append((path, file))
                findings.bytes += len(file.data)

    def is_still(self, path: str, stat: FileStat) -> bool:
        """Whether a file's state is what it was, and whether it is still ours to read."""
        found = VaultPath(path)
        return not self.ignored.ignores(found, is_folder=False) and self._stat(found) == stat

    def is_there(self, path: str) -> bool:
        """Whether a note that is not ignored stands there."""
        return self._kind(VaultPath(path)) == "note"

    def _refusal(self, path: VaultPath) -> str:
        try:
            self._jail.stat(path)
        except (NotFound, Unreadable) as refused:
            return str(refused)
        return "it is not a regular file"

    def _stat(self, path: VaultPath) -> FileStat:
        try:
            return self._jail.stat(path)
        except (NotFound, Unreadable):
            return NO_STAT


def with_old_names(there: Mapping[str, FileStat], missing: Mapping[str, FileStat]) -> list[str]:
    """All these paths: first those that look like a missing one under another name, with the old name behind each.

    So they come to be stored together, and a note that was renamed keeps its rows and vectors. That it is the same
    file is a hint and no more; the checksum of its bytes proves it.
    """
    names = {(stat.inode, stat.size, stat.mtime_ns): path for path, stat in missing.items()}
    renamed: dict[str, str] = {}
    for path, stat in there.items():
        if old := names.pop((stat.inode, stat.size, stat.mtime_ns), None):
            renamed[path] = old
    pairs = [name for pair in renamed.items() for name in pair]
    paired = set(pairs)
    return pairs + [path for path in (*there, *missing) if path not in paired]


def _path(text: str) -> VaultPath | None:
    """A path named by an event; None when it has a dot-named component or is too deep, and so is not ours."""
    try:
        return VaultPath.found(text)
    except BadPath:
        return None


def _above(text: str) -> Iterator[str]:
    """The folders that a path is in, the lowest first; not the vault itself."""
    while (end := text.rfind("/")) > 0:
        text = text[:end]
        yield text


def _skip_of(trouble: Trouble) -> Skip:
    return Skip(trouble.path.text if trouble.path else trouble.shown, trouble.reason, listed=False)
