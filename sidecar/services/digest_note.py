"""The note of one day's digest: groups of links, each with a line of what the note says and why it is here.

Pure: equal input gives equal bytes. What other notes say gets in as plain text
on one line, so that it can neither link anywhere nor change how the digest is
laid out.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final
from urllib.parse import quote, urlsplit

from sidecar.index.cards import Card
from sidecar.vault import frontmatter
from sidecar.vault.blocks import lines
from sidecar.vault.paths import printable
from sidecar.vault.times import rfc3339

EXTRACT_CHARS: Final = 160

_NO_GROUP: Final = "notes"
_NO_WIKILINK: Final = re.compile(r"[\[\]|#^%\\<>`]")
# Links become their text, pictures nothing; comments and tags of HTML go. Every repetition is bounded.
_LINK: Final = re.compile(
    r"(!?)\[\[(?:[^\[\]|\n]{1,500}\|)?([^\[\]|\n]{1,500})\]\]|(!?)\[([^\[\]\n]{0,500})\]\([^()\n]{0,1000}\)"
)
_HTML: Final = re.compile(r"<[A-Za-z/!][^<>]{0,500}>|%%")
_MARKUP: Final = re.compile(r"[\[\]`*_~<>|$\\]|==|#(?=\w)")


@dataclass(frozen=True, slots=True)
class Item:
    """A note that was picked. `closeness` is its cosine to the anchor; None without one."""

    card: Card
    extract: str
    closeness: float | None


def title_of(day: date) -> str:
    """Title of a day's digest."""
    return f"Daily digest {day.isoformat()}"


def write(day: date, made: datetime, items: Sequence[Item], remark: str | None) -> tuple[str, str]:
    """The id and the text of the note. `items` are the best first; `remark` says what the ranking had to do without."""
    head = f"# {title_of(day)}\n"
    parts = [head, f"\n{remark}\n"] if remark else [head]
    groups: dict[str, list[str]] = {}
    for item in items:
        groups.setdefault(_group(item.card), []).append(_item(item))
    parts += [f"\n## {_plain(name) or _NO_GROUP}\n\n" + "\n".join(groups[name]) + "\n" for name in sorted(groups)]
    body = "".join(parts)
    note_id = f"kp:{_uuid7(day, body)}"
    block = (
        f'---\nkp_id: "{note_id}"\nkp_schema: kp-note/v1\ntitle: {title_of(day)}\ntags: [digest]\n'
        f'created: "{made.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}"\n---\n'
    )
    return note_id, block + body


def extract_of(text: str) -> str:
    """The first paragraph of a note, plain and on one line; at most `EXTRACT_CHARS` and `…`. Empty if there is none."""
    body = text[frontmatter.split(text).body_start :]
    words: list[str] = []
    for line in lines(body):
        if line.kind == "text":
            words.append(body[line.start : line.end])
        elif words and line.kind != "fence":
            if plain := _plain(" ".join(words)):
                return _cut(plain)
            words = []
    return _cut(_plain(" ".join(words)))


def _cut(text: str) -> str:
    return text if len(text) <= EXTRACT_CHARS else text[:EXTRACT_CHARS].rstrip() + "…"


def _plain(text: str) -> str:
    """Text without anything that an editor would read as markup, on one line."""
    text = _LINK.sub(lambda link: "" if link[1] or link[3] else link[2] or link[4] or "", text[: 20 * EXTRACT_CHARS])
    text = _MARKUP.sub("", _HTML.sub("", text))
    return printable(" ".join(text.split()))


def _group(card: Card) -> str:
    if card.tags:
        return card.tags[0]
    try:
        return urlsplit(card.source or "").hostname or _NO_GROUP
    except ValueError:  # such as an unclosed bracket around an address
        return _NO_GROUP


def _item(item: Item) -> str:
    extract = f" – {item.extract}" if item.extract else ""
    return f"- {_link(item.card)}{extract}\n  Why: {_why(item)}."


def _link(card: Card) -> str:
    title = _plain(card.title) or "note"
    target = card.path[:-3]
    if _NO_WIKILINK.search(target) or not target.isprintable():
        return f"[{title}]({quote(card.path)})"
    return f"[[{target}|{title}]]"


def _why(item: Item) -> str:
    card = item.card
    written = card.updated or card.created
    when = f"{'updated' if card.updated else 'created'} {written[:10]}" if written else _indexed(card)
    return when if item.closeness is None else f"closeness {item.closeness:.2f} to the anchor note, {when}"


def _indexed(card: Card) -> str:
    return f"indexed {rfc3339(card.ingested_at)[:10]}"


def _uuid7(day: date, body: str) -> uuid.UUID:
    """A version 7 UUID of the day's first moment in UTC and, in place of chance, the text."""
    moment_ms = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    chance = int.from_bytes(hashlib.sha256(body.encode("utf-8", "surrogatepass")).digest()[:10], "big")
    number = (moment_ms & (1 << 48) - 1) << 80 | 7 << 76 | (chance >> 68) << 64 | 2 << 62 | chance & (1 << 62) - 1
    return uuid.UUID(int=number)
