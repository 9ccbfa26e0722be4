"""From a search to an applied change: a stock client looks and proposes, a person decides on the terminal."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, unpack
from tests.daemons import Daemon, environment
from tests.e2e.conversation import Http, python
from tests.e2e.served import serve, wait_for_vectors
from tests.security.starts import run_first

NOTES = {
    "Projects/Hedge.md": "# Hedge\n\nWe measure on Monday.\n\nSee [[Ladder]].\n",
    "Tools/Ladder.md": "# Ladder\n\nLent to the neighbours until the hedge is measured.\n",
    "now.md": "# Now\n\nThe hedge.\n",
}


def say_nothing(line: str) -> None:
    """Where nobody wants to read about the walk."""


class Walk:
    """One client and one person, with a vault between them."""

    def __init__(self, daemon: Daemon, vault: Path, state_root: Path, say: Callable[[str], None]) -> None:
        self._way = Http(daemon.url.replace("/mcp", "/mcp/library"), daemon.token)
        self._vault = vault
        self._state_root = state_root
        self._say = say

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured result, as the Python SDK hands it over."""
        first = {"tool": "kp_digest_latest", "arguments": {}}  # a conversation makes its first call twice
        heard = asyncio.run(python("auto", self._way, [first, {"tool": tool, "arguments": arguments}]))
        answer = heard["answers"][1]
        assert not answer.get("isError"), answer
        found: dict[str, Any] = answer["structuredContent"]
        assert found == json.loads(answer["content"][0]["text"])
        self._say(f"> {tool} {json.dumps(arguments, ensure_ascii=False)[:200]}")
        self._say(f"  {json.dumps(found, ensure_ascii=False)[:300]}")
        return found

    def type(self, *words: str, answer: str = "") -> str:
        """What the person reads on both streams."""
        places = ("--vault", str(self._vault), "--state", str(self._state_root))
        command = [sys.executable, "-m", "sidecar", *words, *places]
        done = subprocess.run(command, input=answer, capture_output=True, text=True, check=False, cwd=REPOSITORY,
                              env=environment(TZ="UTC"), timeout=120)  # fmt: skip
        assert done.returncode == 0, done
        self._say(f"$ vault-sidecar {' '.join(words)}")
        for line in (done.stdout + done.stderr).splitlines():
            self._say(f"  {line}")
        return done.stdout + done.stderr


def walk(steps: Walk, vault: Path, query: str) -> None:
    """The steps, one built on the other."""
    [best, *_] = steps.call("kp_search", query=query, k=3)["results"]
    note = steps.call("kp_get_note", id=best["id"])
    assert steps.call("kp_related", id=best["id"], k=3)["id"] == note["id"]
    assert steps.call("kp_recent", days=7)["notes"]
    old = (vault / best["path"]).read_text()
    proposed = steps.call(
        "kp_propose", title="Add what was found", rationale="It was missing.",
        files=[{"path": best["path"], "content": f"{old.rstrip()}\n\nThe gooseberry kumquat was found.\n"}],
    )  # fmt: skip
    assert (proposed["status"], proposed["files"]) == ("open", [best["path"]])
    assert steps.call("kp_search", query="gooseberry kumquat", mode="fts")["results"] == []
    assert (vault / best["path"]).read_text() == old

    ending = proposed["id"][-6:]
    assert proposed["id"] in steps.type("proposals", "list")
    said = steps.type("proposals", "apply", ending, answer="y\n")
    assert "+The gooseberry kumquat was found." in said
    assert f"applied {proposed['id']}: changed {best['path']}" in said
    found = steps.call("kp_search", query="gooseberry kumquat", mode="fts")["results"]
    assert [hit["path"] for hit in found] == [best["path"]]

    assert steps.call("kp_digest_latest") == {"digest": None}
    steps.type("digest", "run")
    assert steps.call("kp_digest_latest") == {"digest": None}
    [waiting] = json.loads(steps.type("proposals", "list", "--json"))["proposals"]
    assert waiting["author"] == "librarian"
    steps.type("proposals", "apply", waiting["id"][-8:], "--yes")
    digest = steps.call("kp_digest_latest")["digest"]
    assert digest["path"] == waiting["files"][0]


PATIENT = "from sidecar.index import corpus\ncorpus._OWN_WRITES_S = 60.0\n"
"""A search waits for what was applied however long that takes to be indexed."""


def test_a_client_proposes_and_a_person_applies(tmp_path: Path) -> None:
    for path, text in NOTES.items():
        (tmp_path / "vault" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "vault" / path).write_text(text)
    with serve(tmp_path / "vault", tmp_path / "state", embedder=None, env=run_first(tmp_path, PATIENT)) as served:
        walk(Walk(served.daemon, tmp_path / "vault", served.state, say_nothing), tmp_path / "vault", "hedge Monday")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_same_in_a_vault_of_five_thousand_notes(
    tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vault = unpack(corpora / "vaults/medium.tar.gz", tmp_path / "vault")

    def say(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}")

    with serve(vault, tmp_path / "state", embedder="hash") as served:
        wait_for_vectors(served, within_s=900)
        walk(Walk(served.daemon, vault, served.state, say), vault, "hierarchical notes lookup")
