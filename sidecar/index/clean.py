"""What of a note's body is worth finding: its rows without pictures, drawings, queries and hidden text.

Left out are
* `data:` addresses and other long base64,
* dataview and dataviewjs blocks: a query is not the answer it shows,
* of Excalidraw drawings everything but their text elements and what was written beside them,
* `%%` comments with their text, for the editor hides them too. A last `%%` without a partner is text,
* block ids (`^a1b2c3`) at the end of a line, and NUL characters.

Headings, tables, code and HTML stay as they are written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sidecar.vault.blocks import Kind, Line, outline

# 4 Mi characters, twice the largest real note we met: about 5,000 chunks. What stands behind them in one note can be
# read and found by its letters, not ranked.
INDEXED_CHARACTERS = 4 * 1024 * 1024

_LEFT_OUT_FENCES = frozenset({"dataview", "dataviewjs", "compressed-json"})
_DRAWING_SECTIONS = frozenset({"Drawing", "Embedded Files", "Element Links"})
_DATA_ADDRESS = re.compile(r"data:[a-zA-Z]{1,20}/[\w.+-]{1,80}(?:;[\w=.+-]{1,80}){0,4},[^\s)\"'<>\]]*+")
_LONG = 200  # characters without a blank from which a run may be encoded data
_LONG_RUN = re.compile(rf"[A-Za-z0-9+/=_-]{{{_LONG},}}+")
_SHORTEST_ENCODED = 60  # the shortest full row of a key, a certificate or an encoded file
_ENCODED_ROW = re.compile(rf"\s*[A-Za-z0-9+/]{{{_SHORTEST_ENCODED},}}+={{0,2}}\s*")
_MARKER = re.compile("%%|`+")


@dataclass(slots=True)
class Row:
    """One remaining line. `number` is its 1-based line in the body; `level` and `heading` as in `Line`."""

    number: int
    text: str
    kind: Kind
    level: int = 0
    heading: str = ""


def rows(body: str) -> list[Row]:
    """The rows of a body, in order. Removed lines are missing, emptied ones are blank, of blank ones one is kept."""
    body = body[:INDEXED_CHARACTERS]
    if "\0" in body:
        body = body.replace("\0", "")
    drawing = "# Text Elements" in body and "# Drawing" in body
    changed = _without_comments(body, keep_hidden=drawing) if "%%" in body else {}
    kept: list[Row] = []
    before: Line | None = None
    blank = False  # whether the last kept row is
    skipped_level = 0  # of the drawing's section that is being left out
    for number, line in enumerate(outline(body), 1):
        kind, text = line.kind, body[line.start : line.end]
        if drawing:
            skipped_level = _skipped_level(line, skipped_level)
            if skipped_level or text.startswith("==⚠"):
                before = line
                continue
        query = (kind == "code" or kind == "fence") and _is_query(line, before)
        before = line
        if query:
            continue
        heading = line.heading
        if number in changed:
            text, heading = changed[number], _without_pairs(heading)
        text = _plain(text, kind) if len(text) >= _SHORTEST_ENCODED or "^" in text else text.rstrip()
        if not text:
            if kind == "code" and line.end > line.start:
                continue
            if kind != "code":
                if blank or number in changed:  # a row that was all comment is gone, not blank
                    continue
                kind = "blank"
        blank = kind == "blank"
        kept.append(Row(number, text, kind, line.level, heading))
    return kept


def _skipped_level(line: Line, skipped: int) -> int:
    """The level of the drawing's section that this line belongs to, 0 if it is kept."""
    if not line.level:
        return skipped
    if line.heading in _DRAWING_SECTIONS:
        return line.level
    return 0 if line.level <= skipped else skipped


def _is_query(line: Line, before: Line | None) -> bool:
    """Whether the line of a fence is left out; a closing run is told by the line before it."""
    info = line.info
    if line.kind == "fence" and not info and before is not None and before.kind in ("code", "fence"):
        info = before.info
    return bool(info) and info.split(None, 1)[0].lower() in _LEFT_OUT_FENCES


def _plain(text: str, kind: Kind) -> str:
    """Without encoded data and block id."""
    if len(text) >= _SHORTEST_ENCODED:
        if "data:" in text:
            text = _DATA_ADDRESS.sub("", text)
        if len(text) >= _LONG and max(map(len, text.split()), default=0) >= _LONG:
            text = _LONG_RUN.sub(lambda run: "" if _looks_encoded(run.group()) else run.group(), text)
        if " " not in text and _ENCODED_ROW.fullmatch(text) and _looks_encoded(text):
            return ""
    if "^" in text and kind == "text":
        text = _without_block_id(text)
    return text.rstrip()


def _looks_encoded(run: str) -> bool:
    return any(char.isdigit() for char in run) and not run.islower() and not run.isupper()


def _without_block_id(text: str) -> str:
    """Without a final `^id`; it stands behind a blank or alone in its row."""
    before, _, name = text.rstrip().rpartition("^")
    is_id = name.isascii() and name.replace("-", "").isalnum() and len(name) <= 100
    return before if is_id and (not before or before[-1] in " \t") else text


def _without_comments(body: str, *, keep_hidden: bool) -> dict[int, str]:
    """New text, by line number, of the lines that `%%` comments touch; empty where nothing is left.

    Markers in code do not count. `keep_hidden` takes away the markers alone: drawings hide their text elements.
    """
    found = {number: marks for number, line in enumerate(outline(body), 1) if (marks := _markers(body, line))}
    left = sum(map(len, found.values()))
    if left % 2:
        found[max(found)].pop()
    changed: dict[int, str] = {}
    hidden = False
    for number, line in enumerate(outline(body), 1):
        marks = found.get(number)
        if not marks:
            if hidden and not keep_hidden:
                changed[number] = ""
            continue
        pieces: list[str] = []
        at = line.start
        for mark in [*marks, line.end]:
            if keep_hidden or not hidden:
                pieces.append(body[at:mark])
            at = mark + 2
            hidden = not hidden
        hidden = not hidden  # the end of the line is no marker
        changed[number] = "".join(pieces)
    return changed


def _markers(body: str, line: Line) -> list[int]:
    """Offsets of the comment markers of a line outside inline code."""
    if line.kind not in ("text", "heading") or body.find("%%", line.start, line.end) < 0:
        return []
    found = list(_MARKER.finditer(body, line.start, line.end))
    ticks = sum(mark.group()[0] == "`" for mark in found)
    marks: list[int] = []
    code = False
    for mark in found:
        if mark.group() == "%%":
            if not code:
                marks.append(mark.start())
        else:
            ticks -= 1
            code = not code and ticks > 0  # the last tick without a partner opens nothing
    return marks


def _without_pairs(heading: str) -> str:
    parts = heading.split("%%")
    return "".join(parts[::2]).strip() if len(parts) % 2 else heading
