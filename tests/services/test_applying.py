"""Several notes change as one: whichever call fails, and wherever the process ends, all of them did or none."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import NotWritten, SidecarError, Unreadable
from sidecar.services import applying, settling
from sidecar.services.applying import Journal
from sidecar.services.proposal_drafts import MAX_FILES
from sidecar.services.proposal_plans import Change
from sidecar.services.proposal_store import ProposalStore
from sidecar.vault import jail_posix
from sidecar.vault.files import Files
from sidecar.vault.jail import Jail
from sidecar.vault.names import MAX_NEW_PATH_BYTES, MAX_NEW_SEGMENTS
from sidecar.vault.paths import VaultPath
from tests.services import lone
from tests.vault.test_files_faults import faults

Patch = pytest.MonkeyPatch

if os.name != "posix":
    pytest.skip("the calls that fail here are those of Linux and macOS", allow_module_level=True)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    lone.lay(tmp_path / "base")
    return tmp_path / "base"


# ended at each step


def steps(base: Path, action: str, *control: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.services.stepper", str(base), action, *control]
    done = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parent.parent.parent)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_proposal_that_is_cut_off_at_any_step_is_whole_or_absent(base: Path) -> None:
    lines = steps(base, "propose")
    assert {line["step"] for line in lines} > {"make_folder", "half of it written", "fsync", "give", "move", "sync"}
    assert {line["before"] for line in lines} == {line["after"] for line in lines} == {"absent", "open"}
    assert [line["left"] for line in lines if line["left"]] == []
    assert lines[-1]["step"] == "through"


def test_written_at_its_place_a_proposal_is_half_there(base: Path) -> None:
    """The control."""
    assert "broken" in {line["after"] for line in steps(base, "propose", "control")}


def test_an_application_that_is_cut_off_at_any_step_is_completed_or_taken_back(base: Path) -> None:
    lines = steps(base, "apply")
    assert {line["step"] for line in lines} > {"make_file", "half of it written", "fsync", "_rename", "give", "replace"}
    assert sum(line["before"].startswith("half") for line in lines) > 10
    assert {line["after"] for line in lines} == {"old, open", "new, applied"}
    assert not any(line["left"] or line["journal"] for line in lines)
    assert lines[-1]["step"] == "through"


def test_without_the_journal_an_application_is_left_half_done(base: Path) -> None:
    """The control."""
    assert any(line["after"].startswith("half") for line in steps(base, "apply", "control"))


# what is left to the next process


@pytest.fixture
def cut_off(base: Path, monkeypatch: Patch) -> Iterator[Path]:
    """A vault in which the second of three notes was just written when the process ended."""
    lone.propose(base)
    with monkeypatch.context() as patch:
        create = Files.create

        def ends(files: Files, path: VaultPath, data: bytes) -> None:
            create(files, path, data)
            raise SystemExit

        patch.setattr(Files, "create", ends)
        patch.setattr(settling.applying, "take_back", lambda *_: ["everything"])
        with pytest.raises(SystemExit):
            lone.apply(base)
    assert lone.outcome(base).startswith("half, open")
    yield base


def test_it_is_taken_back_before_the_next_decision(cut_off: Path) -> None:
    (cut_off / "vault/C.md").write_bytes(b"drifted")
    with lone.alone(cut_off) as found:
        assert found.apply(lone.ID, "cli", None)["status"] == "rejected"
    assert lone.notes(cut_off) == {**lone.OLD, "C.md": b"drifted"}
    assert lone.folders(cut_off) == set()
    assert not (cut_off / "state" / applying.JOURNAL).exists()


def test_it_is_taken_back_before_it_is_rejected(cut_off: Path) -> None:
    with lone.alone(cut_off) as found:
        assert found.reject(lone.ID, "cli", None)["status"] == "rejected"
    assert lone.outcome(cut_off) == "old, rejected"
    assert not (cut_off / "state" / applying.JOURNAL).exists()


def test_rejected_as_it_is_it_would_stay_half_done(cut_off: Path, monkeypatch: Patch) -> None:
    """The control: what has begun belongs to a proposal that is open, and nobody looks at it again."""
    with monkeypatch.context() as patch:
        patch.setattr(settling.Settling, "recover", lambda *_: None)
        with lone.alone(cut_off) as found:
            found.reject(lone.ID, "cli", None)
    lone.recover(cut_off)
    assert lone.outcome(cut_off).startswith("half, rejected")


def test_every_new_folder_is_taken_back_with_what_was_half_written_in_it(cut_off: Path) -> None:
    journal = json.loads((cut_off / "state" / applying.JOURNAL).read_bytes())
    journal["folders"].append("Other")
    (cut_off / "state" / applying.JOURNAL).write_text(json.dumps(journal))
    for folder in ("Other", "New/Folder"):
        (cut_off / "vault" / folder).mkdir(exist_ok=True)
        (cut_off / "vault" / folder / f".D.md.{'a' * 16}.tmp").write_bytes(b"ne")
    with lone.alone(cut_off) as found, found._files() as files:
        found._settling.recover(files)
    assert lone.outcome(cut_off) == "old, open"


def test_a_record_that_can_not_be_read_now_is_waited_for(cut_off: Path, monkeypatch: Patch) -> None:
    open_one = jail_posix._open
    with monkeypatch.context() as patch:

        def refuse_files(name: str, flags: int, folder: int) -> int:
            if flags & os.O_DIRECTORY:
                return open_one(name, flags, folder)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        patch.setattr(jail_posix, "_open", refuse_files)
        with pytest.raises(Unreadable, match="can't be read: "):
            lone.recover(cut_off)
    assert (cut_off / "state" / applying.JOURNAL).exists()
    lone.recover(cut_off)
    assert lone.outcome(cut_off) == "old, open"


def test_a_note_that_somebody_changed_since_stays_as_it_is(cut_off: Path, caplog: pytest.LogCaptureFixture) -> None:
    (cut_off / "vault/New/Folder/B.md").write_bytes(b"new\nand mine\n")
    lone.recover(cut_off)
    assert lone.notes(cut_off) == {**lone.OLD, "New/Folder/B.md": b"new\nand mine\n"}
    assert lone.status(cut_off) == "open"
    assert "it was taken back, and is still open" in caplog.text


@pytest.mark.parametrize("damage", ["gone", "no patch", "another patch"])
def test_without_its_patch_the_notes_stay_and_are_in_recover(
    cut_off: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = cut_off / "vault/.kp/proposals" / lone.ID
    if damage == "another patch":
        patch = (folder / "changes.patch").read_bytes()
        (folder / "changes.patch").write_bytes(patch.replace(b"+2\n", b"+3\n"))
    else:
        for name in ["changes.patch"] if damage == "no patch" else ["changes.patch", "proposal.json"]:
            (folder / name).unlink()
    lone.recover(cut_off)
    assert lone.notes(cut_off)["A.md"] == lone.NEW["A.md"]
    assert "recover" in caplog.text or "stays as a proposal left it" in caplog.text
    with lone.alone(cut_off) as found:
        [copy] = found._copies.all()
        assert found._copies.find(copy.copy_id)[1] == lone.OLD["A.md"]
    assert not (cut_off / "state" / applying.JOURNAL).exists()


def test_a_vault_that_is_away_is_waited_for(cut_off: Path) -> None:
    (cut_off / "vault").rename(cut_off / "elsewhere")
    with pytest.raises(SidecarError):
        lone.recover(cut_off)
    assert (cut_off / "state" / applying.JOURNAL).exists()
    (cut_off / "elsewhere").rename(cut_off / "vault")
    lone.recover(cut_off)
    assert lone.outcome(cut_off) == "old, open"


def test_the_largest_journal_comes_back(base: Path) -> None:
    """A hundred notes, each below as many new folders as a path may have, in letters of two bytes."""
    folders = ["/".join([f"{number:03}", *["ö" * 15] * 30]) for number in range(MAX_FILES)]
    paths = [VaultPath(f"{folder}/{'ö' * 40}.md") for folder in folders]
    assert {len(path.parts) for path in paths} == {MAX_NEW_SEGMENTS}
    assert MAX_NEW_PATH_BYTES - 60 < len(paths[0].text.encode()) <= MAX_NEW_PATH_BYTES
    jail = Jail(base / "vault")
    try:
        changes = [Change(path, None, b"x") for path in paths]
        journal = Journal.of(lone.ID, "cli", changes, applying.lacking_folders(jail, changes))
    finally:
        jail.close()
    assert len(journal.folders) == MAX_FILES * (MAX_NEW_SEGMENTS - 1)
    journal.write(base / "state")
    assert Journal.read(base / "state") == journal


def test_a_damaged_journal_is_told(base: Path) -> None:
    (base / "state" / applying.JOURNAL).write_bytes(b"{}")
    (base / "state" / applying.JOURNAL).chmod(0o600)
    with pytest.raises(Unreadable, match=r"applying.json in the state folder is damaged.* then delete that file\."):
        Journal.read(base / "state")


# the disk refuses


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_whichever_call_fails_all_notes_are_old_or_all_are_new(tmp_path: Path, number: int) -> None:
    failures: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    base = tmp_path / "base"
    for nth in range(1, 2000):
        lone.lay(base)
        lone.propose(base)
        refused: SidecarError | None = None
        with lone.alone(base) as found, faults(nth, number) as fault:
            try:
                found.apply(lone.ID, "cli", None)
            except SidecarError as error:
                refused = error
        lone.recover(base)
        outcome = lone.outcome(base)
        assert outcome == ("old, open" if refused else "new, applied"), (nth, fault.failed, refused)
        assert ".tmp" not in str(lone.proposals(base))
        outcomes[outcome] += 1
        if fault.failed is None:
            break
        failures[fault.failed] += 1
    else:
        pytest.fail("it never got through")
    assert outcomes["old, open"] > 30
    assert failures["open"] and failures["fsync"] and failures["link"] and failures["renameat2"] and failures["mkdir"]


@pytest.mark.parametrize("kth", [1, 2, 3])
def test_an_error_at_any_of_the_files_puts_all_back(base: Path, kth: int, monkeypatch: Patch) -> None:
    lone.propose(base)
    written: list[str] = []
    create, change = Files.create, Files.change

    def failing(path: VaultPath) -> None:
        if not path.text.startswith(".kp"):
            written.append(path.text)
            if len(written) == kth:
                raise NotWritten(f"'{path}' could not be written: no space left.")

    def faulty_create(files: Files, path: VaultPath, data: bytes) -> object:
        failing(path)
        return create(files, path, data)

    def faulty_change(files: Files, path: VaultPath, *args: Any, **more: Any) -> object:
        failing(path)
        return change(files, path, *args, **more)

    monkeypatch.setattr(Files, "create", faulty_create)
    monkeypatch.setattr(Files, "change", faulty_change)
    with pytest.raises(NotWritten) as refused:
        lone.apply(base)
    name = list(lone.NEW)[kth - 1]
    assert str(refused.value) == (
        f"'{name}' could not be written: no space left. The proposal was not applied, and is still open."
    )
    assert lone.outcome(base) == "old, open"
    assert not (base / "state" / applying.JOURNAL).exists()


def test_what_can_not_be_put_back_is_named_and_tried_again(base: Path, monkeypatch: Patch) -> None:
    lone.propose(base)
    with monkeypatch.context() as patch:
        change, disk = Files.change, {"is full": False}

        def full(files: Files, path: VaultPath, *args: Any, **more: Any) -> object:
            if path.text == "C.md":
                disk["is full"] = True
            if disk["is full"]:
                raise NotWritten(f"'{path}' could not be written: no space left.")
            return change(files, path, *args, **more)

        patch.setattr(Files, "change", full)
        with pytest.raises(NotWritten) as refused:
            lone.apply(base)
    assert str(refused.value) == (
        "'C.md' could not be written: no space left. These could not be put back: 'A.md';"
        " their old texts are kept, see 'vault-sidecar recover'."
    )
    assert lone.outcome(base).startswith("half, open")
    lone.recover(base)
    assert lone.outcome(base) == "old, open"


def test_an_interrupt_right_behind_the_stamp_leaves_it_applied(base: Path, monkeypatch: Patch) -> None:
    lone.propose(base)
    with monkeypatch.context() as patch:
        stamp = ProposalStore.stamp

        def interrupted(*args: Any) -> None:
            stamp(*args)
            raise KeyboardInterrupt

        patch.setattr(ProposalStore, "stamp", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lone.apply(base)
    assert lone.outcome(base) == "new, applied"
    lone.recover(base)
    assert lone.outcome(base) == "new, applied"
    assert not (base / "state" / applying.JOURNAL).exists()


def test_an_edit_in_the_very_moment_rejects_and_puts_all_back(base: Path, monkeypatch: Patch) -> None:
    lone.propose(base)
    write_all = applying.write_all

    def edited(files: Files, changes: Any, made: Any) -> None:
        (base / "vault/C.md").write_bytes(b"somebody's edit")
        write_all(files, changes, made)

    monkeypatch.setattr(settling.applying, "write_all", edited)
    with lone.alone(base) as found:
        settled = found.apply(lone.ID, "cli", None)
    assert settled["status"] == "rejected"
    assert settled["resolution"]["reason"].startswith("'C.md' has changed")
    assert lone.notes(base) == {**lone.OLD, "C.md": b"somebody's edit"}
    assert lone.folders(base) == set()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_whichever_call_fails_a_proposal_is_whole_or_absent(tmp_path: Path, number: int) -> None:
    base = tmp_path / "base"
    seen: Counter[str] = Counter()
    for nth in range(1, 500):
        lone.lay(base)
        refused: SidecarError | None = None
        with faults(nth, number) as fault:
            try:
                lone.propose(base)
            except SidecarError as error:
                refused = error
        lone.recover(base)
        assert lone.status(base) == ("absent" if refused else "open"), (nth, fault.failed, refused)
        assert ".tmp" not in str(lone.proposals(base))
        assert lone.notes(base) == lone.OLD
        seen[str(refused).split(":")[0]] += 1
        if fault.failed is None:
            assert seen["The proposal could not be stored"] > 10
            return
    pytest.fail("it never got through")
