"""`scripts/bench titles`: whether kp_search puts the note first whose title is asked for.

The titles are those that one note of the vault alone has. A real daemon is
asked over MCP, by words and by both words and meaning.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Final

from scripts.speed import ARCHIVES, Daemon, corpora_of, daemon, unpack_or_make
from sidecar.index.manifest_file import FILE_NAME
from sidecar.index.manifest_reader import ManifestReader

GATE: Final = 0.95
_ASKED: Final = 100


def unique_titles(state: Path) -> list[tuple[str, str]]:
    """(path, title) of the notes whose title no other note has, in order of their paths."""
    [manifest] = state.rglob(FILE_NAME)
    with closing(ManifestReader(manifest)) as reader:
        notes = [note for path in sorted(reader.paths()) if (note := reader.note(path))]
    count = Counter(note.title.casefold() for note in notes)
    return [(note.path, note.title) for note in notes if count[note.title.casefold()] == 1]


def first_for(running: Daemon, title: str, mode: str) -> str:
    """Path of the first note that kp_search finds."""
    answer = running.call("kp_search", query=title, k=1, mode=mode)
    result = answer["result"]
    assert isinstance(result, dict)
    found = json.loads(result["content"][0]["text"])
    if found["mode"] != mode:
        raise SystemExit(f"{mode} was asked and {found['mode']} served")
    return found["results"][0]["path"] if found["results"] else ""


def measure(vault: Path, state: Path, embedder: str | None, seed: int) -> bool:
    """Ask, print a line for each mode and each miss, and say whether the gate holds."""
    ok = True
    with daemon(vault, state, rag=embedder is not None, embedder=embedder) as running:
        running.wait_until_settled()
        titles = unique_titles(state)
        asked = random.Random(seed).sample(titles, min(_ASKED, len(titles)))
        if embedder:
            running.wait_for_meaning("notes")
        for mode in ("fts", "hybrid") if embedder else ("fts",):
            missed = [(path, title) for path, title in asked if first_for(running, title, mode) != path]
            share = 1 - len(missed) / len(asked)
            ok = ok and share >= GATE
            by = f" with {embedder}" if mode == "hybrid" else ""
            print(f"titles: {len(asked) - len(missed)} of {len(asked)} first, {mode}{by}, out of {len(titles)}")
            for path, title in missed:
                print(f"    {title!r} of {path}")
    return ok


def main(argv: list[str]) -> int:
    """Exit code 1 when the gate is missed."""
    parser = argparse.ArgumentParser(prog="scripts/bench titles", description=__doc__)
    parser.add_argument("--archive", choices=ARCHIVES, default="medium", help="archive of the corpora (default medium)")
    parser.add_argument("--embedder", help="ask for hybrid answers too, with this embedder; its vectors are made first")
    parser.add_argument("--seed", type=int, default=1, help="another choice of titles")
    options = parser.parse_args(argv)
    corpora = corpora_of(parser)
    scratch = Path(tempfile.mkdtemp(prefix="vault-sidecar-titles-"))
    try:
        vault = unpack_or_make(corpora, options.archive, scratch)
        ok = measure(vault, scratch / "state", options.embedder, options.seed)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"titles: the gate of {GATE:.0%} {'holds' if ok else 'is MISSED'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
