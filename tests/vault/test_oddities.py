"""The hand-made cases of the shared corpora: every odd note, read as a correct reader does."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.vault.jail import Found, Jail, Trouble
from sidecar.vault.notes import Note, parse_note
from sidecar.vault.paths import VaultPath
from tests.vault.conftest import EVERYTHING


@dataclass(frozen=True)
class Odd:
    """The vault of oddities as a reader sees it; names without their common folder."""

    made: dict[str, str]
    """Case to path, as they were made."""
    notes: dict[str, Note]
    troubles: dict[str, Trouble]

    def note(self, case: str) -> Note:
        return self.notes[self.made[case]]


@pytest.fixture(scope="module")
def odd(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Odd:
    """Made by the corpora's own script, then walked and read."""
    spec = importlib.util.spec_from_file_location("make_vault", corpora / "make_vault.py")
    assert spec is not None and spec.loader is not None
    make_vault = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_vault)
    out = tmp_path_factory.mktemp("oddities")
    vault = out / "vault"
    vault.mkdir()
    make_vault.oddities(str(out), str(vault), random.Random(1))
    cases = json.loads((out / "oddities.json").read_text("utf-8"))["cases"]
    jail = Jail(vault)
    notes: dict[str, Note] = {}
    troubles: dict[str, Trouble] = {}
    for entry in jail.walk(VaultPath.root(), EVERYTHING):
        if isinstance(entry, Found):
            if entry.path.name == "unreadable.md" and os.geteuid() != 0:
                continue
            file = jail.read(entry.path, max_bytes=32 << 20)
            notes[entry.path.text.removeprefix("odd/")] = parse_note(entry.path, file.data)
        else:
            troubles[entry.shown.removeprefix("odd/")] = entry
    jail.close()
    return Odd({case["case"]: case["path"].removeprefix("odd/") for case in cases}, notes, troubles)


def test_everything_visible_is_a_note_or_a_reported_trouble(odd: Odd) -> None:
    hidden = {"icloud", "trash", "obsidian-dir", "hidden", "swap", "name-dots"}
    no_notes = {"tmp", "backup", "canvas", "canvas-empty"}
    silent = {"symlink-loop"}  # a link to a folder is just not walked
    reported = {"symlink-in", "symlink-out", "symlink-dangling", "fifo"}
    unread = {"unreadable"} if os.geteuid() != 0 else set[str]()
    paths = {path for case, path in odd.made.items() if case not in hidden | no_notes | silent | reported | unread}
    assert set(odd.notes) == paths
    assert set(odd.troubles) == {odd.made[case] for case in reported if case in odd.made}
    assert not any(trouble.lost for trouble in odd.troubles.values())


def test_every_note_can_be_sent_as_json(odd: Odd) -> None:
    for note in odd.notes.values():
        facts = [note.note_id, note.title, note.tags, note.aliases, note.frontmatter, note.warnings, note.text]
        json.dumps(facts, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("case", "title"),
    [
        ("yaml-date-title", "2026-05-26"),
        ("yaml-int-title", "20240425"),
        ("yaml-norway", "no"),
        ("yaml-dup-key", "two"),
        ("yaml-tab", "yaml tab"),
        ("yaml-at", "at alias"),
        ("yaml-template", "template"),
        ("yaml-unterminated", "unterminated"),
        ("yaml-eof", "EOF"),
        ("yaml-crlf", "CRLF"),
        ("yaml-double", "two blocks"),
        ("yaml-nondict", "list frontmatter"),
        ("bom", "BOM"),
        ("only-frontmatter", "Only"),
        ("uppercase-ext", "SHOUT"),
        ("name-hash", "# Monster 50% [x] ^y?"),
        ("name-space", " lead  double "),
    ],
)
def test_titles(odd: Odd, case: str, title: str) -> None:
    assert odd.note(case).title == title


@pytest.mark.parametrize(
    ("case", "tags"),
    [
        ("yaml-crlf", ("a", "b")),
        ("tags-comma", ("alpha", "beta")),
        ("tags-space", ("alpha", "beta")),
        ("tags-hash", ("alpha", "beta/sub")),
        ("tags-null", ()),
        ("tags-number", ("ok",)),
        ("tags-nested", ("project/alpha/one",)),
        ("tags-inline-code", ("real",)),
        ("excalidraw", ("excalidraw",)),
    ],
)
def test_tags(odd: Odd, case: str, tags: tuple[str, ...]) -> None:
    assert odd.note(case).tags == tags


@pytest.mark.parametrize(
    ("case", "targets"),
    [
        ("table-link", ["setext"]),
        ("code-link", ["setext"]),
        ("dup-basename-a", ["Home"]),
        ("tags-inline-code", ["Note"]),
    ],
)
def test_link_targets(odd: Odd, case: str, targets: list[str]) -> None:
    assert [link.target for link in odd.note(case).links] == targets


@pytest.mark.parametrize(
    "case", ["yaml-tab", "yaml-at", "yaml-template", "yaml-dup-key", "yaml-huge-anchor", "yaml-nondict"]
)
def test_a_bad_block_costs_one_warning_and_the_body_is_kept(odd: Odd, case: str) -> None:
    note = odd.note(case)
    assert len(note.warnings) == 1
    assert note.body == "body\n"


def test_bodies(odd: Odd) -> None:
    assert odd.note("yaml-unterminated").body == odd.note("yaml-unterminated").text
    assert odd.note("yaml-double").body == "\n---\ntitle: second\n---\nbody\n"
    assert odd.note("hr-first").body == "\nmore\n"
    assert odd.note("only-frontmatter").body == odd.note("empty").body == ""
    assert odd.note("bom").body == "# Heading\n"
    assert odd.note("nul").body == "beforeafter\n"
    assert odd.note("utf16").body == "title\nbody"
    assert odd.note("latin1").body == "caf\ufffd na\ufffdve\n"


def test_dates(odd: Odd) -> None:
    note = odd.note("yaml-date")
    assert (note.created, note.updated) == ("2026-04-05T00:00:00Z", "2026-04-05T10:00:00Z")
    assert note.frontmatter["created"] == "2026-04-05"


def test_ids(odd: Odd) -> None:
    claimed = "kp:0190a5c4-7f3b-7d11-8a52-3f1f6f0a9b21"
    assert odd.note("id-original").note_id == odd.note("name-dropbox").note_id == claimed
    others = [note.note_id for note in odd.notes.values() if note.note_id != claimed]
    assert len(others) == len(set(others))
    assert all(note_id.startswith("path:odd/") for note_id in others)


def test_names_are_kept_as_they_are_on_disk(odd: Odd) -> None:
    for case, is_composed in (("name-nfc", True), ("name-nfd", False), ("name-both", True), ("name-both2", False)):
        path = odd.note(case).path.text
        assert unicodedata.is_normalized("NFC", path) == is_composed
        assert VaultPath.note(path).text == path
    for case in ("name-newline", "name-backslash"):
        assert odd.note(case).path.text == f"odd/{odd.made[case]}"
