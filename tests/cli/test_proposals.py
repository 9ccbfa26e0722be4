"""`proposals`, with and without a daemon: what is shown, what is asked, and that hostile text stays text."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from sidecar.bridge import identity, lock
from sidecar.cli import changes
from sidecar.services.copies import Copies
from sidecar.services.proposal_drafts import Rules, drafted
from sidecar.services.proposal_record import Proposal
from sidecar.services.proposal_store import ProposalStore
from sidecar.services.protection import Protection
from sidecar.ulids import Ulids
from sidecar.vault.files import Files
from sidecar.vault.jail import Jail
from tests.bridge.peers import Honest, honest_daemon
from tests.cli.conftest import Place, Said

Run = Callable[..., Said]
new_id = Ulids()

PLAN = "# Plan\n\nWe start on Monday with the hedge.\nBring the ladder.\n"
NEW_PLAN = PLAN.replace("Monday", "Tuesday")
DIFF = """\
Projects/Plan.md  +1 -1
@@ -1,4 +1,4 @@
 # Plan
\x20
-We start on Monday with the hedge.
+We start on Tuesday with the hedge.
 Bring the ladder.

New one.md  new note, +2
+# Hi
+x
\\ No newline at end of file
"""


@pytest.fixture
def daemon(place: Place) -> Generator[Honest]:
    with honest_daemon(place.state) as twin:
        yield twin


@pytest.fixture(autouse=True)
def time_zone() -> Generator[Callable[[str], None]]:
    """Sets the time zone of this process, which the variable alone does not do."""
    with pytest.MonkeyPatch.context() as patch:

        def use(zone: str) -> None:
            patch.setenv("TZ", zone)
            time.tzset()

        use("UTC")
        yield use
    time.tzset()


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What a person types."""

    def typed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    typed("")
    return typed


def propose(
    vault: Path, *files: tuple[str, str], title: str = "Start later", rationale: str = "Rain.\n\nAnd mud."
) -> str:
    """The id of a new proposal."""
    jail = Jail(vault)
    try:
        patch = drafted(Rules(jail, Protection("Agents", "Agents/Memory.md"), lambda _: False), files)
        paths = tuple(path for path, _ in files)
        proposal = Proposal(new_id(), "2026-11-30T10:20:59Z", "mcp:claude", title, rationale, "open", paths)
        ProposalStore(jail).add(Files(jail, lambda *_: None, max_bytes=1 << 20), proposal, patch)
        return proposal.id
    finally:
        jail.close()


@pytest.fixture
def plan(place: Place) -> str:
    """A proposal for two notes."""
    (place.vault / "Projects").mkdir()
    (place.vault / "Projects/Plan.md").write_text(PLAN)
    return propose(place.vault, ("Projects/Plan.md", NEW_PLAN), ("New one.md", "# Hi\nx"))


def record(place: Place, proposal: str) -> dict[str, object]:
    return json.loads((place.vault / ".kp/proposals" / proposal / "proposal.json").read_text())


# list and show


def test_the_list_is_of_the_open_ones(run: Run, place: Place, plan: str) -> None:
    other = propose(place.vault, *((f"{number}.md", "x") for number in range(5)), title="One\nline \x1b[2J")
    assert run("proposals", "list").out == (
        f"{plan}  2026-11-30 10:20  mcp:claude\n    Start later\n    Projects/Plan.md, New one.md\n"
        f"{other}  2026-11-30 10:20  mcp:claude\n    One\\nline \\u001b[2J\n    0.md, 1.md, 2.md and 2 more\n"
    )
    assert run("proposals", "reject", other).code == 0
    assert other not in run("proposals", "list").out
    every = run("proposals", "list", "--all").out
    assert f"{plan}  2026-11-30 10:20  mcp:claude  open" in every
    assert f"{other}  2026-11-30 10:20  mcp:claude  rejected" in every
    assert [each["id"] for each in json.loads(run("proposals", "list", "--json").out)["proposals"]] == [plan]


def test_nothing_to_list_is_said(run: Run, place: Place) -> None:
    assert run("proposals", "list").out == "no open proposals\n"
    assert run("proposals", "list", "--all").out == "no proposals\n"
    assert list(place.state.iterdir()) == []


def test_what_can_not_be_read_is_told(run: Run, place: Place, plan: str) -> None:
    (place.vault / ".kp/proposals" / plan / "proposal.json").write_text("{")
    said = run("proposals", "list")
    assert (said.code, said.out) == (0, "no open proposals\n")
    assert f"passed over {plan}: proposal.json is no JSON\n" in said.err
    assert json.loads(run("proposals", "list", "--json").out)["unreadable"][0]["name"] == plan


def test_a_proposal_is_shown_with_its_diff(run: Run, plan: str) -> None:
    said = run("proposals", "show", plan[-6:].lower())
    assert said.code == 0
    assert said.out == (
        f"Start later\n{plan}  2026-11-30 10:20  mcp:claude  open\n\n  Rain.\n\n  And mud.\n\n{DIFF}"
        "\nIt can be applied.\n"
    )


def test_why_it_can_not_be_applied_is_shown_and_nothing_stamped(run: Run, place: Place, plan: str) -> None:
    (place.vault / "Projects/Plan.md").unlink()
    said = run("proposals", "show", plan)
    assert said.code == 0
    assert said.out.endswith("\nIt cannot be applied: 'Projects/Plan.md' is gone.\n")
    assert record(place, plan)["status"] == "open"
    facts = json.loads(run("proposals", "show", plan, "--json").out)
    assert (facts["applicable"], facts["problem"]) == (False, "'Projects/Plan.md' is gone.")
    assert facts["diff"].startswith("--- a/Projects/Plan.md\n+++ b/Projects/Plan.md\n@@ -1,4 +1,4 @@\n")


def test_an_unknown_id_is_refused(run: Run, plan: str) -> None:
    for action in (["show"], ["apply", "--yes"], ["reject"]):
        said = run("proposals", *action, plan[-5:])
        assert (said.code, said.out) == (1, "")
        assert said.err == (
            f"vault-sidecar: There is no proposal '{plan[-5:]}'. The end of an id needs 6 characters at least."
            " 'vault-sidecar proposals list --all' shows those there are.\n"
        )
    assert run("proposals", "show", "ABCDEF").err == (
        "vault-sidecar: There is no proposal 'ABCDEF'. 'vault-sidecar proposals list --all' shows those there are.\n"
    )


@pytest.mark.parametrize("argv", [[], ["show"], ["apply"], ["frobnicate"], ["list", "x"]], ids=str)
def test_usage_errors_have_code_2(run: Run, argv: list[str]) -> None:
    assert run("proposals", *argv).code == 2


def test_hostile_text_is_spelled_out(run: Run, place: Place) -> None:
    text = "a\x1b]0;title\x07b\r\x9bc \u202egnirts\u2066 \u200b\u2028 🧑\u200d🌾\tok\n"
    proposal = propose(place.vault, ("x.md", text), title="\x1b[31m", rationale="\x1b[2J\n\u202e")
    out = run("proposals", "show", proposal).out
    assert "+a\\u001b]0;title\\u0007b\\r\\u009bc \\u202egnirts\\u2066 \\u200b\\u2028 🧑\u200d🌾\tok\n" in out
    assert "\\u001b[31m\n" in out and "  \\u001b[2J\n  \\u202e\n" in out
    assert not {"\x1b", "\x07", "\r", "\x9b", "\u202e", "\u2066", "\u2028"} & set(out)


# apply


@pytest.mark.parametrize("typed", ["y\n", "Yes\n", " y "], ids=repr)
def test_apply_shows_asks_and_says_what_changed(
    run: Run, place: Place, plan: str, answer: Callable[[str], None], typed: str
) -> None:
    answer(typed)
    said = run("proposals", "apply", plan[-8:])
    assert said.code == 0
    assert DIFF in said.out
    assert said.err.replace("\n", "") == (
        f"Apply it? [y/N] applied {plan}: changed Projects/Plan.md; created New one.md;"
        " the old text is kept, see 'vault-sidecar recover list'"
    )
    assert (place.vault / "Projects/Plan.md").read_text() == NEW_PLAN
    assert (place.vault / "New one.md").read_text() == "# Hi\nx"
    assert record(place, plan)["status"] == "applied"
    [copy] = Copies(place.state).all()
    assert (copy.path, copy.why) == ("Projects/Plan.md", "applied")
    assert "(replaced by a proposal)" in run("recover", "list").out


@pytest.mark.parametrize("typed", ["", "\n", "n\n", "no\n", "yess\n", "ja\n"], ids=repr)
def test_any_other_answer_changes_nothing(
    run: Run, place: Place, plan: str, answer: Callable[[str], None], typed: str
) -> None:
    answer(typed)
    said = run("proposals", "apply", plan)
    assert said.code == 1
    assert said.err.endswith("nothing was changed\n")
    assert (place.vault / "Projects/Plan.md").read_text() == PLAN
    assert record(place, plan)["status"] == "open"


def test_with_yes_nobody_is_asked(run: Run, place: Place, plan: str) -> None:
    said = run("proposals", "apply", plan, "--yes", "--json")
    assert said.code == 0 and "?" not in said.err
    facts = json.loads(said.out)
    assert (facts["status"], facts["changed_notes"], facts["created_notes"]) == (
        "applied", ["Projects/Plan.md"], ["New one.md"],
    )  # fmt: skip


def test_what_can_not_be_applied_is_rejected_if_the_person_agrees(
    run: Run, place: Place, plan: str, answer: Callable[[str], None]
) -> None:
    (place.vault / "New one.md").write_text("mine")
    said = run("proposals", "apply", plan)
    assert said.code == 1
    assert "It can't be applied. Reject it? [y/N] \nnothing was changed\n" in said.err
    assert record(place, plan)["status"] == "open"
    answer("y\n")
    said = run("proposals", "apply", plan)
    assert said.code == 1
    assert said.err.endswith(f"rejected {plan}: 'New one.md' exists by now.\n")
    assert record(place, plan)["status"] == "rejected"
    assert (place.vault / "Projects/Plan.md").read_text() == PLAN
    said = run("proposals", "apply", plan, "--yes")
    assert (said.code, said.err) == (1, f"The proposal {plan} was rejected already.\n")
    assert f"It was rejected {str(record(place, plan)['resolution']['at'])[:10]}" in said.out  # type: ignore[index]


def test_who_agrees_to_reject_has_not_agreed_to_apply(
    run: Run, place: Place, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = place.vault / "New one.md"
    in_the_way.write_text("mine")

    class Slow(io.StringIO):
        """Somebody who answers when it could be applied again."""

        def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
            in_the_way.unlink()
            return "y\n"

    monkeypatch.setattr(sys, "stdin", Slow())
    said = run("proposals", "apply", plan)
    assert (said.code, said.err) == (
        1, f"It can't be applied. Reject it? [y/N] rejected {plan}: 'New one.md' exists by now.\n",
    )  # fmt: skip
    assert record(place, plan)["status"] == "rejected"
    assert (place.vault / "Projects/Plan.md").read_text() == PLAN
    assert not in_the_way.exists()


def test_who_is_asked_has_seen_it_with_json_too(
    run: Run, place: Place, plan: str, answer: Callable[[str], None]
) -> None:
    answer("n\n")
    said = run("proposals", "apply", plan, "--json")
    assert (said.code, said.out) == (1, "")
    assert DIFF in said.err and said.err.endswith("Apply it? [y/N] nothing was changed\n")
    answer("y\n")
    said = run("proposals", "apply", plan, "--json")
    assert (said.code, json.loads(said.out)["status"]) == (0, "applied")


def test_what_became_of_several_notes_is_said(run: Run, place: Place) -> None:
    for name in "ab":
        (place.vault / f"{name}.md").write_text("old")
    proposal = propose(place.vault, ("a.md", "new"), ("b.md", "new"))
    assert run("proposals", "apply", proposal, "--yes").err == (
        f"applied {proposal}: changed a.md, b.md; the old texts are kept, see 'vault-sidecar recover list'\n"
    )


def test_a_time_that_is_none_here_is_shown_as_it_is(
    run: Run, place: Place, plan: str, time_zone: Callable[[str], None]
) -> None:
    time_zone("America/New_York")
    file = place.vault / ".kp/proposals" / plan / "proposal.json"
    file.write_text(file.read_text().replace("2026-11-30T10:20:59Z", "0001-01-01T00:00:00Z"))
    assert run("proposals", "list").out.startswith(f"{plan}  0001-01-01T00:00:00Z  mcp:claude\n")


def test_the_id_of_another_note_is_found_without_an_index(run: Run, place: Place) -> None:
    (place.vault / "Old.md").write_text("---\nkp_id: kp:0192\n---\n")
    proposal = propose(place.vault, ("New.md", "---\nkp_id: kp:0192\n---\n"))
    said = run("proposals", "apply", proposal, "--yes")
    assert said.code == 1
    assert "'New.md' has the id 'kp:0192', which 'Old.md' has already." in said.err


def test_the_ignore_file_counts_without_a_daemon_too(run: Run, place: Place, plan: str) -> None:
    (place.vault / ".kpignore").write_text("Projects/\n")
    assert "is left out of the vault by .kpignore" in run("proposals", "show", plan).out


def test_a_vault_that_was_never_served_has_its_proposals(run: Run, place: Place, plan: str) -> None:
    place.state.rmdir()
    assert plan in run("proposals", "list").out
    assert not place.state.exists()
    assert run("proposals", "apply", plan, "--yes").code == 0


def test_no_vault_is_no_place_for_a_state_folder(run: Run, place: Place) -> None:
    for action in (["list"], ["show", "ABCDEF"], ["reject", "ABCDEF"]):
        assert run("proposals", *action, "--vault", str(place.vault / "Nowhere")).code == 1
    assert [folder.name for folder in place.root.iterdir()] == [place.state.name]


# reject


@pytest.mark.parametrize(
    ("reason", "says"), [("x" * 2001, "at most 2,000 characters."), ("\udcff", "must be text.")], ids=["long", "bytes"]
)
def test_a_reason_that_can_not_be_kept_is_refused(run: Run, place: Place, plan: str, reason: str, says: str) -> None:
    said = run("proposals", "reject", plan, "--reason", reason)
    assert (said.code, said.err) == (1, f"vault-sidecar: reason: {says}\n")
    assert record(place, plan)["status"] == "open"


def test_rejecting_keeps_the_reason(run: Run, place: Place, plan: str) -> None:
    said = run("proposals", "reject", plan[-6:], "--reason", "Not\x1b now.")
    assert (said.code, said.out, said.err) == (0, "", f"rejected {plan}\n")
    assert record(place, plan)["resolution"]["reason"] == "Not\x1b now."  # type: ignore[index]
    assert " by cli: Not\\u001b now.\n" in run("proposals", "show", plan).out
    said = run("proposals", "reject", plan)
    assert (said.code, said.err) == (1, f"vault-sidecar: The proposal {plan} was rejected already.\n")


# through the daemon


def test_the_running_daemon_is_asked(run: Run, daemon: Honest, plan: str) -> None:
    facts = {
        "id": plan, "created": "2026-11-30T10:20:59Z", "author": "mcp:x", "title": "T", "rationale": "",
        "status": "open", "files": ["x.md"], "resolution": None, "dir": "", "applicable": True, "problem": None,
        "checksum": "sha256:7",
        "diff": "--- /dev/null\n+++ b/x.md\n@@ -0,0 +1 @@\n+from the daemon\n",
    }  # fmt: skip
    daemon.answers["/admin/proposals"] = (200, {"proposals": [facts], "unreadable": []})
    daemon.answers["/admin/proposals/show"] = (200, facts)
    daemon.answers["/admin/proposals/apply"] = (200, facts | {
        "status": "applied", "changed_notes": [], "created_notes": ["x.md"],
    })  # fmt: skip
    daemon.answers["/admin/proposals/reject"] = (409, {"error": "conflict", "message": "Not open."})
    assert "mcp:x" in run("proposals", "list").out
    assert "+from the daemon\n" in run("proposals", "show", plan).out
    said = run("proposals", "apply", plan, "--yes")
    assert (said.code, said.err) == (0, f"applied {plan}: created x.md\n")
    assert run("proposals", "reject", plan).err == "vault-sidecar: Not open.\n"
    assert [path for path, _ in daemon.requests if not path.startswith("/identity")] == [
        "/admin/proposals", "/admin/proposals/show", "/admin/proposals/show", "/admin/proposals/apply",
        "/admin/proposals/reject",
    ]  # fmt: skip


def test_a_daemon_that_is_just_starting_is_not_worked_against(
    run: Run, place: Place, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_PATIENCE_S", 0.1)
    with lock.hold(place.state, "serve", identity.new_instance()):
        for action in (["apply", "--yes"], ["reject"]):
            said = run("proposals", *action, plan)
            assert said.code == 3
            assert "still starting" in said.err
    assert record(place, plan)["status"] == "open"


# on a terminal


def on_a_terminal(place: Place, *argv: str, **environment: str) -> str:
    """What a process prints whose stdout is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sidecar", *argv, "--vault", str(place.vault)]
    given = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"} | environment
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, env=given,
                               cwd=Path(__file__).parent.parent.parent)  # fmt: skip
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:
        pass  # how Linux says that the other end is closed
    finally:
        os.close(ours)
        process.wait(60)
    return said.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_with_the_changed_words_marked(place: Place, plan: str) -> None:
    out = on_a_terminal(place, "proposals", "show", plan)
    assert "\x1b[31m-We start on \x1b[7mMonday\x1b[27m with the hedge.\x1b[39m\n" in out
    assert "\x1b[32m+We start on \x1b[7mTuesday\x1b[27m with the hedge.\x1b[39m\n" in out
    assert "\x1b[2m@@ -1,4 +1,4 @@\x1b[22m\n" in out
    assert f"\x1b[2m{plan[:-6]}\x1b[22m\x1b[1m{plan[-6:]}\x1b[22m" in on_a_terminal(place, "proposals", "list")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_whoever_wants_no_colours_gets_none(place: Place, plan: str, environment: dict[str, str]) -> None:
    out = on_a_terminal(place, "proposals", "show", plan, **environment)
    assert DIFF in out and "\x1b" not in out
