"""Memory facts: what the owner wrote down about themselves in one note, one list item each. Read anew at each look."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sidecar.errors import NotFound, Unreadable, VaultAway
from sidecar.index.corpus import Corpus
from sidecar.vault import frontmatter
from sidecar.vault.blocks import lines
from sidecar.vault.notes import decode
from sidecar.vault.paths import VaultPath

MOST_FACTS: Final = 500
MOST_CHARS: Final = 1000

_CATEGORIES: Final = frozenset({"preference", "identity", "project", "instruction", "other"})
_ITEM: Final = re.compile(r"([ \t]*+)([-*+]|[0-9]{1,9}[.)])(?:[ \t]++(.*)|[ \t]*+$)", re.DOTALL)
_CHECKBOX: Final = re.compile(r"\[[^\[\]]\][ \t]++")


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact, on one line; `category` in small letters, None where it has none."""

    text: str
    category: str | None


def facts_in(text: str) -> tuple[list[Fact], int]:
    """The facts of a note, in its order, at most 500 of at most 1,000 characters; and how many there are."""
    items = _items(text[frontmatter.split(text).body_start :])
    found = [fact for raw, heading in items if (fact := _fact(raw, heading)) is not None]
    return found[:MOST_FACTS], len(found)


def _items(body: str) -> Iterator[tuple[str, str | None]]:
    """The text of each list item, its further lines joined to it, and the heading it stands under."""
    parts: list[str] = []
    heading: str | None = None
    inside, is_apart, indent = False, False, 0
    for line in lines(body):
        text = body[line.start : line.end]
        item = _ITEM.match(text) if line.kind == "text" else None
        goes_on = inside and line.kind == "text" and (not is_apart or len(text) - len(text.lstrip()) > indent)
        if item is None and goes_on:
            parts.append(text.strip())
            is_apart = False
            continue
        if line.kind == "blank":
            is_apart = True
            continue
        if parts:
            yield " ".join(parts), heading
            parts = []
        inside, is_apart = item is not None, False
        if item is not None:
            indent, parts = len(item[1]), [(item[3] or "").strip()]
            is_apart = not parts[0]
        elif line.kind == "heading" and line.level:
            heading = line.heading.lower() if line.level > 1 else None
    if parts:
        yield " ".join(parts), heading


def _fact(raw: str, heading: str | None) -> Fact | None:
    text = _CHECKBOX.sub("", raw, count=1) if _CHECKBOX.match(raw) else raw
    text, category = _without_category(_without_comment(text))
    text = _without_comment(text)
    return Fact(text[:MOST_CHARS], category or heading or None) if text else None


# By hand and not by patterns: a line may be megabytes of what only begins like one of these.


def _without_comment(text: str) -> str:
    text = text.strip()
    at = text.rfind("<!--") if text.endswith("-->") else -1
    return text[:at].rstrip() if at >= 0 and text.find("-->", at) == len(text) - 3 else text


def _without_category(text: str) -> tuple[str, str | None]:
    at = text.rfind("[") if text.endswith("]") else -1
    word = text[at + 1 : -1].strip().lower() if at >= 0 else ""
    if word in _CATEGORIES and (at == 0 or text[at - 1].isspace()):
        return text[:at].rstrip(), word
    return text, None


class Memory:
    """The memory note of one corpus."""

    def __init__(self, corpus: Corpus, note: str, *, max_note_bytes: int) -> None:
        """`note` as the settings name it."""
        self._corpus = corpus
        self._note = VaultPath.note(note)
        self._max_note_bytes = max_note_bytes

    async def facts(self) -> tuple[list[Fact], int]:
        """What is saved now, as `facts_in`; nothing where there is no such note.

        Raises:
            Unreadable, TooLarge: the note can't be read.
            VaultAway: the vault itself is gone.
        """
        if self._corpus.is_ignored(self._note):
            return [], 0
        try:
            file = await self._corpus.read(self._note, max_bytes=self._max_note_bytes)
        except NotFound:
            return [], 0
        except VaultAway:
            raise
        except Unreadable as bad:
            reason = str(bad).rpartition("can't be read: ")[2]
            raise Unreadable(f"The memory note can't be read: {reason}") from bad
        # aside, for a note of the largest size takes seconds
        return await asyncio.to_thread(lambda: facts_in(decode(file.data)[0]))
