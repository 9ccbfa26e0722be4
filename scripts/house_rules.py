"""Rules of this repository that no other tool checks. `lock`: the lock files fit pyproject.toml and package.json.
`words`: no file says where packages come from, which is every machine's own business."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
RUNTIME, DEV = "requirements.txt", "requirements-dev.txt"
NODE_PARTS = ("tests/js", "plugin-bridge")

# put together here, so that this file passes its own rule
HOSTS = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("pypi", "org"),
            ("files", "pythonhosted", "org"),
            ("registry", "npmjs", "org"),
            ("registry", "yarnpkg", "com"),
            ("deb", "debian", "org"),
            ("conda", "anaconda", "org"),
        )
    )
)


def lock() -> list[str]:
    """Mistakes in the lock files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = {RUNTIME: project["project"]["dependencies"]}
    wanted[DEV] = wanted[RUNTIME] + project["dependency-groups"]["dev"]
    mistakes: list[str] = []
    locked = {name: _locked((ROOT / name).read_text("utf-8"), name, mistakes) for name in wanted}
    for name, requirements in wanted.items():
        for requirement in map(Requirement, requirements):
            versions = locked[name].get(canonicalize_name(requirement.name), set())
            if not versions or not all(requirement.specifier.contains(v, prereleases=True) for v in versions):
                mistakes.append(f"{name}: {requirement} is not locked; run scripts/lock")
    for package, versions in locked[RUNTIME].items():
        if locked[DEV].get(package) != versions:
            mistakes.append(f"{DEV}: {package} differs from {RUNTIME}; run scripts/lock")
    return mistakes + [mistake for part in NODE_PARTS for mistake in _node_lock(part)]


def _node_lock(part: str) -> list[str]:
    """Mistakes in the lock file of one of the Node parts."""
    wanted = json.loads((ROOT / part / "package.json").read_text("utf-8"))
    name = f"{part}/package-lock.json"
    packages = json.loads((ROOT / name).read_text("utf-8"))["packages"]
    kinds = ("dependencies", "devDependencies")
    is_other = any(packages[""].get(kind) != wanted.get(kind) for kind in kinds)
    mistakes = [f"{name}: does not fit package.json; run scripts/lock"] * is_other
    for path, package in packages.items():
        if path and "integrity" not in package:
            mistakes.append(f"{name}: {path} has no hash")
        if "resolved" in package:
            mistakes.append(f"{name}: {path} says where it comes from; run scripts/lock")
    return mistakes


def _locked(text: str, name: str, mistakes: list[str]) -> dict[str, set[Version]]:
    """Package to versions; there may be one version for older Pythons and one for newer."""
    found: dict[str, set[Version]] = {}
    for entry in re.split(r"(?m)^(?=\S)", text):
        if not entry or entry.startswith("#"):
            continue
        pinned = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", entry)
        if pinned is None or "--hash=sha256:" not in entry:
            mistakes.append(f"{name}: {entry.splitlines()[0]!r} is no exact version with a hash")
            continue
        found.setdefault(canonicalize_name(pinned[1]), set()).add(Version(pinned[2]))
    return found


def words() -> list[str]:
    """Files that name a package registry's host."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    mistakes: list[str] = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if HOSTS.search(line):
                mistakes.append(f"{name}:{number}: names the host of a package registry")
    return mistakes


def main(argv: list[str]) -> int:
    """Run one rule; print what breaks it."""
    rules: dict[str, Callable[[], list[str]]] = {"lock": lock, "words": words}
    if len(argv) != 1 or argv[0] not in rules:
        print(f"usage: house_rules.py {'|'.join(rules)}", file=sys.stderr)
        return 2
    mistakes = rules[argv[0]]()
    for mistake in mistakes:
        print(mistake)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
