"""`model list`, `model fetch`, `model verify`: the embedding models on this computer.

All vaults share them, so no vault need be named. Nothing here loads a model.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sidecar.bridge.places import refuse_inside, true_path
from sidecar.cli import where
from sidecar.errors import BadConfig
from sidecar.index.embed.facts import FACTS
from sidecar.index.embed.fetch import fetch
from sidecar.index.embed.weights import E5_WEIGHTS, MODELS, MODELS_FOLDER, Part, found, is_present, is_right
from sidecar.vault.paths import printable

Answer = tuple[dict[str, Any], list[str], int]
"""The facts, the same for people line by line, and the exit code."""


def run(args: Namespace) -> int:
    """Do what the command's last word says."""
    actions: dict[str, Callable[[Path], Answer]] = {"list": _list, "fetch": _fetch, "verify": _verify}
    facts, lines, code = actions[args.action](_models_dir(args))
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        for line in lines:
            print(printable(line))
    return code


def _list(models_dir: Path) -> Answer:
    models: list[dict[str, Any]] = []
    lines: list[str] = []
    default = next((name for name in MODELS if is_present(name, models_dir)), None)
    for name, parts in MODELS.items():
        facts = FACTS[name]
        first = next(found(parts[0], models_dir), None) if is_present(name, models_dir) else None
        place = _place(parts[0], first, models_dir) if first else None
        models.append(
            {"name": name, "place": place, "default": name == default, "dim": facts.dim, "languages": facts.languages}
        )
        state = f"here, in {place}" if place else "not here"
        lines += [f"{name:<5}{state}{'; used by default' if name == default else ''}", f"     {facts.languages}"]
    if default is None:
        lines.append("no model is here, so notes are found by their words only; 'vault-sidecar model fetch' gets one")
    return {"models": models}, lines, 0


def _fetch(models_dir: Path) -> Answer:
    right = next((place for place in found(E5_WEIGHTS, models_dir) if is_right(E5_WEIGHTS, place)), None)
    is_new = right is None
    if right is None:
        right = fetch(models_dir, lambda line: print(line, file=sys.stderr))
    place = _place(E5_WEIGHTS, right, models_dir)
    line = f"e5 is now here, in {place}; a running daemon takes it at its next start" if is_new else f"e5 is in {place}"
    return {"model": E5_WEIGHTS.model, "place": place, "fetched": is_new}, [line], 0


def _verify(models_dir: Path) -> Answer:
    """A damaged file does no harm where another copy of it is good."""
    files: list[dict[str, Any]] = []
    lines: list[str] = []
    bad: list[Part] = []
    for name, parts in MODELS.items():
        if not is_present(name, models_dir):
            lines.append(f"{name:<5}not here")
            continue
        for part in parts:
            copies = [(place, is_right(part, place)) for place in found(part, models_dir)]
            for place, is_good in copies:
                where_it_is = _place(part, place, models_dir)
                files.append({"model": name, "file": part.name, "place": where_it_is, "ok": is_good})
                lines.append(f"{name:<5}{part.name} in {where_it_is}: {'good' if is_good else 'DAMAGED'}")
            if not any(is_good for _, is_good in copies):
                bad.append(part)
                lines.append(f"     {part.cure}")
    ok = bool(files) and not bad
    return {"ok": ok, "files": files}, lines, 0 if ok else 1


def _place(part: Part, place: Path, models_dir: Path) -> str:
    return "the models folder" if place.parent == models_dir else f"the package {part.package}"


def _models_dir(args: Namespace) -> Path:
    """Beside the state folders. Blocks.

    Raises:
        BadConfig: that would be inside a vault.
    """
    root = true_path(where.state_root(args))
    try:
        vault = where.vault_of(args)
    except BadConfig:  # none is named and none is near, and none is needed
        vault = None
    if vault is not None:
        refuse_inside(root, vault)
    return root / MODELS_FOLDER
