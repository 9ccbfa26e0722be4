"""What a proposal may suggest, for which note: each refusal with its sentence, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.errors import BadArguments, BadPath, Conflict, NotWritten, Protected, SidecarError, TooLarge
from sidecar.services import proposal_drafts
from sidecar.services.proposal_drafts import Rules, drafted
from sidecar.services.protection import Protection
from sidecar.vault import patch
from sidecar.vault.jail import Jail

PLAN = "one\ntwo\n"
CURIO = "---\nschema: curio.frontmatter.v1\ncurio_id: 7\ntitle: Old\n---\n"
MANAGED = "text\n<!-- curio:managed:begin v1 -->\nkept\n<!-- curio:managed:end -->\nmine\n"

TOO_LARGE = "files: at most 100 files, 1 MiB each and 4 MiB in all."
PROTECTED = "is protected: agent files, the memory note and dot folders can't be changed by a proposal."
OUTSIDE = "is not a path inside the vault; use one like 'Folder/Note.md'."
BAD_NAME = 'is not a name every system can store; avoid < > : " | ? *, final dots and blanks, and reserved names.'
MANAGED_BY = "is managed by its exporter: its existing frontmatter and the marked region must stay as they are."
NO_FOLDER = "could not be written: a part of its path is a link or no folder."


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    for path, text in {
        "Projects/Plan.md": PLAN, "Projects/Other.md": "x", "\xdc.md": "x", "Clip.md": CURIO, "Marked.md": MANAGED
    }.items():  # fmt: skip
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    (vault / "link").symlink_to(vault / "Projects")
    (vault / "link.md").symlink_to(vault / "Clip.md")
    return vault


@pytest.fixture
def rules(vault: Path) -> Iterator[Rules]:
    jail = Jail(vault)
    yield Rules(jail, Protection("Agents", "Agents/Memory.md"), lambda path: path.text.startswith("Left out/"))
    jail.close()


REFUSED = {
    "outside": ("../x.md", "x", BadPath, OUTSIDE),
    "suffix": ("x.txt", "x", BadPath, "is not a note; notes end in .md."),
    "agent": ("Agents/Scout.md", "x", Protected, PROTECTED),
    "memory note": ("agents/MEMORY.md", "x", Protected, PROTECTED),
    "proposals": (".kp/proposals/x.md", "x", Protected, PROTECTED),
    "device": ("CON.md", "x", BadPath, BAD_NAME),
    "unchanged": ("Projects/Plan.md", PLAN, BadArguments, "already has this content."),
    "new and empty": ("New.md", "", BadArguments, "is new and empty; a proposal needs text."),
    "case of a folder": (
        "projects/Other.md", "x", Conflict, "differs only in case from 'Projects/Other.md'; use that name."
    ),
    "case of a note": (
        "Projects/plan.MD", "x", Conflict, "differs only in case from 'Projects/Plan.md'; use that name."
    ),
    "NFD": ("U\u0308.md", "x", Conflict, "differs only in Unicode form from '\xdc.md'; use that name."),
    "NFD of a new folder": ("O\u0308/x.md", "x", BadPath, BAD_NAME),
    "NFD below a new folder": ("New/O\u0308/x.md", "x", BadPath, BAD_NAME),
    "below a note": ("Projects/Plan.md/x.md", "x", NotWritten, NO_FOLDER),
    "below a link": ("link/x.md", "x", NotWritten, NO_FOLDER),
    "a link": ("link.md", "x", SidecarError, "can't be read: it is a link, and links are not followed."),
    "ignored": (
        "Left out/x.md", "x", BadPath, "is left out of the vault by .kpignore; it can't be changed by a proposal."
    ),
    "managed properties": ("Clip.md", CURIO.replace("Old", "New"), Protected, MANAGED_BY),
    "managed region": ("Marked.md", MANAGED.replace("kept", "changed"), Protected, MANAGED_BY),
}  # fmt: skip


@pytest.mark.parametrize(("path", "content", "kind", "says"), REFUSED.values(), ids=REFUSED)
def test_what_may_not_be_proposed(
    rules: Rules, vault: Path, path: str, content: str, kind: type[SidecarError], says: str
) -> None:
    before = sorted(vault.rglob("*"))
    with pytest.raises(kind) as refused:
        drafted(rules, [("Good.md", "good"), (path, content)])
    assert str(refused.value) == f"'{path}' {says}"
    assert sorted(vault.rglob("*")) == before


def test_without_the_rule_for_exporters_a_clip_is_changed(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(proposal_drafts, "refuse_managed", lambda *_: None)
    for path, content in (("Clip.md", CURIO.replace("Old", "New")), ("Marked.md", MANAGED.replace("kept", "changed"))):
        assert drafted(rules, [(path, content)])


@pytest.mark.parametrize(
    ("content", "kind", "says"),
    [
        ("x" * (1 << 20) + "x", TooLarge, TOO_LARGE),
        ("\ud800", BadArguments, "files.content: must be text."),
        ("a\0", BadArguments, "files.content: must not hold NUL characters."),
    ],
    ids=["too large", "half a character", "NUL"],
)
def test_what_no_note_may_hold(rules: Rules, content: str, kind: type[SidecarError], says: str) -> None:
    with pytest.raises(kind) as refused:
        drafted(rules, [("New.md", content)])
    assert str(refused.value) == says


@pytest.mark.parametrize(
    "paths", [("x.md", "x.md"), ("x.md", "X.md"), ("\xdc.md", "U\u0308.md"), ("a/ß.md", "a/SS.md")], ids=ascii
)
def test_a_path_twice_is_refused(rules: Rules, paths: tuple[str, str]) -> None:
    with pytest.raises(BadArguments) as refused:
        drafted(rules, [(path, "y") for path in paths])
    assert str(refused.value) == f"'{paths[1]}' is listed twice."


@pytest.mark.parametrize(
    "paths", [("New/a.md", "new/b.md"), ("x/New/a.md", "x/new/b/c.md"), ("x/y/a.md", "X/z/b.md")], ids=ascii
)
def test_a_new_folder_in_two_spellings_is_refused(rules: Rules, paths: tuple[str, str]) -> None:
    with pytest.raises(BadPath) as refused:
        drafted(rules, [(path, "y") for path in paths])
    assert str(refused.value) == f"'{paths[1]}' spells a folder of '{paths[0]}' in another way; use one spelling."


def test_folders_that_some_language_takes_for_one_are_two(rules: Rules) -> None:
    assert drafted(rules, [("Ma\xdfe/a.md", "x"), ("Masse/b.md", "x")])


def test_two_spellings_that_are_on_the_disk_are_their_owners_choice(rules: Rules, vault: Path) -> None:
    (vault / "projects").mkdir()
    if len(list(vault.glob("[pP]rojects"))) == 1:
        pytest.skip("the disk takes both for one")
    assert drafted(rules, [("Projects/new.md", "x"), ("projects/new.md.md", "x")])


def test_a_note_that_would_be_a_folder_is_refused(rules: Rules) -> None:
    with pytest.raises(BadPath, match=r"'a.md/b/c.md' can't lie in 'a.md', which is a note."):
        drafted(rules, [("a.md/b/c.md", "x"), ("a.md", "x")])


def test_new_notes_in_old_and_new_folders_may_be_proposed(rules: Rules) -> None:
    paths = ["New.md", "Projects/New.md", "One/Two/New.md"]
    assert [each.path for each in patch.parse(drafted(rules, [(path, "x") for path in paths]))] == paths
