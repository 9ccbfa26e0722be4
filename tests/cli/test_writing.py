"""`writes` and `recover`, with and without a daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from sidecar.bridge import identity, lock
from sidecar.bridge.settings import read_settings
from sidecar.cli import changes
from sidecar.cli.main import main
from sidecar.services.copies import Copies
from sidecar.vault.paths import VaultPath
from tests.bridge.peers import Honest, honest_daemon
from tests.cli.conftest import Place, Said

Run = Callable[..., Said]


@pytest.fixture
def daemon(place: Place) -> Generator[Honest]:
    with honest_daemon(place.state) as twin:
        yield twin


@pytest.fixture
def copies(place: Place) -> Copies:
    return Copies(place.state)


def allowed(place: Place) -> object:
    return read_settings(place.state).get("notes", {}).get("allow_writes")


# writes


@pytest.mark.parametrize("word, on", [("on", True), ("off", False)])
def test_the_running_daemon_is_asked(run: Run, place: Place, daemon: Honest, word: str, on: bool) -> None:
    daemon.answers["/admin/settings"] = (200, {"allow_writes": on})
    said = run("writes", word)
    assert (said.code, said.out) == (0, "")
    assert said.err == ("clients may write notes\n" if on else "clients can't write notes\n")
    assert daemon.requests[-1] == ("/admin/settings", True)
    assert allowed(place) is None  # the daemon stores it


def test_its_refusal_is_passed_on(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/settings"] = (409, {"error": "overridden", "message": "Allow writes comes from X."})
    said = run("writes", "on")
    assert (said.code, said.err) == (1, "vault-sidecar: Allow writes comes from X.\n")


def test_without_a_daemon_the_next_start_knows(run: Run, place: Place) -> None:
    assert run("writes", "on").code == 0
    assert allowed(place) is True
    assert run("writes", "off").code == 0
    assert allowed(place) is False


def test_without_a_daemon_what_is_set_elsewhere_is_not_switched(
    run: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_SIDECAR_NOTES_ALLOW_WRITES", "false")
    said = run("writes", "on")
    assert said.code == 1
    assert "comes from the environment variable VAULT_SIDECAR_NOTES_ALLOW_WRITES" in said.err
    assert allowed(place) is None


def test_a_daemon_that_is_just_starting_is_not_worked_against(
    run: Run, place: Place, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_PATIENCE_S", 0.1)
    kept = copies.add(VaultPath("Plan.md"), b"old", "replaced")
    with lock.hold(place.state, "serve", identity.new_instance()):
        for argv in (["writes", "on"], ["recover", "restore", kept.copy_id]):
            said = run(*argv)
            assert said.code == 3
            assert "still starting" in said.err
    assert allowed(place) is None
    assert not (place.vault / "Plan.md").exists()


def test_a_vault_that_is_misspelled_gets_no_state_folder(run: Run, place: Place) -> None:
    said = run("writes", "on", "--vault", str(place.vault / "Nowhere"))
    assert said.code == 2
    assert [folder.name for folder in place.root.iterdir()] == [place.state.name]


# recover


def test_the_list_names_what_is_kept(run: Run, copies: Copies) -> None:
    assert run("recover", "list").out == "no texts are kept\n"
    first = copies.add(VaultPath("Projects/Plan.md"), b"x" * 1234, "replaced")
    second = copies.add(VaultPath("Odd\nname.md"), b"y", "displaced")
    third = copies.add(VaultPath("Plan.md"), b"", "left")
    assert run("recover", "list").out.splitlines() == [
        f"{third.copy_id}  {third.at}          0 bytes  Plan.md (left by a write that was cut off)",
        f"{second.copy_id}  {second.at}          1 bytes  Odd\\nname.md"
        " (another program saved it while it was written)",
        f"{first.copy_id}  {first.at}      1,234 bytes  Projects/Plan.md (replaced as a whole)",
    ]
    facts = json.loads(run("recover", "list", "--json").out)
    assert [copy["copy_id"] for copy in facts["copies"]] == [third.copy_id, second.copy_id, first.copy_id]
    assert facts["copies"][2] == {
        "copy_id": first.copy_id, "path": "Projects/Plan.md", "at": first.at, "why": "replaced",
        "checksum": first.checksum, "size": 1234,
    }  # fmt: skip


def test_a_text_is_shown_byte_for_byte(copies: Copies, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    kept = copies.add(VaultPath("Plan.md"), b"\xef\xbb\xbfone\r\n\xff", "replaced")
    assert main(["recover", "show", kept.copy_id[-13:]]) == 0
    assert capsysbinary.readouterr().out == b"\xef\xbb\xbfone\r\n\xff"
    assert main(["recover", "show", "--json", kept.copy_id]) == 0
    facts = json.loads(capsysbinary.readouterr().out)
    assert (facts["path"], facts["content"]) == ("Plan.md", "\ufeffone\r\n\ufffd")


@pytest.mark.parametrize("action", ["show", "restore"])
def test_an_unknown_id_is_refused(run: Run, action: str) -> None:
    said = run("recover", action, "20261130")
    assert said.code == 1
    assert said.err == (
        "vault-sidecar: There is no copy '20261130'. 'vault-sidecar recover list' shows those there are.\n"
    )


def test_the_running_daemon_restores(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/restore"] = (
        200, {"copy_id": "x", "path": "Plan\x1b.md", "checksum": "sha256:0", "old_is_kept": True},
    )  # fmt: skip
    said = run("recover", "restore", "123456")
    assert (said.code, said.out) == (0, "")
    assert said.err == "restored Plan\\u001b.md; the text it had is kept\n"
    assert json.loads(run("recover", "restore", "123456", "--json").out)["old_is_kept"] is True


def test_without_a_daemon_the_command_restores_itself(run: Run, place: Place, copies: Copies) -> None:
    kept = copies.add(VaultPath("Projects/Plan.md"), b"old", "replaced")
    note = place.vault / "Projects/Plan.md"
    assert run("recover", "restore", kept.copy_id).err == "restored Projects/Plan.md\n"
    assert note.read_bytes() == b"old"
    assert run("recover", "restore", kept.copy_id).err == "restored Projects/Plan.md\n"
    assert len(copies.all()) == 1  # it had this text, so there was nothing to keep
    note.write_bytes(b"new")
    said = run("recover", "restore", kept.copy_id, "--json")
    assert json.loads(said.out) == {
        "copy_id": kept.copy_id, "path": "Projects/Plan.md", "checksum": kept.checksum, "old_is_kept": True,
    }  # fmt: skip
    assert note.read_bytes() == b"old"
    assert copies.find(copies.all()[0].copy_id)[1] == b"new"
    assert not list(Path(place.vault).rglob("*.tmp"))


def test_a_note_that_became_a_link_is_not_restored_through_it(run: Run, place: Place, copies: Copies) -> None:
    kept = copies.add(VaultPath("Plan.md"), b"old", "replaced")
    (place.vault.parent / "outside.md").write_bytes(b"outside")
    (place.vault / "Plan.md").symlink_to(place.vault.parent / "outside.md")
    said = run("recover", "restore", kept.copy_id)
    assert said.code == 1
    assert "it is a link" in said.err
    assert (place.vault.parent / "outside.md").read_bytes() == b"outside"
