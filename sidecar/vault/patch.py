"""Unified diffs that come back to exactly the bytes they were made from, and are applied without any leeway.

A line ends at LF and nowhere else: CR, form feed or U+2028 are part of it, and
the marker for a missing last line end is always written. How long a hunk is
is told by its head, so lines that look like a diff are no danger. Applying
knows no fuzz and no offset: every context line and every removed line has to
stand at its number. Everything is bytes; nothing here knows an encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sidecar.errors import Conflict, Unreadable
from sidecar.vault.edits import Edit, edits
from sidecar.vault.paths import echo

_CONTEXT: Final = 3
_NOWHERE: Final = b"/dev/null"
_NO_LINE_END: Final = b"\\ No newline at end of file\n"
_SPAN: Final = rb"(0|[1-9][0-9]{0,8})(?:,(0|[1-9][0-9]{0,8}))?"
_SHORT_LINE: Final = 4  # bytes with the mark and the line end
_HEAD: Final = re.compile(rb"@@ -" + _SPAN + rb" \+" + _SPAN + rb" @@\n")


class BadPatch(Unreadable):
    """The bytes are no patch of this form; the message says at which line."""


class Drift(Conflict):
    """The text is not the one that the patch was made for."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """A change and the lines around it. Counts of lines before it are from 0."""

    old_start: int
    new_start: int
    lines: tuple[tuple[bytes, bytes], ...]
    """Mark (blank, `-` or `+`) and the line with its line end, if it has one."""

    def side(self, mark: bytes) -> list[bytes]:
        """The old lines (`-`) or the new ones (`+`)."""
        return [line for each, line in self.lines if each in (b" ", mark)]

    def context(self, *, after: bool) -> int:
        """Lines that stay before the first change, or after the last one. Where they are few, the text ends there."""
        marks = [mark for mark, _ in (reversed(self.lines) if after else self.lines)]
        return next(count for count, mark in enumerate(marks) if mark != b" ")


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file."""

    path: str
    creates: bool
    """There is no such file before."""
    hunks: tuple[Hunk, ...]


def make(path: str, old: bytes | None, new: bytes) -> bytes:
    """The patch that makes `new` of `old`; None: there is no such file. They differ, and `path` has no line end."""
    before, after = split(old or b""), split(new)
    source = _NOWHERE if old is None else b"a/" + path.encode()
    parts = [b"--- ", source, b"\n+++ b/", path.encode(), b"\n"]
    for group in _groups(edits(before, after)):
        start = max(group[0].old_start - _CONTEXT, 0)
        end = min(group[-1].old_end + _CONTEXT, len(before))
        shift = group[0].new_start - group[0].old_start
        new_end = group[-1].new_end + end - group[-1].old_end
        parts += [b"@@ -", _span(start, end), b" +", _span(start + shift, new_end), b" @@\n"]
        at = start
        for edit in group:
            parts += _marked(b" ", before[at : edit.old_start])
            parts += _marked(b"-", before[edit.old_start : edit.old_end])
            parts += _marked(b"+", after[edit.new_start : edit.new_end])
            at = edit.old_end
        parts += _marked(b" ", before[at:end])
    return b"".join(parts)


def split(data: bytes) -> list[bytes]:
    """Lines with their LF; the last one may have none."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def parse(data: bytes) -> tuple[FilePatch, ...]:
    """A patch of one or more files.

    Raises:
        BadPatch: it is not exactly of the form that `make` writes, renames or deletes a file, or has one twice.
    """
    patches: dict[str, FilePatch] = {}
    for patch in _Parser(data).files():
        if patch.path in patches:
            raise BadPatch(f"'{echo(patch.path)}' is in it twice")
        patches[patch.path] = patch
    return tuple(patches.values())


def apply(patch: FilePatch, old: bytes) -> bytes:
    """The new bytes. `old` is empty for a file that the patch creates.

    Raises:
        Drift: a line is not what it was; the message names the first such line.
        BadPatch: the patch contradicts itself.
    """
    before = split(old)
    after: list[bytes] = []
    at = 0
    for hunk in patch.hunks:
        if hunk.old_start < at:
            raise BadPatch("its hunks overlap")
        if hunk.context(after=False) < _CONTEXT and hunk.old_start > 0:
            raise BadPatch("it has too little context")
        expected = hunk.side(b"-")
        found = before[hunk.old_start : hunk.old_start + len(expected)]
        if found != expected or hunk.old_start > len(before):
            raise Drift(_difference(found, expected, hunk.old_start))
        after += before[at : hunk.old_start]
        if len(after) != hunk.new_start:
            raise BadPatch("its line numbers don't fit together")
        after += hunk.side(b"+")
        at = hunk.old_start + len(expected)
        if hunk.context(after=True) < _CONTEXT and at < len(before):
            raise Drift(f"line {at + 1} is new, and its end was above")
    after += before[at:]
    if any(not line.endswith(b"\n") for line in after[:-1]):
        raise BadPatch("a line without a line end is not the last one")
    return b"".join(after)


def reverse(patch: FilePatch) -> FilePatch:
    """The patch that takes this one back. What that one created becomes empty."""
    turned = {b" ": b" ", b"-": b"+", b"+": b"-"}
    hunks = (
        Hunk(hunk.new_start, hunk.old_start, tuple((turned[mark], line) for mark, line in hunk.lines))
        for hunk in patch.hunks
    )
    return FilePatch(patch.path, creates=False, hunks=tuple(hunks))


def _difference(found: Sequence[bytes], expected: Sequence[bytes], start: int) -> str:
    same = 0
    while same < min(len(found), len(expected)) and found[same] == expected[same]:
        same += 1
    return f"line {start + same + 1} is not what it was"


def _groups(changes: Sequence[Edit]) -> Iterator[list[Edit]]:
    """Changes whose context would touch make one hunk."""
    group: list[Edit] = []
    for edit in changes:
        if group and edit.old_start - group[-1].old_end > 2 * _CONTEXT:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def _span(start: int, end: int) -> bytes:
    """Lines as a hunk's head gives them: the first one counted from 1, or the one before where there are none."""
    count = end - start
    return b"%d" % (start + 1) if count == 1 else b"%d,%d" % (start + (count > 0), count)


def _marked(mark: bytes, lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark
        yield line
        if not line.endswith(b"\n"):
            yield b"\n" + _NO_LINE_END


class _Parser:
    """Goes through a patch line by line."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0
        self._at = 0
        self._short: dict[bytes, tuple[bytes, bytes]] = {}  # there may be millions of them, and few differ

    def files(self) -> Iterator[FilePatch]:
        """Every file; there is at least one."""
        while True:
            yield self._file()
            if self._offset == len(self._data):
                return

    def _file(self) -> FilePatch:
        source = self._name(b"--- ", b"a/")
        target = self._name(b"+++ ", b"b/")
        if target is None:
            raise self._bad("it deletes a file")
        if source is not None and source != target:
            raise self._bad("it renames a file")
        hunks = [self._hunk()]
        while self._data.startswith(b"@@", self._offset):
            hunks.append(self._hunk())
        return FilePatch(target, creates=source is None, hunks=tuple(hunks))

    def _name(self, begin: bytes, prefix: bytes) -> str | None:
        """A path; None for no file."""
        line = self._next()
        if line == begin + _NOWHERE + b"\n":
            return None
        if not line.startswith(begin + prefix) or not line.endswith(b"\n"):
            raise self._bad(f"no '{(begin + prefix).decode()}' and path")
        try:
            return line[len(begin + prefix) : -1].decode()
        except UnicodeDecodeError:
            raise self._bad("a path that is not UTF-8") from None

    def _hunk(self) -> Hunk:
        head = _HEAD.fullmatch(self._next())
        if head is None:
            raise self._bad("no head of a hunk")
        old_start, old_left, new_start, new_left = (int(found) if found else 1 for found in head.groups())
        old_start, new_start = old_start - (old_left > 0), new_start - (new_left > 0)
        if old_start < 0 or new_start < 0 or not old_left + new_left:
            raise self._bad("no head of a hunk")
        lines: list[tuple[bytes, bytes]] = []
        while old_left or new_left:
            whole = self._next()
            mark, line = whole[:1], whole[1:]
            old_left -= mark in b" -"
            new_left -= mark in b" +"
            if mark not in (b" ", b"-", b"+") or not line.endswith(b"\n") or min(old_left, new_left) < 0:
                raise self._bad("a line that the head of its hunk does not announce")
            if self._data.startswith(_NO_LINE_END, self._offset):
                self._next()
                if line == b"\n":
                    raise self._bad("an empty line without a line end is none")
                lines.append((mark, line[:-1]))
            else:
                each = (mark, line)
                lines.append(self._short.setdefault(whole, each) if len(whole) <= _SHORT_LINE else each)
        if all(mark == b" " for mark, _ in lines):
            raise self._bad("a hunk that changes nothing")
        return Hunk(old_start, new_start, tuple(lines))

    def _next(self) -> bytes:
        self._at += 1
        if self._offset == len(self._data):
            raise self._bad("its end is missing")
        begin = self._offset
        self._offset = self._data.find(b"\n", begin) + 1 or len(self._data)
        return self._data[begin : self._offset]

    def _bad(self, what: str) -> BadPatch:
        return BadPatch(f"line {self._at}: {what}")
