"""A note: what the bytes of a Markdown file say.

Every byte string is a note. What can't be read in it counts as absent and
costs a warning; the rest is served. Warnings tell where, never what.
"""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass
from typing import Final

from sidecar.vault import frontmatter
from sidecar.vault.frontmatter import Frontmatter, Json
from sidecar.vault.kp_block import read_block
from sidecar.vault.markdown import Link, marks, unique_tags
from sidecar.vault.paths import VaultPath

# The longer marks first: UTF-32 little endian begins like UTF-16.
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class Note:
    """A parsed file.

    `text` is the whole file, decoded, without its byte order mark. `body` is
    what follows the frontmatter, without NUL characters; its first line is line
    `body_line` of the file, counted from 1. Times are RFC 3339 in UTC.
    """

    path: VaultPath
    checksum: str
    """`sha256:` and hex over the bytes: a change token, never an identity."""
    text: str
    body: str
    body_line: int
    note_id: str
    """As this file claims it; two files may claim one id."""
    title: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    source: str | None
    """None: born in the vault."""
    created: str | None
    updated: str | None
    links: tuple[Link, ...]
    warnings: tuple[str, ...]
    frontmatter: dict[str, Json]


def parse_note(path: VaultPath, data: bytes) -> Note:
    """Read a file's bytes. Never fails; time grows with the length of the data."""
    text, warnings = decode(data)
    block, body_start = frontmatter.split(text)
    properties = frontmatter.read(block) if block is not None else Frontmatter()
    warnings.extend(properties.warnings)
    body = text[body_start:]
    if nuls := body.count("\0"):
        body = body.replace("\0", "")
        warnings.append(f"NUL characters are left out: {nuls}")
    found = marks(body, path.parent)
    warnings.extend(found.warnings)
    about = read_block(path, properties)
    warnings.extend(about.warnings)
    return Note(
        path=path,
        checksum=checksum_of(data),
        text=text,
        body=body,
        body_line=1 + _line_ends(text, body_start),
        note_id=about.note_id,
        title=about.title or path.stem,
        tags=tuple(unique_tags([*about.tags, *found.tags])),
        aliases=about.aliases,
        source=about.source,
        created=about.created,
        updated=about.updated,
        links=tuple(found.links),
        warnings=tuple(warnings),
        frontmatter=properties.values,
    )


def checksum_of(data: bytes) -> str:
    """`sha256:` and hex."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _encoding(data: bytes) -> tuple[bytes, str]:
    """The byte order mark and what it stands for."""
    return next((each for each in _BYTE_ORDER_MARKS if data.startswith(each[0])), (b"", "utf-8"))


def decode(data: bytes) -> tuple[str, list[str]]:
    """The text without its byte order mark, and a warning if it is not all UTF-8."""
    mark, encoding = _encoding(data)
    if encoding != "utf-8":
        return data[len(mark) :].decode(encoding, "replace"), [f"the file is {encoding[:6].upper()}, not UTF-8"]
    try:
        return data[len(mark) :].decode(), []
    except UnicodeDecodeError as bad:
        line = 1 + data.count(b"\n", 0, bad.start)
        return data[len(mark) :].decode(errors="replace"), [f"line {line}: bytes that are not UTF-8 are replaced"]


def appended(data: bytes, text: str) -> bytes:
    """A file with more text at its end, in its own encoding. What it held is unchanged.

    If it does not end in a line end, one of its own kind comes in between.
    """
    old = decode(data)[0]
    between = _own_line_end(old) if old and old[-1] not in "\n\r" else ""
    return data + (between + text).encode(_encoding(data)[1])


def _own_line_end(text: str) -> str:
    """The kind of the last line end; `\\n` if there is none."""
    at = max(text.rfind("\n"), text.rfind("\r"))
    if at < 0:
        return "\n"
    return text[at - 1 : at + 1] if text[at - 1 : at + 1] == "\r\n" else text[at]


def _line_ends(text: str, end: int) -> int:
    """Line ends before `end`: `\\n`, `\\r\\n` and a lone `\\r`, as everywhere in this room."""
    count = text.count("\n", 0, end)
    returns = text.count("\r", 0, end)
    return count + returns - text.count("\r\n", 0, end) if returns else count
