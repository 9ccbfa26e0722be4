"""`doctor`: looks at everything that a vault's daemon needs, and says what to do about what is wrong.

It repairs nothing and asks the running daemon where there is one. A check is
a function in `CHECKS`; none depends on another.
"""

from __future__ import annotations

import json
from argparse import Namespace

from sidecar.cli.doctor.about_daemon import clock, disk, lock, permissions, port, settings, token, vault, watcher
from sidecar.cli.doctor.about_index import keywords, manifest, model, vectors
from sidecar.cli.doctor.about_registry import knowledge
from sidecar.cli.doctor.scene import Check, Finding, Scene, gathered, looked_at
from sidecar.vault.paths import printable

CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        settings, vault, permissions, disk, clock, lock, port, token, watcher, manifest, keywords, model, vectors,
        knowledge
    )
}  # fmt: skip
"""By the names that are printed, in the order of their lines."""

_MARKS = {"ok": "ok", "note": "note", "wrong": "WRONG"}


def run(args: Namespace) -> int:
    """Check everything. Exit code 1 if something is wrong."""
    with gathered(args) as scene:
        findings = {name: looked_at(check, scene) for name, check in CHECKS.items()}
    ok = all(finding.state != "wrong" for finding in findings.values())
    if args.json:
        checks = [
            {"name": name, "state": found.state, "says": found.says, "do": found.do or None}
            for name, found in findings.items()
        ]
        print(json.dumps({"ok": ok, "running": scene.status is not None, "checks": checks}, indent=2))
    else:
        for line in _lines(findings):
            print(printable(line))
    return 0 if ok else 1


def _lines(findings: dict[str, Finding]) -> list[str]:
    lines: list[str] = []
    for name, found in findings.items():
        lines.append(f"{_MARKS[found.state]:<7}{name:<13}{found.says}")
        if found.do:
            lines.append(f"{'':<20}-> {found.do}")
    wrong = [name for name, found in findings.items() if found.state == "wrong"]
    return [*lines, f"wrong: {', '.join(wrong)}" if wrong else "nothing is wrong"]


__all__ = ["CHECKS", "Finding", "Scene", "run"]
