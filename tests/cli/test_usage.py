"""How commands are spelled, and how they refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar import __version__
from sidecar.bridge.token import new_token
from sidecar.bridge.token_store import FileStore
from sidecar.cli import where
from sidecar.cli.parser import build_parser
from tests.cli.conftest import Place, Said
from tests.conftest import REPOSITORY

LEAVES = [
    ["serve"],
    ["status"],
    ["search", "query"],
    ["token", "show"],
    ["token", "rotate"],
    ["token", "add", "agent"],
    ["token", "list"],
    ["token", "remove", "agent"],
    ["port", "set", "25000"],
    ["port", "clear"],
    ["endpoint"],
    ["connect", "claude-code"],
    ["index", "rebuild"],
    ["writes", "on"],
    ["recover", "list"],
    ["recover", "restore", "id"],
    ["stop"],
]


@pytest.mark.parametrize("leaf", LEAVES, ids=" ".join)
def test_vault_and_state_may_stand_anywhere(leaf: list[str]) -> None:
    places = ["--vault", "v", "--state", "s"]
    spellings = [[*places, *leaf], [leaf[0], *places, *leaf[1:]], [*leaf, *places], [*places[:2], *leaf, *places[2:]]]
    for argv in spellings:
        args = build_parser().parse_args(argv)
        assert (args.vault, args.state) == ("v", "s"), argv
    args = build_parser().parse_args(leaf)
    assert (args.vault, args.state) == (None, None)
    assert args.module.startswith("sidecar.cli.")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nonsense"],
        ["token"],
        ["connect"],
        ["token", "add"],
        ["token", "remove"],
        ["port"],
        ["port", "set"],
        ["port", "set", "0"],
        ["port", "set", "80"],
        ["port", "set", "65536"],
        ["port", "set", "٣٠٠٠"],
        ["port", "clear", "25000"],
        ["endpoint", "--library"],
        ["connect", "notepad"],
        ["connect", "cursor", "--http", "--stdio"],
        ["connect", "cursor", "--name", "my notes"],
        ["search"],
        ["search", "x", "-k", "0"],
        ["search", "x", "-k", "101"],
        ["search", "x", "-k", "ten"],
        ["search", "x", "--mode", "fts"],
        ["serve", "--port", "80"],
        ["serve", "--port", "65536"],
        ["serve", "--port", "-1"],
        ["serve", "--port", "٣"],
        ["serve", "a", "b"],
        ["status", "--jso"],
        ["stop", "--json"],
    ],
    ids=" ".join,
)
def test_a_usage_error_is_code_2_and_prints_nothing_on_stdout(run: Callable[..., Said], argv: list[str]) -> None:
    said = run(*argv)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("usage: vault-sidecar")


def test_two_different_vaults_are_a_usage_error(run: Callable[..., Said], place: Place) -> None:
    said = run("serve", str(place.vault), "--vault", str(place.vault / "Folder"))
    assert (said.code, said.err) == (2, "vault-sidecar: two different vaults are named; name one\n")


def test_the_module_and_its_version_can_be_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", "--version"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"vault-sidecar {__version__}\n"


def test_every_command_explains_itself(run: Callable[..., Said]) -> None:
    for leaf in LEAVES:
        said = run(*leaf, "--help")
        assert said.code == 0
        assert "exit codes" in said.out
        assert "--state" in said.out


def found(*argv: str) -> where.Where:
    return where.find(build_parser().parse_args([*argv, "status"]))


def test_the_vault_is_the_one_named_else_the_variables_else_the_nearest(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found().vault == place.vault
    monkeypatch.setenv("VAULT_SIDECAR_VAULT", str(tmp_path / "by variable"))
    assert found().vault == tmp_path / "by variable"
    assert found("--vault", str(tmp_path / "named")).vault == tmp_path / "named"
    monkeypatch.setenv("VAULT_SIDECAR_VAULT", "")
    assert found().vault == place.vault


def test_the_state_root_is_the_one_named_else_the_variables_else_the_systems(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found().state_dir == place.state
    assert found("--state", str(tmp_path / "named")).state_dir == tmp_path / "named" / place.state.name
    monkeypatch.delenv("VAULT_SIDECAR_STATE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / "state"))
    system = found().state_dir
    assert tmp_path / "home" in system.parents
    assert system.parent.name == "vault-sidecar"


def test_a_tilde_that_the_shell_left_is_the_home_folder(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place.vault.parent))
    assert found("--vault=~/My Notes").vault == place.vault
    assert found("--vault=~nobody-of-that-name/x").vault.name == "x"


def test_without_any_vault_the_question_is_asked_back(
    run: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("status")
    assert said.code == 2
    assert said.err.startswith("vault-sidecar: which vault? Name its folder with --vault DIR")


def test_in_a_folder_that_was_deleted_the_question_is_asked_back(
    run: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = run("status")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("vault-sidecar: which vault?")


def test_state_inside_the_vault_is_refused_by_every_command(run: Callable[..., Said], place: Place) -> None:
    """L08."""
    for leaf in LEAVES:
        said = run(*leaf, "--state", str(place.vault / ".state"))
        assert said.code == 2
        assert "must not lie in the vault" in said.err
    assert not (place.vault / ".state").exists()


def test_an_error_is_one_line_that_no_name_can_break(run: Callable[..., Said]) -> None:
    said = run("serve", "no such\n\x1b[31mfolder")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "\x1b" not in said.err


def test_ctrl_c_gives_no_traceback(run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, "find", interrupted)
    assert run("status") == Said(130, "", "")


LOADED = """
import sys
from sidecar.cli.main import main
code = main(sys.argv[1:])
large = {"aiohttp", "asyncio", "keyring", "mcp", "numpy", "pydantic", "watchfiles"}
print(sorted(large & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("leaf", [["status"], ["stop"], ["token", "show"], ["token", "list"]], ids=" ".join)
def test_a_short_command_loads_no_large_library(place: Place, leaf: list[str]) -> None:
    """Importing any of them takes longer than these commands themselves."""
    FileStore(place.state, place.vault).store(new_token())
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *leaf, "--vault", str(place.vault)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"
