"""`db`, while no daemon runs and at a terminal. What a running daemon does is in the tests of databases end to end."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bridge.peers import honest_daemon
from tests.cli.conftest import Place, Said

Run = Callable[..., Said]


@pytest.fixture
def docs(place: Place) -> Path:
    folder = place.vault.parent / "docs"
    folder.mkdir()
    return folder


class Terminal(io.StringIO):
    """Somebody at a keyboard."""

    def isatty(self) -> bool:
        return True


def names(run: Run) -> list[str]:
    return [facts["db"] for facts in json.loads(run("db", "list", "--json").out)["databases"]]


def test_a_folder_may_be_named_from_where_one_is(run: Run, place: Place, docs: Path) -> None:
    assert run("db", "add", "papers", "../../docs/").out == (
        "'papers' was added; its files are made searchable while the daemon runs\n"
    )
    assert run("db", "list").out == f"papers  {docs}\n"
    (place.home / "mine").mkdir()
    assert json.loads(run("db", "add", "mine", "~/mine", "--json").out)["folder"] == str(place.home / "mine")


def test_a_variable_that_is_not_set_names_no_folder(run: Run) -> None:
    """Else it would be the present one, whatever that holds."""
    assert run("db", "add", "papers", "") == Said(1, "", "vault-sidecar: There is no folder at that path.\n")
    assert names(run) == []


def test_from_a_folder_that_was_deleted_no_other_can_be_named(
    run: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = place.vault.parent / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = run("db", "add", "papers", "docs", "--vault", str(place.vault))
    assert said == Said(1, "", "vault-sidecar: There is no folder at that path.\n")


@pytest.mark.parametrize(("answer", "left"), [("y\n", []), ("n\n", ["papers"]), ("\n", ["papers"]), ("", ["papers"])])
def test_removing_asks_first(
    run: Run, docs: Path, monkeypatch: pytest.MonkeyPatch, answer: str, left: list[str]
) -> None:
    run("db", "add", "papers", str(docs))
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    said = run("db", "remove", "papers")
    assert "Remove 'papers' and its index? Its files stay as they are. [y/N] " in said.err
    assert said.code == (1 if left else 0)
    assert names(run) == left
    assert docs.is_dir()


def test_nothing_is_asked_about_what_is_not_there(run: Run, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("db", "add", "papers", str(docs))
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    refused = Said(1, "", "vault-sidecar: 'letters' does not exist; 'vault-sidecar db list' names the databases.\n")
    assert run("db", "remove", "letters") == refused
    assert run("db", "remove", "letters", "--yes") == refused


def test_one_file_is_no_files(run: Run, place: Place) -> None:
    database = {"db": "papers", "folder": "/papers", "problem": None, "loaded": True}
    counts = {"files": {"keyword": 1, "skipped": 0}, "chunks": {"total": 1, "vector": 0}}
    more = {"files": {"keyword": 1000, "skipped": 1}, "chunks": {"total": 2000, "vector": 2000}}
    with honest_daemon(place.state) as twin:
        twin.answers["/admin/databases"] = (
            200, {"databases": [database | counts, database | more], "databases_problem": None}
        )  # fmt: skip
        assert run("db", "list").out.splitlines() == [
            "papers  /papers  1 file, 1 passage, 0 by meaning",
            "papers  /papers  1,000 files, 2,000 passages, 2,000 by meaning, 1 left out",
        ]


def test_a_query_that_is_no_utf_8_is_a_query(run: Run, place: Place) -> None:
    """Terminals and scripts of other times send one."""
    with honest_daemon(place.state) as twin:
        twin.answers["/admin/search"] = (200, {"mode": "keyword", "results": []})
        assert run("search", "caf\udce9", "--mode", "keyword").out == "no note matches\n"
        assert twin.requests[-1][0].startswith("/admin/search?q=caf%E9&")
