"""How a database is told to people."""

from __future__ import annotations

from typing import Any


def line_of(facts: dict[str, Any]) -> str:
    """One database on one line."""
    line = f"{facts['db']}  {facts['folder']}"
    if "files" in facts:
        files, chunks = facts["files"], facts["chunks"]
        line += f"  {_counted(files['keyword'], 'file')}, {_counted(chunks['total'], 'passage')}"
        line += f", {chunks['vector']:,} by meaning"
        line += f", {files['skipped']:,} left out" if files["skipped"] else ""
    return line + (f"  ({facts['problem']})" if facts["problem"] else "")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
