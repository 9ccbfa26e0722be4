"""Rows of a table as chunks: the names of the columns, then some rows, each with the name before each value."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sidecar.index.documents.document import LONGEST, LONGEST_WHOLE
from sidecar.index.documents.passages import parts

ROWS: Final = 32
_LONGEST_NAME: Final = 120  # of a column, where it stands before a value: a long one would be repeated in every row

_LOOKED_AT: Final = 100_000  # characters
_SEPARATORS: Final = ",;\t|"
_QUOTED: Final = re.compile(r'"[^"]*"')


def table(rows: Iterable[Sequence[str]], title: str = "") -> Iterator[str]:
    """Chunks of a table: `title` if it has one, the names of its columns, then 32 rows as `[n] name=value, …`.

    The first row that is not empty has the names; `n` counts the rows below it from 1. Empty values and empty rows
    are left out, and a column without a name is `colN`. Rows that are very wide make for fewer in a chunk.
    """
    header: Sequence[str] | None = None
    names: list[str] = []
    head = ""
    lines: list[str] = []
    size = number = 0
    is_empty = True
    for row in rows:
        if header is None:
            if any(map(_clean, row)):
                header = [_clean(cell) for cell in row]
                names = [_name(header, index) for index in range(len(header))]
                head, long_head = _head(title, [*_without_tail(header, names)])
                yield from long_head
            continue
        number += 1
        line = _line(number, row, names)
        if not line:
            continue
        is_empty = False
        if lines and (len(lines) == ROWS or size + len(line) > LONGEST_WHOLE):
            yield "\n".join((head, *lines))
            lines, size = [], 0
        if len(line) > LONGEST_WHOLE:
            yield from (f"{head}\n{part}" for part in parts(line, LONGEST_WHOLE))
            continue
        lines.append(line)
        size += len(line) + 1
    if lines or (is_empty and header is not None):
        yield "\n".join((head, *lines))


def rows_of(text: str, separator: str | None = None) -> Iterator[list[str]]:
    """Rows of comma-separated values; without a `separator` the first lines tell which it is."""
    csv.field_size_limit((1 << 31) - 1)  # the file is limited already
    if separator is None:
        separator = _separator(text)
    return iter(csv.reader(io.StringIO(text, newline=""), delimiter=separator))


def _separator(text: str) -> str:
    """What divides each of the first lines, most often the first one."""
    lines = _QUOTED.sub("", text.strip()[:_LOOKED_AT]).splitlines()[:5] or [""]
    return max(
        _SEPARATORS, key=lambda separator: (min(line.count(separator) for line in lines), lines[0].count(separator))
    )


def _clean(cell: str) -> str:
    return " ".join(cell.split())


def _name(header: Sequence[str], index: int) -> str:
    name = header[index] if index < len(header) else ""
    if not name:
        return f"col{index + 1}"
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _without_tail(header: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Full names, up to the last one that the table gives."""
    last = max((index for index, name in enumerate(header) if name), default=0)
    return (header[index] or names[index] for index in range(last + 1))


def _head(title: str, names: Sequence[str]) -> tuple[str, list[str]]:
    """What every chunk begins with, and chunks of its own for names that are too long for that."""
    line = ", ".join(names)
    if len(line) <= LONGEST:
        return "\n".join(filter(None, (title, line))), []
    long = ["\n".join(filter(None, (title, part))) for part in parts(line)]
    return "\n".join(filter(None, (title, line[: LONGEST - 1] + "…"))), long


def _line(number: int, row: Sequence[str], names: list[str]) -> str:
    values: list[str] = []
    for index, cell in enumerate(row):
        if cell and (value := _clean(cell)):
            while len(names) <= index:
                names.append(f"col{len(names) + 1}")
            values.append(f"{names[index]}={value}")
    return f"[{number}] {', '.join(values)}" if values else ""
