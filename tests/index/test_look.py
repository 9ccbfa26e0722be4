"""What events name is turned into files to look at, once each, and nothing known is given up on a guess."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sidecar.errors import Unreadable
from sidecar.index.backfill import to_batch, without_overtaken
from sidecar.index.batch import Batch
from sidecar.index.look import Looker, with_old_names
from sidecar.index.manifest import Manifest
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.prepare import Skip
from sidecar.index.preparing import prepared
from sidecar.index.tokens import Tokenizer
from sidecar.vault.ignore import IgnoreRules
from sidecar.vault.jail import FileStat, Found, Jail, Trouble
from sidecar.vault.paths import VaultPath


class Watched(Jail):
    """Counts walks; one folder can't be listed, which root could not have otherwise."""

    def __init__(self, root: Path, closed: str = "") -> None:
        super().__init__(root)
        self.walks: list[str] = []
        self._closed = closed

    def walk(self, folder: VaultPath, ignored: IgnoreRules) -> Iterator[Found | Trouble]:
        self.walks.append(folder.text)
        for entry in super().walk(folder, ignored):
            if not (self._closed and entry.path and entry.path.text.startswith(f"{self._closed}/")):
                yield entry
        if self._closed and self._closed.startswith(f"{folder.text}/" if folder.text else ""):
            yield Trouble(VaultPath(self._closed), self._closed, "permission denied", lost=True)


@contextmanager
def looking(
    vault: Path, known: list[str], closed: str = "", jail_of: type[Watched] = Watched
) -> Iterator[tuple[Looker, Watched, ManifestReader]]:
    """A looker over `vault` whose index knows some paths already."""
    path = vault.with_name("manifest.sqlite")
    jail = jail_of(vault, closed)
    with closing(Manifest(path)) as manifest, closing(jail):
        manifest.apply(Batch(skips=[Skip(name, "known", listed=True) for name in known]))
        with closing(ManifestReader(path)) as reader:
            yield Looker(jail, max_note_bytes=1 << 20), jail, reader


def write(vault: Path, *paths: str) -> Path:
    for path in paths:
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text("text")
    return vault


def test_a_deep_tree_that_is_named_folder_by_folder_is_walked_once(tmp_path: Path) -> None:
    note = "a/" * 30 + "x.md"
    vault = write(tmp_path / "vault", note, "a b/y.md")
    named = [("a/" * depth)[:-1] for depth in range(30, 0, -1)]
    with looking(vault, []) as (looker, jail, reader):
        expansion = looker.expand([*named, note, "a b", "a b/y.md"], reader)
    assert jail.walks == ["a", "a b"]
    assert sorted(expansion.paths) == ["a b/y.md", note]
    assert expansion.folders == ["a", "a b"]


def test_what_was_known_below_a_named_folder_is_looked_at(tmp_path: Path) -> None:
    vault = write(tmp_path / "vault", "a/new.md", "a/b/kept.md")
    known = ["a/gone.md", "a/b/kept.md", "a/b/gone.md", "a/c/gone.md", "a0.md", "other.md"]
    with looking(vault, known) as (looker, _, reader):
        expansion = looker.expand(["a/b", "a", "a/c"], reader)
    assert sorted(expansion.paths) == sorted(["a/new.md", "a/b/kept.md", "a/gone.md", "a/b/gone.md", "a/c/gone.md"])


def test_what_was_known_below_a_folder_that_can_not_be_listed_is_kept(tmp_path: Path) -> None:
    vault = write(tmp_path / "vault", "a/b/open.md", "a/closed/x.md")
    known = ["a/gone.md", "a/b/gone.md", "a/closed/x.md", "a/closed/old.md"]
    with looking(vault, known, closed="a/closed") as (looker, jail, reader):
        expansion = looker.expand(["a", "a/b", "a/c", "a/closed", "a/named.md"], reader)
    assert jail.walks == ["a"]
    # of what is missing below "a", only what stood in a folder that was listed is known to be gone
    assert sorted(expansion.paths) == ["a/b/gone.md", "a/b/open.md", "a/named.md"]
    assert [skip.path for skip in expansion.skips] == ["a/closed"]


def test_paths_that_are_hidden_or_too_deep_are_not_ours(tmp_path: Path) -> None:
    deep = "x/" * 256 + "a.md"
    vault = write(tmp_path / "vault", ".git/x.md", deep)
    with looking(vault, []) as (looker, _, reader):
        assert looker.expand([".git/x.md", ".git", deep, "a/.b"], reader).paths == []
        findings = looker.look([".git/x.md", deep], reader)
    assert (findings.reads, findings.gone, findings.skips) == ([], [], [])


def test_a_folder_that_closes_while_it_is_named_is_kept_and_told(tmp_path: Path) -> None:
    class Closing(Watched):
        def walk(self, folder: VaultPath, ignored: IgnoreRules) -> Iterator[Found | Trouble]:
            raise Unreadable("'a' can't be read: permission denied.")

    vault = write(tmp_path / "vault", "a/b.md")
    with looking(vault, ["a/b.md", "a/c.md"], jail_of=Closing) as (looker, _, reader):
        expansion = looker.expand(["a"], reader)
    assert expansion.paths == []
    assert [(skip.path, skip.reason) for skip in expansion.skips] == [("a", "'a' can't be read: permission denied.")]


def test_only_notes_are_names_where_a_folder_can_not_be_listed(tmp_path: Path) -> None:
    """What is known of, and not found, may be a folder, or a link, that was left out."""
    vault = write(tmp_path / "vault", "a/open.md", "a/closed/x.md")
    with looking(vault, ["a/closed", "link.md"], closed="a/closed") as (looker, _, reader):
        survey = looker.survey(reader, everything=False, may_be_empty=False)
    assert not survey.complete
    assert survey.names == ["a/open.md"]


def test_a_note_that_is_ignored_since_it_was_read_is_not_stored(tmp_path: Path) -> None:
    vault = write(tmp_path / "vault", "a.md", "private/b.md")
    with looking(vault, []) as (looker, _, reader):
        findings = looker.look(["a.md", "private/b.md"], reader)
        lot = prepared(findings.reads, Tokenizer())
        (vault / ".kpignore").write_text("private/\n")
        looker.read_ignore_rules()
        batch, overtaken = without_overtaken(to_batch(findings, lot), looker)
    assert [put.note.path.text for put in batch.puts] == ["a.md"]
    assert overtaken == ["private/b.md"]


def stat_of(number: int, *, size: int = 1) -> FileStat:
    return FileStat(mtime_ns=number, size=size, ctime_ns=0, inode=number)


def test_a_renamed_note_stands_before_its_old_name() -> None:
    there = {"a.md": stat_of(1), "new/b.md": stat_of(2), "c.md": stat_of(3), "new/d.md": stat_of(4, size=2)}
    missing = {"old/d.md": stat_of(4), "old/b.md": stat_of(2), "e.md": stat_of(5)}
    assert with_old_names(there, missing) == ["new/b.md", "old/b.md", "a.md", "c.md", "new/d.md", "old/d.md", "e.md"]


def test_no_name_is_lost_where_several_are_the_same_file() -> None:
    """Hard links, and file systems without numbers for their files."""
    there = {f"new{number}.md": stat_of(0) for number in range(3)}
    missing = {f"old{number}.md": stat_of(0) for number in range(3)}
    assert sorted(with_old_names(there, missing)) == sorted([*there, *missing])
