"""Note ids, and what the block at the top of a note says of it.

Strict for producers, lenient for readers: a usable `kp_id` names the note,
else the block of a web reader that we know, else its path, so no note is ever
without an id. What can't be used counts as absent and costs a warning.

Whether an id is taken by two files is not seen here: that is the index's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from sidecar.errors import BadArguments, NotFound
from sidecar.vault.frontmatter import Frontmatter, Json
from sidecar.vault.markdown import clean_tag
from sidecar.vault.paths import VaultPath, echo, printable
from sidecar.vault.times import instant

Namespace = Literal["curio", "zotero", "kp", "path"]
NAMESPACES: Final[tuple[Namespace, ...]] = get_args(Namespace)

_CURIO_SCHEMA: Final = "curio.frontmatter.v1"
_MAX_TITLE: Final = 500
_MAX_SOURCE: Final = 2000
_MAX_ID: Final = 300
_MAX_LISTED: Final = 1000  # tags or aliases of one block
_CLAIMED: Final = re.compile(r"(?:curio|zotero|kp):\S.*")  # a path: id would let a note stand in for another one
_SEPARATORS: Final = re.compile(r"[,\s]+")
# Ids of the store of shared knowledge, which is another one. No note has such an id.
_KNOWLEDGE: Final = ("ku-", "skill-", "kp:trace:", "kp:pattern:", "kp:sop:")


@dataclass(frozen=True, slots=True)
class NoteId:
    """An id as a caller gave it. Get one from `parse_id`."""

    text: str
    path: VaultPath | None
    """The path that a `path:` id names; None in the other namespaces."""


@dataclass(frozen=True, slots=True)
class Block:
    """What a note's block says of it. Times are RFC 3339 in UTC; `title` is empty if the block has none."""

    note_id: str
    title: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    source: str | None
    created: str | None
    updated: str | None
    warnings: tuple[str, ...]


def parse_id(raw: str) -> NoteId:
    """An id that a caller names a note by: a known namespace and any rest. Nothing is looked up.

    Raises:
        BadArguments: it has no known namespace, or nothing behind it.
        NotFound: it is an id of the knowledge store.
        BadPath: a `path:` id whose rest is no path of a note.
    """
    if raw.startswith(_KNOWLEDGE):
        raise NotFound(
            f"'{echo(raw)}' belongs to the knowledge store; search it with kp_search_knowledge or kp_search_skill."
        )
    namespace, _, rest = raw.partition(":")
    if namespace not in NAMESPACES or not rest:
        raise BadArguments(f"'{echo(raw)}' is not a note id; use curio:…, zotero:…, kp:… or path:Folder/Note.md.")
    return NoteId(raw, VaultPath.note(rest) if namespace == "path" else None)


def path_id(path: str) -> str:
    """The id that every note has besides its own."""
    return f"path:{path}"


def no_id(raw: str) -> NotFound:
    """The error for an id that no note has."""
    return NotFound(f"No note has the id '{echo(raw)}'. Find ids with kp_search or kp_recent.")


def read_block(path: VaultPath, properties: Frontmatter) -> Block:
    """What the block of the note at `path` says. Never fails."""
    warnings: list[str] = []
    note_id = _identity(path, properties, warnings)
    is_curio = note_id.startswith("curio:") and "kp_id" not in properties
    return Block(
        note_id=note_id,
        title=_title(properties),
        tags=tuple(_tags(properties.value("tags", "tag"))),
        aliases=tuple(_aliases(properties.value("aliases", "alias"))),
        source=_source(properties),
        created=_time(properties, *(("saved",) if is_curio else ()), "created", "published", "date"),
        updated=_time(properties, "updated", "modified"),
        warnings=tuple(warnings),
    )


def _identity(path: VaultPath, properties: Frontmatter, warnings: list[str]) -> str:
    """A usable `kp_id` wins, then a foreign block that we know, then the path."""
    by_path = path_id(path.text)
    if "kp_id" in properties:
        if "status" in properties:
            warnings.append("frontmatter: status is not allowed beside kp_id; the note has its path as id")
            return by_path
        claimed = next(properties.written("kp_id"), "").strip()
        if claimed != by_path and not _can_be_claimed(claimed):
            warnings.append("frontmatter: kp_id is no id that a file can have; the note has its path as id")
            return by_path
        return claimed
    if next(properties.written("schema"), "") == _CURIO_SCHEMA:
        rest = next(properties.written("curio_id"), "").strip().removeprefix("curio:").strip()
        if rest and _can_be_claimed(f"curio:{rest}"):
            return f"curio:{rest}"
        warnings.append("frontmatter: the curio block has no usable curio_id; the note has its path as id")
    return by_path


def _can_be_claimed(note_id: str) -> bool:
    return (
        _CLAIMED.fullmatch(note_id) is not None
        and len(note_id) <= _MAX_ID
        and note_id.isprintable()
        and not note_id.startswith(_KNOWLEDGE)
    )


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
