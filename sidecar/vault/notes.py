"""A note: what the bytes of a Markdown file say.

Every byte string is a note. What can't be read in it counts as absent and
costs a warning; the rest is served. Warnings tell where, never what.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sidecar.vault import frontmatter
from sidecar.vault.frontmatter import Frontmatter, Json
from sidecar.vault.markdown import Link, clean_tag, marks, unique_tags
from sidecar.vault.paths import VaultPath, printable
from sidecar.vault.times import instant

_CURIO_SCHEMA: Final = "curio.frontmatter.v1"
_MAX_TITLE: Final = 500
_MAX_SOURCE: Final = 2000
_MAX_ID: Final = 300
_MAX_LISTED: Final = 1000  # tags or aliases of one block
_ID: Final = re.compile(r"(?:curio|zotero|kp):\S.*")  # a path: id would let a note stand in for another one
_SEPARATORS: Final = re.compile(r"[,\s]+")

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
    note_id = _identity(path, properties, warnings)
    is_curio = note_id.startswith("curio:") and "kp_id" not in properties
    return Note(
        path=path,
        checksum=checksum_of(data),
        text=text,
        body=body,
        body_line=1 + _line_ends(text, body_start),
        note_id=note_id,
        title=_title(properties) or path.stem,
        tags=tuple(unique_tags([*_tags(properties.value("tags", "tag")), *found.tags])),
        aliases=tuple(_aliases(properties.value("aliases", "alias"))),
        source=_source(properties),
        created=_time(properties, *(("saved",) if is_curio else ()), "created", "published", "date"),
        updated=_time(properties, "updated", "modified"),
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


def _identity(path: VaultPath, properties: Frontmatter, warnings: list[str]) -> str:
    """A valid `kp_id` wins, then a foreign block that we know, then the path."""
    by_path = f"path:{path.text}"
    if "kp_id" in properties:
        if "status" in properties:
            warnings.append("frontmatter: status is not allowed beside kp_id; the note has its path as id")
            return by_path
        claimed = next(properties.written("kp_id"), "").strip()
        if claimed != by_path and not (_ID.fullmatch(claimed) and len(claimed) <= _MAX_ID and claimed.isprintable()):
            warnings.append("frontmatter: kp_id is no id that a file can have; the note has its path as id")
            return by_path
        return claimed
    if next(properties.written("schema"), "") == _CURIO_SCHEMA:
        rest = next(properties.written("curio_id"), "").strip().removeprefix("curio:").strip()
        if rest and len(rest) <= _MAX_ID and rest.isprintable():
            return f"curio:{rest}"
        warnings.append("frontmatter: the curio block has no usable curio_id; the note has its path as id")
    return by_path


def _title(properties: Frontmatter) -> str:
    """On one line; empty if the block has none."""
    return printable(" ".join(next(properties.written("title"), "").split()))[:_MAX_TITLE]


def _texts(value: Json) -> Iterable[str]:
    """The single values of a list, as text. Nulls, booleans, lists and maps are dropped."""
    if isinstance(value, list):
        for item in value[:_MAX_LISTED]:
            if isinstance(item, str | int | float) and not isinstance(item, bool):
                yield str(item)


def _tags(value: Json) -> Iterable[str]:
    items = _SEPARATORS.split(value)[:_MAX_LISTED] if isinstance(value, str) else _texts(value)
    return [tag for item in items if (tag := clean_tag(item)) is not None]


def _aliases(value: Json) -> Iterable[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = [value]
    items = value.split(",")[:_MAX_LISTED] if isinstance(value, str) else _texts(value)
    return dict.fromkeys(alias for item in items if (alias := printable(" ".join(item.split()))[:_MAX_TITLE]))


def _source(properties: Frontmatter) -> str | None:
    """The first that is no blank text."""
    written = (printable(" ".join(text.split()))[:_MAX_SOURCE] for text in properties.written("source", "url"))
    return next(filter(None, written), None)


def _time(properties: Frontmatter, *keys: str) -> str | None:
    """The first of these keys that holds a point in time."""
    return next(filter(None, map(instant, properties.written(*keys))), None)
