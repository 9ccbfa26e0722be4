"""The registry end to end: a real daemon with the real model, commands beside it, and its end by force."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sidecar.index.embed.weights import is_present
from tests.daemons import environment
from tests.e2e.served import PATIENCE_S, Served, serve, wait_for_vectors
from tests.lab import wait_until
from tests.services.knowledge.examples import SKILL, pattern, procedure, trace

QUESTIONS = [
    ("kp_search_knowledge", "batch job that loads data aborts at two in the morning", "import"),
    ("kp_search_knowledge", "verify a claim against independent references", "Gather"),
    ("kp_search_knowledge", "shipment has not arrived, money back", "Refund"),
    ("kp_search_skill", "inspect the code of a colleague before it is merged", "code-review"),
]


def call(served: Served, tool: str, **arguments: Any) -> Any:
    answer = served.call(tool, **arguments)
    assert not answer.is_error, answer.text
    return json.loads(answer.text)


def is_found(served: Served, tool: str, question: str, word: str) -> bool:
    """Whether the best answer to a question holds a word."""
    return word in json.dumps([item["content"] for item in call(served, tool, query=question)[:1]])


def command(served: Served, vault: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "sidecar", "knowledge", *argv, "--vault", str(vault), "--state", str(served.state)]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, env=environment(), check=False)


def test_contributions_are_found_by_other_words_also_after_a_kill(tmp_path: Path) -> None:
    if not is_present("e5", Path("/nonexistent")):
        pytest.skip("the e5 weights are not installed on this system")
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "Note.md").write_text("# Note\nA note.\n")
    state = tmp_path / "state"
    with serve(vault, state, embedder="e5") as served:
        wait_for_vectors(served)
        assert call(served, "kp_contribute_skill", skill_md_content=SKILL)["id"].startswith("skill-")
        for unit in (trace(), pattern(), procedure()):
            assert call(served, "kp_contribute_knowledge", unit=unit, visibility="network")["quality_score"] >= 0.75
        for tool, question, word in QUESTIONS:
            # a contribution waits for its vector, but not for ever; then it is made a moment later
            wait_until(partial(is_found, served, tool, question, word), within_s=PATIENCE_S)
        served.daemon.kill()
    with serve(vault, state, embedder="e5") as served:
        wait_for_vectors(served)
        # the registry takes in its own vectors, which may be a moment later
        wait_until(partial(is_found, served, *QUESTIONS[0]), within_s=PATIENCE_S)
        for tool, question, word in QUESTIONS:
            assert is_found(served, tool, question, word), question
        listed = json.loads(command(served, vault, "list", "--json").stdout)["items"]
        assert len(listed) == 4
        skill_id = listed[0]["id"]
        assert command(served, vault, "show", skill_id).stdout == SKILL
        assert command(served, vault, "remove", skill_id).returncode == 0
        assert call(served, "kp_search_skill", query="review", min_quality=0) == []
        assert len(command(served, vault, "export").stdout.splitlines()) == 3
