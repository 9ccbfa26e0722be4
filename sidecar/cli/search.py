"""`search`: ranked notes on the terminal, from the running daemon."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Any

from sidecar.bridge.client import LocalClient
from sidecar.cli import where
from sidecar.vault.paths import printable

_WIDEST_SNIPPET = 200


def run(args: Namespace) -> int:
    """Print the notes, best first. No match is an answer, too: exit code 0."""
    with LocalClient(where.find(args).state_dir) as client:
        answer = client.get("/admin/search", q=args.query, k=args.k, mode=args.mode)
    if args.json:
        print(json.dumps(answer, indent=2))
        return 0
    for place, hit in enumerate(answer["results"], 1):
        for line in _lines(place, hit):
            print(printable(line))
    if not answer["results"]:
        print("no note matches")
    if args.mode == "hybrid" and answer["mode"] == "keyword":
        print("keywords only: the vector index is not available; 'vault-sidecar status' says why", file=sys.stderr)
    return 0


def _lines(place: int, hit: dict[str, Any]) -> list[str]:
    snippet = " ".join(str(hit["snippet"] or "").split())
    if len(snippet) > _WIDEST_SNIPPET:
        snippet = snippet[:_WIDEST_SNIPPET].rstrip() + " …"
    lines = [f"{place:>3}. {hit['title']}", f"     {hit['path']}:{hit['line']}"]
    return [*lines, f"     {snippet}"] if snippet else lines
