"""Runs the official conformance suites against a URL and reads what they found."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.node import JS, NODE

PATIENCE_S = 240.0
OLD, NEW = "conformance-0.1", "conformance-0.2"
"""Both are needed: the old one is the released one, the new one knows the newest revision."""

Found = dict[str, list[str]]
"""By scenario, the ids of its checks."""


@dataclass(frozen=True)
class Outcome:
    """What one run found. A check that was skipped, or only informs, counts nowhere."""

    label: str
    exit_code: int
    passed: Found
    failed: Found
    warned: Found
    output: str

    def figures(self, expected: Iterable[str]) -> str:
        """One line for people, without the scenarios that are expected to fail."""
        left_out = self.failed.keys() & set(expected)
        scenarios = (self.passed | self.failed | self.warned).keys() - left_out
        good = scenarios - self.failed.keys() - self.warned.keys()
        passed, failed, warned = (
            sum(len(ids) for scenario, ids in found.items() if scenario in scenarios)
            for found in (self.passed, self.failed, self.warned)
        )
        line = f"{self.label}: {len(good)} of {len(scenarios)} scenarios, {passed} of {passed + failed + warned} checks"
        return f"{line}; {len(left_out)} scenarios fail as expected" if left_out else line


def version(suite: str) -> str:
    """The version of a suite that is installed."""
    return json.loads((JS / "node_modules" / suite / "package.json").read_text())["version"]


async def run(suite: str, revision: str, url: str, folder: Path, *which: str) -> Outcome:
    """Run a suite's server scenarios, by default all that a revision has; its files go to `folder`."""
    # the old suite has one set of its own, for 2025-11-25
    chosen = which or (() if suite == OLD else ("--requirements", revision))
    command = [NODE, JS / "node_modules" / suite / "dist" / "index.js", "server", "--url", url, "-o", folder, *chosen]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            output, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    found = {status: _by_status(folder, status) for status in ("SUCCESS", "FAILURE", "WARNING")}
    label = f"{version(suite)}, {revision}"
    return Outcome(label, process.returncode, *found.values(), output.decode())


def _by_status(folder: Path, status: str) -> Found:
    """The checks with a status, from the files that a suite leaves for each scenario."""
    found: Found = {}
    for path in sorted(folder.glob("server-*/checks.json")):
        named = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)
        assert named, path
        ids = [check["id"] for check in json.loads(path.read_text()) if check["status"] == status]
        if ids:
            found[named[1]] = ids
    return found
