"""Proposing, reviewing, applying and rejecting over a real vault: what is stored, what is refused, what is written."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import time
from collections.abc import AsyncIterator
from datetime import datetime
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from sidecar.errors import (
    BadArguments,
    BadPath,
    Conflict,
    NotFound,
    NotWritten,
    Protected,
    TooLarge,
    Unreadable,
)
from sidecar.services import proposals as module
from sidecar.services import settling
from sidecar.services.applying import JOURNAL, Journal
from sidecar.services.proposal_drafts import Rules
from sidecar.services.proposal_plans import Change
from sidecar.ulids import Ulids
from sidecar.vault.door import Folder
from sidecar.vault.jail import Jail
from sidecar.vault.paths import VaultPath
from tests.services.suggestions import AUTHOR, Bench, open_bench

PLAN = "".join(f"line {number}\n" for number in range(1, 10))
NEW_PLAN = PLAN.replace("line 5", "line five")
CURIO = "---\nschema: curio.frontmatter.v1\ncurio_id: 7\ntitle: Old\n---\n"
MANAGED = "text\n<!-- curio:managed:begin v1 -->\nkept\n<!-- curio:managed:end -->\nmine\n"
TOO_LARGE = "files: at most 100 files, 1 MiB each and 4 MiB in all."


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as found:
        yield found


# proposing


async def test_a_proposal_is_stored_and_nothing_else(bench: Bench) -> None:
    before = bench.tree()
    files = [("Projects/Plan.md", NEW_PLAN), ("Äpfel/New.md", "# New\r\n\u2028x"), ("A.md", "a\n")]
    proposal = await bench.proposals.propose("Tidy up", "Because.\n", files, AUTHOR)
    assert (proposal.status, proposal.dir) == ("open", f".kp/proposals/{proposal.id}")
    assert list(proposal.files) == [path for path, _ in files]
    assert bench.tree() == before
    folder = bench.vault / proposal.dir
    assert sorted(each.name for each in folder.iterdir()) == ["changes.patch", "proposal.json"]
    assert bench.folders() == [proposal.id]
    record = bench.record(proposal)
    assert record == {
        "schema": "proposals/v1", "id": proposal.id, "created": proposal.created, "author": AUTHOR,
        "title": "Tidy up", "rationale": "Because.\n", "status": "open", "files": [path for path, _ in files],
    }  # fmt: skip
    schema = json.loads(resources.files("sidecar").joinpath("schemas/proposal.v1.json").read_text("utf-8"))
    jsonschema.validate(record, schema, cls=jsonschema.Draft202012Validator)
    assert proposal.created.endswith("Z") and datetime.fromisoformat(proposal.created).microsecond == 0
    assert bench.patch(proposal).read_bytes().decode() == (
        "--- a/Projects/Plan.md\n+++ b/Projects/Plan.md\n@@ -2,7 +2,7 @@\n line 2\n line 3\n line 4\n-line 5\n"
        "+line five\n line 6\n line 7\n line 8\n"
        "--- /dev/null\n+++ b/Äpfel/New.md\n@@ -0,0 +1,2 @@\n+# New\r\n+\u2028x\n\\ No newline at end of file\n"
        "--- /dev/null\n+++ b/A.md\n@@ -0,0 +1 @@\n+a\n"
    )


async def test_one_bad_file_refuses_the_whole(bench: Bench) -> None:
    with pytest.raises(Protected, match="can't be changed by a proposal"):
        await bench.propose(("Good.md", "good"), ("Agents/Scout.md", "x"))
    assert not (bench.vault / ".kp").exists()
    assert (await bench.proposals.listed())["proposals"] == []


async def test_what_is_left_out_of_the_vault_can_not_be_proposed(bench: Bench) -> None:
    bench.lay(".kpignore", "Left out/\n")
    bench.tools.corpus.rebuild()
    while not bench.tools.corpus.is_ignored(VaultPath("Left out"), is_folder=True):
        await bench.tools.corpus.wait_beyond(bench.tools.corpus.generation)
    with pytest.raises(BadPath) as refused:
        await bench.propose(("Left out/x.md", "x"))
    assert str(refused.value) == (
        "'Left out/x.md' is left out of the vault by .kpignore; it can't be changed by a proposal."
    )


async def test_the_limits_hold(bench: Bench) -> None:
    whole = "x" * (1 << 20)
    await bench.propose(*((f"{number}.md", whole) for number in range(4)))
    await bench.propose(*((f"{number}.md", "x") for number in range(100)))
    for files in ([(f"{number}.md", "x") for number in range(101)], [(f"{number}.md", whole) for number in range(5)]):
        with pytest.raises(TooLarge) as refused:
            await bench.propose(*files)
        assert str(refused.value) == TOO_LARGE
    with pytest.raises(BadArguments, match="files: is required"):
        await bench.propose()
    assert len(bench.folders()) == 2


async def test_a_note_that_is_too_large_as_it_is_can_not_be_changed(bench: Bench) -> None:
    bench.lay("Large.md", "x" * (4 << 20) + "\n")
    with pytest.raises(TooLarge, match=r"'Large.md' is larger than 4 MiB"):
        await bench.propose(("Large.md", "x"))


@pytest.mark.parametrize(
    "text", ["---\nkp: 1\n---", "\n", "# \r\n", '"\\u0000', "\u2028", "\x1b[2J", "a" * 200], ids=ascii
)
async def test_any_title_and_rationale_come_back_as_they_were(bench: Bench, text: str) -> None:
    proposal = await bench.proposals.propose(text, text, [("x.md", "x")], AUTHOR)
    assert (bench.record(proposal)["title"], bench.record(proposal)["rationale"]) == (text, text)
    [listed] = (await bench.proposals.listed())["proposals"]
    assert (listed["title"], listed["rationale"]) == (text, text)


async def test_another_spelling_of_the_folder_is_told(bench: Bench) -> None:
    (bench.vault / ".KP").mkdir()
    with pytest.raises(NotWritten) as refused:
        await bench.propose(("x.md", "x"))
    assert str(refused.value) == "The proposal could not be stored: '.kp/proposals' is there in another spelling."


async def test_half_a_character_is_no_text(bench: Bench) -> None:
    with pytest.raises(BadArguments, match=r"title: must be text\.\nrationale: must be text\."):
        await bench.proposals.propose("\udc80", "\ud800", [("x.md", "x")], AUTHOR)


async def test_names_are_in_the_order_of_making(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "new_ulid", Ulids(lambda: 1_700_000_000_000))  # all in one millisecond
    made = [await bench.propose((f"{number}.md", "x")) for number in range(5)]
    more = await asyncio.gather(*(bench.propose((f"g{number}.md", "x")) for number in range(10)))
    assert bench.folders()[:5] == [each.id for each in made]
    assert len(bench.folders()) == 15
    for each in (*made, *more):
        assert await bench.problem(each) is None


async def test_a_byte_order_mark_stays(bench: Bench) -> None:
    bench.lay("Mark.md", b"\xef\xbb\xbfone\n")
    with pytest.raises(BadArguments, match="already has this content"):
        await bench.propose(("Mark.md", "one\n"))
    proposal = await bench.propose(("Mark.md", "two\n"))
    await bench.proposals.apply(proposal.id, "cli")
    assert (bench.vault / "Mark.md").read_bytes() == b"\xef\xbb\xbftwo\n"


async def test_bytes_that_are_no_text_can_be_replaced(bench: Bench) -> None:
    note = bench.lay("Latin.md", "caf\xe9\n".encode("latin-1") + b"\xfe\xff")
    proposal = await bench.propose(("Latin.md", "caf\xe9\n"))
    assert r"-caf\xe9" in (await bench.proposals.show(proposal.id)).facts()["diff"]
    await bench.proposals.apply(proposal.id, "cli")
    assert note.read_bytes() == "caf\xe9\n".encode()


# looking


async def test_the_list_is_of_the_open_ones_oldest_first(bench: Bench) -> None:
    first, second, third = [await bench.propose((f"{number}.md", "x")) for number in range(3)]
    await bench.proposals.reject(second.id, "console", "no")
    listed = (await bench.proposals.listed())["proposals"]
    assert [each["id"] for each in listed] == [first.id, third.id]
    every = (await bench.proposals.listed(every=True))["proposals"]
    assert [(each["id"], each["status"]) for each in every] == [
        (first.id, "open"), (second.id, "rejected"), (third.id, "open"),
    ]  # fmt: skip


async def test_a_proposal_is_named_by_its_ending(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    proposal = await bench.propose(("x.md", "x"))
    for ending in (proposal.id, proposal.id[-6:], proposal.id[-10:].lower()):
        assert (await bench.proposals.show(ending)).proposal.id == proposal.id
    for ending in (proposal.id[-5:], proposal.id[:-1], "", "../../Projects", "zzzzzz"):
        with pytest.raises(NotFound, match="There is no proposal"):
            await bench.proposals.show(ending)
    twin = bench.vault / ".kp/proposals" / f"0{'0' * 19}{proposal.id[-6:]}"
    twin.mkdir()
    with pytest.raises(NotFound, match="Several proposals end in"):
        await bench.proposals.show(proposal.id[-6:])
    assert (await bench.proposals.show(proposal.id)).proposal.id == proposal.id


async def test_a_damaged_proposal_is_passed_over(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = await bench.propose(("x.md", "x")), await bench.propose(("y.md", "y"))
    (bench.vault / bad.dir / "proposal.json").write_bytes(b"{")
    listed = await bench.proposals.listed()
    assert [each["id"] for each in listed["proposals"]] == [good.id]
    assert listed["unreadable"] == [{"name": bad.id, "reason": "proposal.json is no JSON"}]
    assert f"the proposal {bad.id} is passed over: proposal.json is no JSON" in caplog.text
    for decide in (bench.proposals.show, lambda each: bench.proposals.apply(each, "cli"),
                   lambda each: bench.proposals.reject(each, "cli")):  # fmt: skip
        with pytest.raises(Unreadable, match=f"The proposal {bad.id} can't be read: proposal.json is no JSON."):
            await decide(bad.id)
    assert "x.md" not in bench.notes()


async def test_what_is_no_proposal_is_passed_over_in_silence(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    good = await bench.propose(("x.md", "x"))
    folder = bench.vault / ".kp/proposals"
    (folder / "notes").mkdir()
    (folder / "01ARYZ6S410000000000000000").write_text("a file")
    (folder / "01ARYZ6S410000000000000001").symlink_to(bench.vault)
    assert [each["id"] for each in (await bench.proposals.listed())["proposals"]] == [good.id]
    assert "passed over" not in caplog.text


@pytest.mark.parametrize("missing", ["proposal.json", "changes.patch"])
async def test_a_folder_that_lacks_a_file_is_unreadable(bench: Bench, missing: str) -> None:
    proposal = await bench.propose(("x.md", "x"))
    (bench.vault / proposal.dir / missing).unlink()
    with pytest.raises(Unreadable, match=f"it has no {missing}"):
        await bench.proposals.apply(proposal.id, "cli")
    assert bench.notes().keys() == {"Projects/Plan.md"}


async def test_a_record_behind_a_link_is_not_read(bench: Bench, tmp_path: Path) -> None:
    proposal = await bench.propose(("x.md", "x"))
    record = bench.vault / proposal.dir / "proposal.json"
    outside = tmp_path / "outside.json"
    record.rename(outside)
    record.symlink_to(outside)
    listed = await bench.proposals.listed()
    assert [name["name"] for name in listed["unreadable"]] == [proposal.id]


async def test_a_folder_that_can_not_be_read_does_not_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Jail.folder

    def elsewhere(jail: Jail, path: VaultPath) -> Folder:
        if path.text == ".kp/proposals":
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return folder(jail, path)

    monkeypatch.setattr(Jail, "folder", elsewhere)
    async with open_bench(tmp_path) as bench:
        assert "what was left of proposals is not cleared up now: '.kp/proposals' can't be read: " in caplog.text
        with pytest.raises(Unreadable, match=r"'.kp/proposals' can't be read: "):
            await bench.proposals.listed()


# applying


async def test_applying_writes_all_and_stamps(bench: Bench) -> None:
    proposal = await bench.propose(("Projects/Plan.md", NEW_PLAN), ("A/B/New.md", "zebra\r\n"))
    review = await bench.proposals.show(proposal.id)
    assert review.problem is None
    settled = await bench.proposals.apply(proposal.id[-8:], "console", seen=review.checksum)
    assert (settled.created, settled.changed) == (("A/B/New.md",), ("Projects/Plan.md",))
    assert bench.notes() == {"Projects/Plan.md": NEW_PLAN.encode(), "A/B/New.md": b"zebra\r\n"}
    record = bench.record(proposal)
    assert (record["status"], record["resolution"]["by"]) == ("applied", "console")
    assert list(record["resolution"]) == ["at", "by"]
    assert bench.folders() == [proposal.id]
    assert sorted(each.name for each in (bench.vault / proposal.dir).iterdir()) == ["changes.patch", "proposal.json"]
    assert not (bench.state / "applying.json").exists()
    assert await bench.tools.kept() == [("Projects/Plan.md", "applied", PLAN.encode())]
    # searches that are asked from now on find it
    assert [hit.path for hit in (await bench.tools.corpus.search("zebra", 5)).hits] == ["A/B/New.md"]
    assert "A/B/New.md" in await bench.tools.text("search_notes", query="zebra")


async def test_what_others_keep_in_a_record_stays(bench: Bench) -> None:
    proposal = await bench.propose(("x.md", "x"))
    record = bench.vault / proposal.dir / "proposal.json"
    record.write_text(json.dumps({**bench.record(proposal), "theirs": {"a": [1]}}))
    await bench.proposals.apply(proposal.id, "plugin")
    assert bench.record(proposal)["theirs"] == {"a": [1]}


async def test_a_note_can_be_made_empty(bench: Bench) -> None:
    proposal = await bench.propose(("Projects/Plan.md", ""))
    await bench.proposals.apply(proposal.id, "cli")
    assert bench.notes() == {"Projects/Plan.md": b""}


async def test_the_mode_of_a_note_stays(bench: Bench) -> None:
    (bench.vault / "Projects/Plan.md").chmod(0o640)
    proposal = await bench.propose(("Projects/Plan.md", NEW_PLAN))
    await bench.proposals.apply(proposal.id, "cli")
    assert (bench.vault / "Projects/Plan.md").stat().st_mode & 0o777 == 0o640


async def test_a_vault_that_has_drifted_rejects(bench: Bench) -> None:
    proposal = await bench.propose(("New.md", "x"), ("Projects/Plan.md", NEW_PLAN))
    bench.lay("Projects/Plan.md", PLAN.replace("line 4", "line four"))
    assert await bench.rejected(proposal) == "'Projects/Plan.md' has changed since: line 4 is not what it was."
    with pytest.raises(Conflict, match="was rejected already"):
        await bench.proposals.apply(proposal.id, "cli")


async def test_a_second_application_is_refused(bench: Bench) -> None:
    proposal = await bench.propose(("Projects/Plan.md", NEW_PLAN))
    await bench.proposals.apply(proposal.id, "cli")
    record = bench.record(proposal)
    for decide in (bench.proposals.apply(proposal.id, "cli"), bench.proposals.reject(proposal.id, "cli")):
        with pytest.raises(Conflict, match=f"The proposal {proposal.id} was applied already."):
            await decide
    assert bench.record(proposal) == record
    assert bench.notes() == {"Projects/Plan.md": NEW_PLAN.encode()}
    assert await bench.problem(proposal) == f"The proposal {proposal.id} was applied already."


async def test_two_at_once_apply_it_once(bench: Bench) -> None:
    proposal = await bench.propose(("Projects/Plan.md", NEW_PLAN))
    told = await asyncio.gather(*(bench.proposals.apply(proposal.id, "cli") for _ in range(5)), return_exceptions=True)
    assert sum(not isinstance(each, BaseException) for each in told) == 1
    assert all(isinstance(each, Conflict) for each in told if isinstance(each, BaseException))


async def test_proposals_for_other_notes_are_applied_one_after_the_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one place to note down what is being applied."""
    write = Journal.write
    taken: list[bool] = []

    def noted(journal: Journal, state_dir: Path) -> None:
        taken.append((state_dir / JOURNAL).exists())
        write(journal, state_dir)
        time.sleep(0.01)  # so that another one, if it may, comes in between

    monkeypatch.setattr(Journal, "write", noted)
    made = [await bench.propose((f"{number}.md", "x")) for number in range(6)]
    settled = await asyncio.gather(*(bench.proposals.apply(each.id, "cli") for each in made))
    assert [each.proposal.status for each in settled] == ["applied"] * 6
    assert taken == [False] * 6


async def test_one_proposal_rejects_the_next_for_the_same_lines(bench: Bench) -> None:
    one = await bench.propose(("Projects/Plan.md", NEW_PLAN))
    other = await bench.propose(("Projects/Plan.md", PLAN.replace("line 5", "line V")))
    elsewhere = await bench.propose(("Projects/Plan.md", PLAN.replace("line 9", "line IX")))
    await bench.proposals.apply(one.id, "cli")
    assert "line 5 is not what it was" in await bench.rejected(other)
    await bench.proposals.apply(elsewhere.id, "cli")
    assert bench.notes()["Projects/Plan.md"] == NEW_PLAN.replace("line 9", "line IX").encode()


async def test_a_file_that_was_created_meanwhile_rejects(bench: Bench) -> None:
    proposal = await bench.propose(("New.md", "x"))
    bench.lay("New.md", "somebody's")
    assert await bench.rejected(proposal) == "'New.md' exists by now."


async def test_a_file_that_is_gone_rejects(bench: Bench) -> None:
    proposal = await bench.propose(("Projects/Plan.md", NEW_PLAN), ("New.md", "x"))
    (bench.vault / "Projects/Plan.md").unlink()
    assert await bench.rejected(proposal) == "'Projects/Plan.md' is gone."


async def test_a_twin_that_came_meanwhile_rejects(bench: Bench) -> None:
    proposal = await bench.propose(("New.md", "x"))
    bench.lay("NEW.md", "somebody's")
    assert await bench.rejected(proposal) == "'New.md' differs only in case from 'NEW.md'; use that name."


async def test_a_link_that_came_meanwhile_rejects(bench: Bench, tmp_path: Path) -> None:
    proposal = await bench.propose(("Folder/New.md", "x"))
    (tmp_path / "outside").mkdir()
    (bench.vault / "Folder").symlink_to(tmp_path / "outside")
    assert "a part of its path is a link or no folder" in await bench.rejected(proposal)
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("Agents/Scout.md", "is protected"), ("Agents/Memory.md", "is protected"), (".obsidian/x.md", "is protected"),
        ("../outside.md", "is not a path inside the vault"), ("/etc/x.md", "is not a path inside the vault"),
        ("x.js", "is not a note"), ("CON.md", "is not a name every system can store"),
    ],
)  # fmt: skip
async def test_a_path_smuggled_into_the_patch_rejects(bench: Bench, tmp_path: Path, path: str, says: str) -> None:
    proposal = await bench.propose(("x.md", "x\n"))
    record = bench.vault / proposal.dir / "proposal.json"
    declared = [path] if not path.startswith("/") else ["x.md"]
    record.write_text(json.dumps(bench.record(proposal) | {"files": declared}))
    bench.patch(proposal).write_bytes(bench.patch(proposal).read_bytes().replace(b"b/x.md", f"b/{path}".encode()))
    reason = await bench.rejected(proposal)
    assert says in reason or (path.startswith("/") and "which the proposal does not name" in reason)
    assert not (tmp_path / "outside.md").exists()
    assert not (bench.vault / "Agents").exists()


SMUGGLED: dict[str, tuple[bytes, str]] = {
    "undeclared": (
        b"--- /dev/null\n+++ b/Other.md\n@@ -0,0 +1 @@\n+x\n",
        "The patch changes 'Other.md', which the proposal does not name.",
    ),
    "twice": (b"--- /dev/null\n+++ b/x.md\n@@ -0,0 +1 @@\n+x\n", "The patch is damaged: 'x.md' is in it twice."),
    "renamed": (
        b"--- a/Projects/Plan.md\n+++ b/y.md\n@@ -1 +1 @@\n-x\n+x\n",
        "The patch is damaged: line 6: it renames a file.",
    ),
    "deleted": (
        b"--- a/Projects/Plan.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
        "The patch is damaged: line 6: it deletes a file.",
    ),
    "rubbish": (b"rubbish\n", "The patch is damaged: line 5: no '--- a/' and path."),
}


@pytest.mark.parametrize(("more", "says"), SMUGGLED.values(), ids=SMUGGLED)
async def test_a_patch_that_says_more_than_its_proposal_rejects(bench: Bench, more: bytes, says: str) -> None:
    proposal = await bench.propose(("x.md", "x\n"))
    bench.patch(proposal).write_bytes(bench.patch(proposal).read_bytes() + more)
    assert await bench.rejected(proposal) == says


async def test_a_patch_that_says_less_than_its_proposal_rejects(bench: Bench) -> None:
    proposal = await bench.propose(("x.md", "x\n"), ("y.md", "y\n"))
    whole = bench.patch(proposal).read_bytes()
    bench.patch(proposal).write_bytes(whole[: whole.index(b"--- /dev/null\n+++ b/y.md")])
    assert await bench.rejected(proposal) == "The patch has no change of 'y.md', which the proposal names."


async def test_a_managed_note_is_looked_at_again(bench: Bench) -> None:
    note = bench.lay("Clip.md", "text\nmine\n")
    proposal = await bench.propose(("Clip.md", "text\nyours\n"))
    note.write_text("text\nmine\n".replace("mine", "<!-- curio:managed:begin v1 -->\nmine"))
    bench.patch(proposal).write_text(
        "--- a/Clip.md\n+++ b/Clip.md\n@@ -1,3 +1,3 @@\n text\n <!-- curio:managed:begin v1 -->\n-mine\n+yours\n"
    )
    assert "is managed by its exporter" in await bench.rejected(proposal)


async def test_new_properties_and_text_of_a_managed_note_are_free(bench: Bench) -> None:
    note = bench.lay("Clip.md", CURIO + MANAGED)
    text = CURIO.replace("title: Old", "title: Old\ntags: [new]") + MANAGED.replace("mine", "mine, and more")
    proposal = await bench.propose(("Clip.md", text))
    assert (await bench.proposals.apply(proposal.id, "cli")).proposal.status == "applied"
    assert note.read_text() == text


async def test_an_id_that_the_vault_has_already_rejects(bench: Bench) -> None:
    block = "---\nkp_id: kp:0192\n---\n"
    proposal = await bench.propose(("New.md", block))
    other = await bench.propose(("Another.md", block))
    await bench.proposals.apply(proposal.id, "cli")
    assert await bench.rejected(other) == "'Another.md' has the id 'kp:0192', which 'New.md' has already."


async def test_without_the_question_for_ids_two_notes_have_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(settling, "refuse_taken", lambda *_: None)
    block = "---\nkp_id: kp:0192\n---\n"
    for path in ("New.md", "Another.md"):
        proposal = await bench.propose((path, block))
        assert (await bench.proposals.apply(proposal.id, "cli")).proposal.status == "applied"


async def test_an_id_twice_in_a_proposal_rejects(bench: Bench) -> None:
    block = "---\nkp_id: kp:0192\n---\n"
    proposal = await bench.propose(("One.md", block), ("Two.md", block))
    assert await bench.rejected(proposal) == "'One.md' and 'Two.md' both have the id 'kp:0192'."


async def test_a_folder_in_two_spellings_rejects(bench: Bench) -> None:
    proposal = await bench.propose(("New/a.md", "x"), ("Other/b.md", "x"))
    for name in ("proposal.json", "changes.patch"):
        file = bench.vault / proposal.dir / name
        file.write_text(file.read_text().replace("Other/b.md", "new/b.md"))
    assert await bench.rejected(proposal) == (
        "'new/b.md' spells a folder of 'New/a.md' in another way; use one spelling."
    )


async def test_without_the_look_at_all_notes_together_it_stays_open_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr(Rules, "together", lambda *_: None)
    proposal = await bench.propose(("New/a.md", "x"), ("new/b.md", "x"))
    if (bench.vault / "projects").exists():
        pytest.skip("the disk takes both for one")
    assert await bench.problem(proposal) is None
    with pytest.raises(NotWritten, match="differs only in case"):
        await bench.proposals.apply(proposal.id, "cli")
    assert bench.record(proposal)["status"] == "open"


async def test_more_files_than_a_proposal_may_have_reject(bench: Bench) -> None:
    proposal = await bench.propose(*((f"{number}.md", "x") for number in range(100)))
    record = bench.vault / proposal.dir / "proposal.json"
    record.write_text(json.dumps(bench.record(proposal) | {"files": [f"{number}.md" for number in range(101)]}))
    bench.patch(proposal).write_bytes(
        bench.patch(proposal).read_bytes() + b"\n--- /dev/null\n+++ b/100.md\n@@ -0,0 +1 @@\n+x\n"
    )
    assert await bench.rejected(proposal) == TOO_LARGE


async def test_what_was_begun_is_taken_back_before_it_is_rejected(bench: Bench) -> None:
    proposal = await bench.propose(("Projects/Plan.md", NEW_PLAN), ("New.md", "x"))
    changes = (
        Change(VaultPath("Projects/Plan.md"), PLAN.encode(), NEW_PLAN.encode()),
        Change(VaultPath("New.md"), None, b"x"),
    )
    await asyncio.to_thread(Journal.of(proposal.id, "cli", changes, ()).write, bench.state)
    bench.lay("Projects/Plan.md", NEW_PLAN)
    assert (await bench.proposals.reject(proposal.id, "cli")).status == "rejected"
    assert bench.notes() == {"Projects/Plan.md": PLAN.encode()}
    assert not (bench.state / JOURNAL).exists()


async def test_what_was_not_shown_is_not_applied(bench: Bench) -> None:
    proposal = await bench.propose(("x.md", "x\n"))
    seen = (await bench.proposals.show(proposal.id)).checksum
    bench.patch(proposal).write_bytes(bench.patch(proposal).read_bytes().replace(b"+x\n", b"+y\n"))
    with pytest.raises(Conflict, match="has changed since it was shown"):
        await bench.proposals.apply(proposal.id, "cli", seen=seen)
    assert bench.record(proposal)["status"] == "open"
    assert "x.md" not in bench.notes()


async def test_whoever_does_not_say_what_was_shown_gets_what_is_there(bench: Bench) -> None:
    """The control."""
    proposal = await bench.propose(("x.md", "x\n"))
    bench.patch(proposal).write_bytes(bench.patch(proposal).read_bytes().replace(b"+x\n", b"+y\n"))
    await bench.proposals.apply(proposal.id, "cli")
    assert bench.notes()["x.md"] == b"y\n"


async def test_a_note_that_can_not_be_read_leaves_it_open(bench: Bench) -> None:
    proposal = await bench.propose(("Projects/Plan.md", NEW_PLAN))
    (bench.vault / "Projects/Plan.md").unlink()
    os.mkfifo(bench.vault / "Projects/Plan.md")
    assert "it is not a regular file" in str(await bench.problem(proposal))
    with pytest.raises(Unreadable, match="it is not a regular file"):
        await bench.proposals.apply(proposal.id, "cli")
    assert bench.record(proposal)["status"] == "open"


# rejecting


@pytest.mark.parametrize("reason", [None, "", "Not now.\n\x1b"], ids=ascii)
async def test_rejecting_stamps(bench: Bench, reason: str | None) -> None:
    proposal = await bench.propose(("x.md", "x"))
    before = bench.tree()
    rejected = await bench.proposals.reject(proposal.id, "cli", reason)
    assert (rejected.status, bench.record(proposal)["status"]) == ("rejected", "rejected")
    assert bench.record(proposal)["resolution"].get("reason") == (reason or None)
    assert bench.tree() == before
    with pytest.raises(Conflict, match="was rejected already"):
        await bench.proposals.reject(proposal.id, "cli")


async def test_whoever_listens_is_told_of_each_change(bench: Bench) -> None:
    told: list[str] = []
    bench.proposals.on_changed = lambda: told.append("changed")
    first, second = await bench.propose(("x.md", "x")), await bench.propose(("y.md", "y"))
    assert len(told) == 2
    await bench.proposals.apply(first.id, "cli")
    await bench.proposals.reject(second.id, "cli")
    assert len(told) == 4
    with pytest.raises(Conflict):
        await bench.proposals.reject(second.id, "cli")
    assert len(told) == 4
