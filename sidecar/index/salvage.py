"""Takes the cached vectors out of a manifest that can't be opened any more.

A vector costs 20 to 40 ms of a processor, and a damaged file mostly holds
nearly all of them intact. SQLite refuses such a file as a whole, so its pages
are read here, each for itself: a page of an index says what is in it, whatever
has become of the header, of other pages or of the layout of the tables. A row
of the cache (text hash, embedder id, vector) is known by its form, and a
vector is believed only when it has the length its embedder says and is of
length 1, as all are, and when no other row claims a page of it.

https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

_PAGE: Final = 4096  # of every manifest: SQLite's own default
_INDEX_LEAF, _INDEX_INNER = 0x0A, 0x02
_LARGEST_LOCAL: Final = (_PAGE - 12) * 64 // 255 - 23  # bytes of a row in its page; the rest is in further ones
_SMALLEST_LOCAL: Final = (_PAGE - 12) * 32 // 255 - 23
_LONGEST_ROW: Final = 1 << 16
_WAL_HEAD: Final = 32
_FRAME_HEAD: Final = 24
_HASH_BYTES: Final = 16
_EMBEDDER = re.compile(r"[\x21-\x7e]{1,200}/([0-9]{1,5})")
_LENGTH_ERROR: Final = 0.02  # of a vector of length 1 after rounding to float16: below 0.001

Page = Callable[[int], bytes | None]


class Row(NamedTuple):
    """A cached vector: of the text with this hash, by this embedder, as float16 bytes."""

    text_hash: bytes
    embedder: str
    vector: bytes


def vectors_in(path: Path) -> Iterator[Row]:
    """Every intact row of the cache in a manifest's file and the log beside it (`-wal`). Rows may come twice.

    Reads the whole file twice, about 2 s for 100,000 vectors. Blocks.
    """
    logged = _logged(path.with_name(f"{path.name}-wal"))
    with ExitStack() as stack:
        file = None
        with suppress(OSError):  # nothing there, or no file
            file = stack.enter_context(path.open("rb"))

        def page(number: int) -> bytes | None:
            if number in logged or file is None:
                return logged.get(number)
            file.seek((number - 1) * _PAGE)
            return file.read(_PAGE)

        pages = file.seek(0, 2) // _PAGE if file else 0
        numbers = sorted({*range(1, pages + 1), *logged})
        owners = bytearray(max(numbers, default=0) + 1)

        def counted(number: int) -> bytes | None:
            if number < len(owners):
                owners[number] = min(2, owners[number] + 1)
            return page(number)

        def of_one(number: int) -> bytes | None:
            # a pointer with one wrong bit may lead to the end of another row, and two halves of vectors have length 1
            return page(number) if number < len(owners) and owners[number] == 1 else None

        for number in numbers:
            for _ in _rows(page(number) or b"", number, counted):
                pass
        for number in numbers:
            yield from _rows(page(number) or b"", number, of_one)


def _logged(path: Path) -> dict[int, bytes]:
    """The newest pages of the log, by number. Frames left over from an earlier round are not of them."""
    pages: dict[int, bytes] = {}
    with suppress(OSError), path.open("rb") as log:
        salts = log.read(_WAL_HEAD)[16:24]
        while len(frame := log.read(_FRAME_HEAD + _PAGE)) == _FRAME_HEAD + _PAGE:
            if frame[8:16] == salts:
                pages[int.from_bytes(frame[:4], "big")] = frame[_FRAME_HEAD:]
    return pages


def _rows(page: bytes, number: int, other: Page) -> Iterator[Row]:
    """Those of one page. Anything may be in it."""
    start = 100 if number == 1 else 0
    if len(page) < _PAGE or page[start] not in (_INDEX_LEAF, _INDEX_INNER):
        return
    head, before = (8, 0) if page[start] == _INDEX_LEAF else (12, 4)
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    for place in range(start + head, min(start + head + 2 * count, _PAGE - 1), 2):
        with suppress(IndexError, ValueError, struct.error):
            at = int.from_bytes(page[place : place + 2], "big") + before
            size, at = _varint(page, at)
            if row := _row(_content(page, at, size, other)):
                yield row


def _content(page: bytes, at: int, size: int, other: Page) -> bytes:
    """The bytes of one row, those on further pages included."""
    if size > _LONGEST_ROW:
        raise ValueError
    if size <= _LARGEST_LOCAL:
        return page[at : at + size]
    local = _SMALLEST_LOCAL + (size - _SMALLEST_LOCAL) % (_PAGE - 4)
    if local > _LARGEST_LOCAL:
        local = _SMALLEST_LOCAL
    content = page[at : at + local]
    (number,) = struct.unpack_from(">I", page, at + local)
    while len(content) < size:
        further = other(number) if number else None
        if not further:
            raise ValueError
        content += further[4 : 4 + size - len(content)]
        number = int.from_bytes(further[:4], "big")
    return content


def _row(content: bytes) -> Row | None:
    """A row of the cache, or None for every other row."""
    end, at = _varint(content, 0)
    kinds: list[int] = []
    while at < end and len(kinds) <= 3:
        kind, at = _varint(content, at)
        kinds.append(kind)
    # even numbers are bytes, odd ones text
    if len(kinds) != 3 or kinds[0] != 12 + 2 * _HASH_BYTES or kinds[1] % 2 == 0 or kinds[2] % 2 or min(kinds) < 12:
        return None
    text, size = (kinds[1] - 13) // 2, (kinds[2] - 12) // 2
    middle = end + _HASH_BYTES
    if len(content) != middle + text + size:
        return None
    embedder = content[middle : middle + text].decode("ascii")
    vector = content[middle + text :]
    match = _EMBEDDER.fullmatch(embedder)
    if match is None or size != 2 * int(match[1]) or not _is_sound(vector):
        return None
    return Row(content[end:middle], embedder, vector)


def _is_sound(vector: bytes) -> bool:
    """Of length 1, or all zeros, which is the vector of a text without meaning."""
    numbers = np.frombuffer(vector, "<f2").astype(np.float64)
    if not np.isfinite(numbers).all():
        return False
    length = float(np.linalg.norm(numbers))
    return length == 0.0 or abs(length - 1.0) < _LENGTH_ERROR


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and the place behind it."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9
