"""The short commands, against a daemon's twin on a real socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

import pytest

from sidecar.bridge import endpoint, private_files
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.token import new_token
from sidecar.bridge.token_store import FileStore
from tests.bridge.peers import Honest, Stranger, honest_daemon, http_answer
from tests.cli.conftest import Place, Said

Run = Callable[..., Said]

STATUS: dict[str, Any] = {
    "phase": "ready",
    "url": "http://127.0.0.1:24783/mcp",
    "port": 24783,
    "pid": 4711,
    "version": "0.1.0",
    "vault": "/home/me/My Notes",
    "owner": "auto",
    "relays": 2,
    "generation": 1037,
    "settled": True,
    "progress": {"done": 0, "total": 0},
    "notes": {"total": 1000, "keyword": 998, "vector": 990, "skipped": 2},
    "chunks": {"total": 4321, "vector": 4000},
    "skipped": [{"path": "Big\x1b[31m.md", "reason": "larger than 32 MiB"}, {"path": "a.md", "reason": "a link"}],
    "watching": "inotify",
    "embedder": "e5@1571fc982750.1/384",
    "backend": "embedded",
    "vectors": "ready",
    "databases": [],
    "databases_problem": None,
    "knowledge_problem": None,
    "allow_writes": False,
    "clients": [{"agent": "claude-code/2", "token": "local", "last_seen": "2026-11-30T11:12:00Z"}],
    "last_refused": {"reason": "wrong_token", "status": 401, "agent": "curl", "at": "2026-11-30T11:12:00Z"},
    "last_problem": None,
}


@pytest.fixture
def daemon(place: Place) -> Generator[Honest]:
    with honest_daemon(place.state) as twin:
        twin.answers["/admin/status"] = (200, STATUS)
        yield twin


# status


def test_status_as_json_is_what_the_daemon_says(run: Run, daemon: Honest) -> None:
    said = run("status", "--json")
    assert said.code == 0
    assert json.loads(said.out) == STATUS


def test_status_without_a_daemon_has_the_same_keys_and_code_1(run: Run, place: Place) -> None:
    said = run("status", "--json")
    assert said.code == 1
    facts = json.loads(said.out)
    assert set(facts) == set(STATUS) - {"settled", "progress", "watching"}
    assert facts["phase"] == "stopped"
    assert facts["vault"] == str(place.vault)
    assert said.err == ""


def test_status_for_people_is_laid_out_and_holds_no_control_characters(run: Run, daemon: Honest) -> None:
    said = run("status")
    assert said.code == 0
    assert said.out.splitlines() == [
        "vault-sidecar is ready",
        "  vault       /home/me/My Notes",
        "  address     http://127.0.0.1:24783/mcp",
        "  process     4711, version 0.1.0, started as auto",
        "  notes       1,000, of which 998 searchable, 990 by meaning",
        "  chunks      4,321, of which 4,000 have a vector",
        "  vectors     ready",
        "  embedder    e5@1571fc982750.1/384",
        "  generation  1,037",
        "  watching    inotify",
        "  skipped     Big\\u001b[31m.md: larger than 32 MiB",
        "              a.md: a link",
        "  clients     2 over stdio",
        "              claude-code/2, last seen 2026-11-30T11:12:00Z",
        "  refused     wrong_token (401) at 2026-11-30T11:12:00Z, curl",
    ]


def test_status_says_that_clients_may_write(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/status"] = (200, STATUS | {"allow_writes": True})
    assert "  writes      allowed" in run("status").out.splitlines()


def test_status_says_that_the_registry_can_not_be_used(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/status"] = (200, STATUS | {"knowledge_problem": "knowledge.db is damaged."})
    assert "  knowledge   knowledge.db is damaged." in run("status").out.splitlines()


def test_status_while_indexing_says_how_far(run: Run, daemon: Honest) -> None:
    progress = {"done": 430, "total": 1000}
    daemon.answers["/admin/status"] = (200, STATUS | {"phase": "indexing", "progress": progress})
    assert run("status").out.splitlines()[0] == "vault-sidecar is indexing: 430 of 1,000 notes"


def test_status_lists_the_first_skipped_notes_and_counts_the_rest(run: Run, daemon: Honest) -> None:
    skipped = [{"path": f"{n}.md", "reason": "a link"} for n in range(1234)]
    daemon.answers["/admin/status"] = (200, STATUS | {"skipped": skipped})
    lines = run("status").out.splitlines()
    assert "              9.md: a link" in lines
    assert "              and 1,224 more; --json lists all" in lines


def test_status_of_a_stopped_daemon_says_how_to_start_it(run: Run, place: Place) -> None:
    said = run("status")
    assert said.code == 1
    assert said.out.splitlines()[0] == "vault-sidecar is stopped"
    assert "vault-sidecar serve" in said.out


def test_a_stranger_on_the_port_is_an_error_and_hears_no_key(run: Run, place: Place, daemon: Honest) -> None:
    """D09."""
    with Stranger(lambda _: http_answer({})) as stranger:
        endpoint.write(place.state, endpoint.of_this_process(stranger.port, daemon.instance, "0"))
        leaves = [["status"], ["search", "x"], ["index", "rebuild"], ["stop"], ["endpoint"], ["port", "set", "25000"]]
        leaves += [["token", "list"], ["token", "rotate"], ["token", "add", "bob"], ["token", "remove", "bob"]]
        for leaf in leaves:
            said = run(*leaf)
            assert said.code == 1
            assert said.out == ""
            assert "is not this vault's daemon" in said.err
    assert stranger.connections == len(leaves)
    assert not (place.state / "settings.json").exists()
    assert daemon.key not in stranger.heard


# search

HITS = [
    {"id": "path:A.md", "title": "A", "path": "Folder/A.md", "line": 7, "snippet": "some  \n text", "score": 2.5},
    {"id": "path:B.md", "title": "B\x1b]0;x\x07", "path": "B.md", "line": 1, "snippet": None, "score": 1.0},
]


def test_search_prints_ranked_notes_without_control_characters(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/search"] = (200, {"mode": "hybrid", "results": HITS})
    said = run("search", "плод & root", "-k", "2")
    assert said.code == 0
    assert said.out.splitlines() == [
        "  1. A",
        "     Folder/A.md:7",
        "     some text",
        "  2. B\\u001b]0;x\\u0007",
        "     B.md:1",
    ]
    assert daemon.requests[-1][0] == "/admin/search?q=%D0%BF%D0%BB%D0%BE%D0%B4+%26+root&k=2&mode=hybrid"


def test_a_search_that_only_keywords_answered_says_so(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/search"] = (200, {"mode": "keyword", "results": HITS})
    assert run("search", "x").err.startswith("keywords only: the vector index is not available")
    assert run("search", "x", "--mode", "keyword").err == ""


def test_search_as_json_is_the_daemons_answer(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/search"] = (200, {"mode": "keyword", "results": HITS})
    assert json.loads(run("search", "x", "--json").out)["results"] == HITS


def test_a_long_snippet_is_cut(run: Run, daemon: Honest) -> None:
    hits = [HITS[0] | {"snippet": "word " * 1000}]
    daemon.answers["/admin/search"] = (200, {"mode": "keyword", "results": hits})
    assert len(run("search", "x").out.splitlines()[-1]) < 220


def test_no_match_is_an_answer(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/search"] = (200, {"mode": "hybrid", "results": []})
    assert run("search", "x") == Said(0, "no note matches\n", "")


def test_the_daemons_refusal_is_one_line_on_stderr(run: Run, daemon: Honest) -> None:
    message = "query: at most 2,000 characters.\nk: must be a whole number."
    daemon.answers["/admin/search"] = (400, {"error": "bad_arguments", "message": message})
    said = run("search", "x")
    assert (said.code, said.out) == (1, "")
    assert said.err == "vault-sidecar: query: at most 2,000 characters.; k: must be a whole number.\n"


def test_search_without_a_daemon_says_how_to_start_one(run: Run, place: Place) -> None:
    said = run("search", "x")
    assert said == Said(1, "", "vault-sidecar: no daemon serves this vault; start one with 'vault-sidecar serve'\n")


# token


def test_token_show_prints_the_token_alone(run: Run, place: Place) -> None:
    token = new_token()
    KeyringStore(place.state, place.keyring).store(token)
    assert run("token", "show") == Said(0, f"{token}\n", "")
    assert json.loads(run("token", "show", "--json").out) == {"token": token, "kept_in": "the system's keyring"}


def test_token_show_finds_the_file_where_the_keyring_failed(run: Run, place: Place) -> None:
    token = new_token()
    FileStore(place.state, place.vault).store(token)
    assert run("token", "show").out == f"{token}\n"


def test_token_show_makes_no_token(run: Run, place: Place) -> None:
    said = run("token", "show")
    assert said.code == 1
    assert "has no token yet; 'vault-sidecar serve' makes one" in said.err
    assert place.keyring.kept == {}


def test_token_show_uses_the_variable_that_the_settings_name(
    run: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.state / "config.toml").write_text('[http]\nbearer_token_env = "MY_TOKEN"\n')
    said = run("token", "show")
    assert said.code == 2
    assert "MY_TOKEN, which is not set" in said.err, "T20"
    monkeypatch.setenv("MY_TOKEN", "x" * 40)
    assert run("token", "show").out == "x" * 40 + "\n"
    monkeypatch.setenv("MY_TOKEN", "s3cr3t")
    said = run("token", "show")
    assert said.code == 2, "T19"
    assert "s3cr3t" not in said.err


def test_a_token_file_that_is_a_link_is_refused(run: Run, place: Place) -> None:
    """L07."""
    (place.state / "token").symlink_to(place.vault / "elsewhere")
    said = run("token", "show")
    assert (said.code, said.out) == (1, "")
    assert "token is a link" in said.err


# index rebuild and stop


def test_rebuild_waits_until_the_index_has_settled(run: Run, daemon: Honest) -> None:
    steps = [
        STATUS | {"settled": False, "phase": "scanning", "generation": 1037},
        STATUS | {"settled": False, "phase": "indexing", "generation": 1040, "progress": {"done": 3, "total": 1000}},
        STATUS | {"settled": True, "generation": 1050},
    ]
    daemon.answers["/admin/rebuild"] = (200, {"rebuilding": True, "generation": 1037})
    daemon.series["/admin/status"] = steps
    said = run("index", "rebuild")
    assert (said.code, said.out) == (0, "")
    lines = said.err.splitlines()
    assert (lines[0], lines[-1]) == ("scanning", "ready: 1,000 notes")
    asked = [path for path, _ in daemon.requests[1:]]
    assert asked == ["/admin/rebuild"] + [f"/admin/status?after={n}&wait_s=0.5" for n in (1037, 1037, 1040)]


def test_rebuild_of_a_vault_that_went_away_ends_with_a_reason(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/rebuild"] = (200, {"rebuilding": True, "generation": 1})
    daemon.answers["/admin/status"] = (200, STATUS | {"settled": False, "phase": "vault unavailable"})
    said = run("index", "rebuild")
    assert said.code == 1
    assert "can't be read now" in said.err


def test_stop_without_a_daemon_is_done_already(run: Run, place: Place) -> None:
    assert run("stop") == Said(0, "", "no daemon serves this vault\n")


def test_stop_waits_no_longer_for_a_daemon_that_died_instead(run: Run, place: Place, daemon: Honest) -> None:
    gone = {"pid": 2**22 + 1, "owner": "serve", "instance": "x"}  # above the largest process id there can be
    private_files.write(place.state / "lock", json.dumps(gone).encode())
    assert run("stop") == Said(0, "", "stopped\n")
    assert daemon.requests[-1][0] == "/admin/stop"
