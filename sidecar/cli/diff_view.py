"""A diff for people: one section a note, with the words marked that make the difference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sidecar.cli.ink import UNSEEN, Ink, visible
from sidecar.vault import patch
from sidecar.vault.edits import edits
from sidecar.vault.patch import BadPatch, FilePatch, Hunk

_WORDS: Final = re.compile(rf"\w+|\s+|{UNSEEN}+|[^\w\s]")  # what shows nothing stays together: `visible` looks at all
_MOST_WORDS: Final = 2000  # of a line; a longer one is not looked into
_ALIKE: Final = 0.4  # two lines with a smaller share of common letters are two lines, not one that was changed

Line = tuple[bytes, str, bool]
"""Mark, text, and whether it ends in a line end."""


def lines(diff: str, ink: Ink) -> Iterator[str]:
    """The lines to print. A diff that can't be read is shown as it is."""
    try:
        files = patch.parse(diff.encode())
    except BadPatch:
        yield from map(visible, diff.split("\n"))
        return
    for number, file in enumerate(files):
        if number:
            yield ""
        yield from _file(file, ink)


def _file(file: FilePatch, ink: Ink) -> Iterator[str]:
    marks = [mark for hunk in file.hunks for mark, _ in hunk.lines]
    added, removed = marks.count(b"+"), marks.count(b"-")
    counts = [ink.green(f"+{added}")] if added else []
    counts += [ink.red(f"-{removed}")] if removed else []
    yield f"{ink.bold(visible(file.path))}  {'new note, ' if file.creates else ''}{' '.join(counts)}"
    # a carriage return at the end of every line is how the file is written, not a change
    own_ends = all(line.endswith((b"\r\n", b"\r")) for hunk in file.hunks for _, line in hunk.lines)
    for hunk in file.hunks:
        if not file.creates:
            yield ink.dim(_head(hunk))
        yield from _hunk([_line(*each, own_ends=own_ends) for each in hunk.lines], ink)


def _head(hunk: Hunk) -> str:
    old, new = len(hunk.side(b"-")), len(hunk.side(b"+"))
    return f"@@ -{hunk.old_start + (old > 0)},{old} +{hunk.new_start + (new > 0)},{new} @@"


def _line(mark: bytes, line: bytes, *, own_ends: bool) -> Line:
    text = line.removesuffix(b"\n").decode()
    return mark, text.removesuffix("\r") if own_ends else text, line.endswith(b"\n")


def _hunk(hunk: Sequence[Line], ink: Ink) -> Iterator[str]:
    at = 0
    while at < len(hunk):
        if hunk[at][0] == b" ":
            yield from _printed(" ", visible(hunk[at][1]), hunk[at], ink)
            at += 1
            continue
        removed = _run(hunk, at, b"-")
        added = _run(hunk, at + len(removed), b"+")
        at += len(removed) + len(added)
        pairs = [_compared(old[1], new[1], ink) for old, new in zip(removed, added, strict=False)]
        for number, line in enumerate(removed):
            text = pairs[number][0] if number < len(pairs) else visible(line[1])
            yield from _printed("-", text, line, ink)
        for number, line in enumerate(added):
            text = pairs[number][1] if number < len(pairs) else visible(line[1])
            yield from _printed("+", text, line, ink)


def _run(hunk: Sequence[Line], start: int, mark: bytes) -> Sequence[Line]:
    end = start
    while end < len(hunk) and hunk[end][0] == mark:
        end += 1
    return hunk[start:end]


def _printed(mark: str, text: str, line: Line, ink: Ink) -> Iterator[str]:
    paint = {"-": ink.red, "+": ink.green}.get(mark, str)
    yield paint(f"{mark}{text}")
    if not line[2]:
        yield ink.dim("\\ No newline at end of file")


def _compared(old: str, new: str, ink: Ink) -> tuple[str, str]:
    """Both lines, escaped, with the words marked that only one of them has."""
    plain = visible(old), visible(new)
    if not ink.on:
        return plain
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    if max(len(before), len(after)) > _MOST_WORDS:
        return plain
    changes = edits(before, after)
    same = len(old) - sum(len(word) for edit in changes for word in before[edit.old_start : edit.old_end])
    if same < _ALIKE * max(len(old), len(new)):
        return plain
    return (
        _marked(before, [(edit.old_start, edit.old_end) for edit in changes], ink),
        _marked(after, [(edit.new_start, edit.new_end) for edit in changes], ink),
    )


def _marked(words: Sequence[str], spans: Sequence[tuple[int, int]], ink: Ink) -> str:
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += [visible("".join(words[at:start])), ink.inverse(visible("".join(words[start:end])))]
        at = end
    return "".join([*parts, visible("".join(words[at:]))])
