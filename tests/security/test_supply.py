"""D27: what is locked can be installed by its hashes alone, and is new enough."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.txt"
LEAST_MCP = (2, 3)
"""Far above the release that first refused rebound names."""


def install(venv: Path, lock: Path) -> subprocess.CompletedProcess[str]:
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
    return subprocess.run(
        [*command, "--require-hashes", "-r", str(lock)], capture_output=True, text=True, check=False, timeout=900
    )


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=300)
    return tmp_path / "venv"


def test_d27_the_lock_names_no_index_and_a_new_enough_mcp() -> None:
    lines = LOCK.read_text().splitlines()
    assert not [line for line in lines if re.match(r"\s*(-i|--index-url|--extra-index-url|--find-links|-f)\b", line)]
    [version] = re.findall(r"^mcp==(\d+)\.(\d+)", LOCK.read_text(), re.MULTILINE)
    assert tuple(map(int, version)) >= LEAST_MCP
    pinned = [line for line in lines if re.match(r"[a-z0-9]", line)]
    assert pinned and all("==" in line for line in pinned)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the environment's programs lie elsewhere there")
@pytest.mark.parametrize("lock", [pytest.param(LOCK, id="D27")])
def test_the_lock_installs_by_its_hashes_in_a_clean_environment(venv: Path, lock: Path) -> None:
    done = install(venv, lock)
    assert done.returncode == 0, done.stderr
    run = [str(venv / "bin" / "python"), "-P", "-c", "import aiohttp, chromadb, keyring, mcp, watchfiles"]
    subprocess.run(run, check=True, timeout=300)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the environment's programs lie elsewhere there")
def test_without_the_right_hash_nothing_is_installed(venv: Path, tmp_path: Path) -> None:
    """The control: the hashes are looked at."""
    forged = tmp_path / "forged.txt"
    [one] = re.findall(r"^idna==\S+", LOCK.read_text(), re.MULTILINE)
    forged.write_text(f"{one} --hash=sha256:{'0' * 64}\n")
    done = install(venv, forged)
    assert done.returncode != 0
    assert "DO NOT MATCH" in done.stderr
