"""The benchmark beside other products, with a product that is a few lines of Python."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.foreign import Failed, Home, Server, text_of
from scripts.peers import Product, Result, Session, measure, names_probe, ratio, shows, table, version_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

GREP = """
import json, os, pathlib, subprocess, sys
vault = pathlib.Path(sys.argv[1])
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
print("not a message for the client, but a notice", file=sys.stderr)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}), flush=True)
    answer = {}
    if asked["method"] == "tools/call":
        query = asked["params"]["arguments"]["query"]
        if query == "die":
            sys.exit(1)
        if query == "surroundings":
            text = json.dumps({**os.environ, "child": child.pid})
        else:
            text = " ".join(str(p) for p in vault.rglob("*.md") if all(w in p.read_text() for w in query.split()))
        answer = {"content": [{"type": "text", "text": text}], "isError": query == "fail"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


@contextmanager
def grep(home: Home, vault: Path) -> Iterator[Session]:
    """A product that finds notes by reading them all."""
    with home.server(sys.executable, "-c", GREP, str(vault)) as server:
        search = asking(server)
        yield Session("1.0", 0.5, search, lambda word: names_probe(search(word)), server.pid)


def asking(server: Server) -> Callable[[str], str]:
    return lambda query: server.tool("search", query=query)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "Hedge.md").write_text("blackbirds nest in the hedge behind the house")
    return folder


def test_a_product_is_measured_on_a_copy_and_the_vault_is_left_alone(tmp_path: Path, vault: Path) -> None:
    result = measure(Product("grep", "", "", "", grep), vault, tmp_path / "scratch", ["nest in", "hedge", "no such"])
    assert result.failure == ""
    assert result.figures["index from cold, s"] == 0.5
    assert result.figures["searches with a hit, %"] == pytest.approx(200 / 3)
    assert 0 < result.figures["search p50, ms"] <= result.figures["search p95, ms"]
    assert result.figures["save to found p50, ms"] > 0
    assert result.figures["memory, MB"] > 5  # two Pythons
    assert [path.name for path in vault.iterdir()] == ["Hedge.md"]


@pytest.mark.parametrize(("query", "reason"), [("die", "has ended"), ("fail", "the tool failed")])
def test_a_product_that_fails_has_a_reason_and_no_figures(tmp_path: Path, vault: Path, query: str, reason: str) -> None:
    result = measure(Product("grep", "", "", "", grep), vault, tmp_path / "scratch", [query])
    assert reason in result.failure
    assert not result.figures


def test_a_command_that_fails_or_hangs_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.run(sys.executable, "-c", "print('done')") == "done\n"
    with pytest.raises(Failed, match="ended with 3 and said: no such vault"):
        home.run(sys.executable, "-c", "print('no such vault'); raise SystemExit(3)")
    hasty = Home(tmp_path / "hasty", limit_s=0.2)
    with pytest.raises(Failed, match=r"did not end within"):
        hasty.run(sys.executable, "-c", "import time; time.sleep(600)")


def test_a_foreign_program_knows_nothing_of_the_person(
    tmp_path: Path, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMD_CONFIG_DIR", "/the/persons/own")
    home = Home(tmp_path / "home", ITS_SWITCH="off")
    with home.server(sys.executable, "-c", GREP, str(vault)) as server:
        surroundings = json.loads(asking(server)("surroundings"))
    assert "QMD_CONFIG_DIR" not in surroundings
    assert surroundings["ITS_SWITCH"] == "off"
    for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TMPDIR"):
        assert Path(surroundings[variable]).is_relative_to(tmp_path / "home")


def test_what_a_program_started_ends_with_it(tmp_path: Path, vault: Path) -> None:
    with Home(tmp_path / "home").server(sys.executable, "-c", GREP, str(vault)) as server:
        child = os.pidfd_open(json.loads(asking(server)("surroundings"))["child"])
        assert select.select([child], [], [], 0)[0] == []  # it runs
    assert select.select([child], [], [], 60)[0] == [child]
    os.close(child)


def test_an_error_of_the_protocol_is_no_answer() -> None:
    with pytest.raises(Failed, match=r"refused.*no such tool"):
        text_of({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such tool"}})


@pytest.mark.parametrize(
    ("answer", "is_shown"),
    [
        ("1 result\nFreshness probe.md\n  a walk of [fresh1word] in the rain", True),
        ("1 result\nFreshness probe.md\n  a walk of fresh0word in the rain", False),
        ('1 result for "fresh1word"\nFreshness probe.md\n  a walk', False),
        ("1 result\nOther.md\n  fresh1word", False),
    ],
    ids=["new text", "text of the last save", "the query alone", "another note"],
)
def test_our_answer_counts_when_it_quotes_the_saved_text(answer: str, is_shown: bool) -> None:
    assert shows(answer, "fresh1word") is is_shown


def test_the_probe_is_known_by_path_or_link() -> None:
    assert names_probe('"file_path": "Freshness probe.md"')
    assert names_probe("#a1b2c3 100% notes/freshness-probe.md")
    assert not names_probe("no results for fresh1word")


def test_versions_are_read_from_what_programs_print() -> None:
    assert version_in("qmd 2.8.3 (a1b2c3d)") == "2.8.3"
    assert version_in("Basic Memory version: 0.24.1") == "0.24.1"
    assert version_in("?") == "?"


def test_ratios_are_to_the_first_product() -> None:
    results = [
        Result("ours", "", figures={"index from cold, s": 2.0, "searches with a hit, %": 100.0}),
        Result("broken", "", failure="it ended"),
        Result("theirs", "", figures={"index from cold, s": 9.0, "searches with a hit, %": 90.0}),
    ]
    assert [line.split() for line in table(results)] == [
        ["ours", "theirs"],
        ["index", "from", "cold,", "s", "2.0", "9.0", "(4.5×)"],
        ["searches", "with", "a", "hit,", "%", "100.0", "90.0"],
    ]
    assert (ratio(1, 4), ratio(4, 1), ratio(1234, 1)) == ("0.25×", "4.0×", "1,234×")
    assert table(results[1:]) == []  # without ours there is nothing to compare with
