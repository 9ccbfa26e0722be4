"""`digest run` as a person types it: through the daemon that runs, or through one that is started for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.daemons import environment
from tests.e2e.served import PATIENCE_S, serve


class Person:
    """Types commands about one vault."""

    def __init__(self, vault: Path, state: Path) -> None:
        self._places = ["--vault", str(vault), "--state", str(state)]

    def types(self, *argv: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sidecar", *argv, *self._places]
        env = environment(TZ="UTC")
        return subprocess.run(command, env=env, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S)

    def facts(self, *argv: str) -> dict[str, Any]:
        """A command's JSON."""
        done = self.types(*argv, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("One new note.\n")
    return vault


def test_the_running_daemon_makes_it_once_for_each_day(tmp_path: Path, vault: Path) -> None:
    person = Person(vault, tmp_path / "state")
    with serve(vault, tmp_path / "state"):
        said = person.types("digest", "run", "--now", "2026-11-30T06:00")
        assert (said.returncode, said.stderr) == (0, "")
        assert said.stdout.startswith("Proposed the digest of 2026-11-30, 1 note: 'vault-sidecar proposals apply ")
        again = person.types("digest", "run", "--now", "2026-11-30T23:59:59Z")
        assert (again.returncode, again.stdout) == (0, "The digest of 2026-11-30 exists already.\n")
        later = person.types("digest", "run", "--now", "2026-12-01")
        assert (later.returncode, later.stdout) == (0, "Nothing new since the last digest.\n")


def test_without_a_daemon_one_is_started_in_the_background(tmp_path: Path, vault: Path) -> None:
    person = Person(vault, tmp_path / "state")
    try:
        made = person.facts("digest", "run")
        assert (vault / ".kp/proposals" / made["proposal"]).is_dir()
        assert person.facts("digest", "run")["said"].endswith(" exists already.")
    finally:
        assert person.types("stop").returncode == 0


@pytest.mark.parametrize("when", ["soon", "2026-13-01", "06:00"])
def test_what_is_no_time_is_a_usage_error(tmp_path: Path, vault: Path, when: str) -> None:
    refused = Person(vault, tmp_path / "state").types("digest", "run", "--now", when)
    assert refused.returncode == 2
    assert "must be a time such as 2026-11-30" in refused.stderr
    assert not (tmp_path / "state").exists()
