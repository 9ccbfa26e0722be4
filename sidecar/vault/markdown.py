"""Tags and links in the body of a note.

Code, HTML, comments and escaped characters hide what is in them. The body is
scanned once from mark to mark; every pattern is possessive and bounded, and
what closes a construct is never looked for twice, so the time is linear in the
length whatever the text is.
"""

from __future__ import annotations

import bisect
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

from sidecar.vault.blocks import outline
from sidecar.vault.paths import NOTE_SUFFIX, VaultPath, is_note_name

MAX_TAGS: Final = 10_000
MAX_LINKS: Final = 10_000
_MAX_TAG_CHARACTERS: Final = 200
_MAX_SCANNED: Final = 4 << 20  # characters; about 4 s of nothing but links

LinkKind = Literal["wikilink", "markdown"]


class Link(NamedTuple):
    """A link to a note, not resolved.

    `target` is what stands before `|` and `#`, without a final `.md`: a path
    from the vault, one from the note's folder, or the end of either. Only
    targets that begin with `./` or `../` are joined with the folder already.
    """

    target: str
    kind: LinkKind


@dataclass(slots=True)
class Marks:
    """What a body holds, in order of appearance, each once. At most 10,000 of a kind are kept."""

    tags: list[str] = field(default_factory=list[str])
    links: list[Link] = field(default_factory=list[Link])
    warnings: list[str] = field(default_factory=list[str])


# What can't be part of a tag: blanks, ASCII marks but `_ - /`, and the punctuation of other scripts.
# The two joiners (U+200C, U+200D) stay: Persian words and emoji need them.
_TAG: Final = (
    r"\#(?<![^\s(]\#)(?<!\]\(\#)(?P<tag>[^\s\u2000-\u200b\u200e-\u206f\u2e00-\u2e7f\u3000-\u303f"
    r"\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65!-,.:-@\[-^`{-~]++)"
)
_DESTINATION: Final = (
    r"\([ \t]*+(?:<(?:[^<>\n\\]|\\.){0,1000}+>|(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.){0,200}+\)){0,1000}+)"
    r"(?:[ \t\n]{1,10}+(?:\"[^\"]{0,500}+\"|'[^']{0,500}+'|\([^()]{0,500}+\))?+)?+[ \t\n]{0,10}+\)"
)
# Every alternative begins with a plain character and looks back only behind it: then the search skips to the next
# such character at the speed of memory, 20 times as fast.
_MARK: Final = re.compile(
    rf"""
      {_TAG}
    | \[(?P<wiki>\[[^\[\]\n]{{1,1000}}+\]\])
    | \[(?P<link>[^\[\]\n]{{0,1000}}+\]{_DESTINATION})
    | \](?P<tail>{_DESTINATION})                     # of a link whose text holds brackets
    | \[(?<![^\n]\[)(?!\^)(?P<reference>[^\[\]\n]{{1,500}}+\]:[ \t]*+(?:<[^<>\n]{{0,1000}}+>|[^\s<]\S{{0,1000}}+))
    | `(?P<code>`*+)
    | <(?P<comment>!--)
    | <(?P<html>[A-Za-z/!?][^<>]{{0,2000}}+>)
    | \\(?P<escape>\[[^\[\]\n]{{0,1000}}+\]|.)          # \[x](y) is no link
    """,
    re.VERBOSE,
)
_ANY_TAG: Final = re.compile(_TAG)
_CODE_RUN: Final = re.compile(r"`+")
_PARAGRAPH_END: Final = re.compile(r"\n[ \t\r]*+\n")
_RAW_HTML: Final = re.compile(r"<(script|style|pre|code|textarea)\b", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:")
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_DIGITS_ONLY: Final = re.compile(r"[\d/]*+")
_ATTACHMENT: Final = re.compile(
    r"\.(?:apng|avif|bmp|gif|jpe?g|png|svg|tiff?|webp|heic|3gp|flac|m4a|mp3|ogg|opus|wav|mkv|mov|mp4|ogv|webm|"
    r"pdf|epub|docx?|odt|pptx?|odp|xlsx?|ods|csv|tsv|txt|json|ya?ml|toml|xml|html?|css|js|ts|py|sh|zip|gz|tar|7z|"
    r"canvas|base)",
    re.IGNORECASE,
)


def marks(body: str, folder: VaultPath) -> Marks:
    """Tags and links of a note that lies in `folder`, from the part of its body that is indexed as well."""
    body = body[:_MAX_SCANNED]
    has_links = "[[" in body or "](" in body or "]:" in body
    if not has_links and _ANY_TAG.search(body) is None:
        return Marks()
    reader = _Reader(folder)
    for text in _outside_fences(body):
        reader.read(text)
    return reader.marks()


def clean_tag(raw: str) -> str | None:
    """A tag as it is kept: without `#` and final `/`; None for what Obsidian takes for no tag, such as digits only."""
    tag = raw.strip().lstrip("#").strip("/").strip()
    if not tag or len(tag) > _MAX_TAG_CHARACTERS or _DIGITS_ONLY.fullmatch(tag) or not _is_one_line(tag):
        return None
    return tag


def unique_tags(tags: Iterable[str]) -> list[str]:
    """Each tag once, in its first spelling; case makes no difference."""
    found: dict[str, str] = {}
    for tag in tags:
        found.setdefault(tag.casefold(), tag)
    return list(found.values())


def _outside_fences(body: str) -> Iterator[str]:
    """Pieces of the body between its code blocks."""
    if "```" not in body and "~~~" not in body:
        yield body
        return
    start: int | None = 0
    for line in outline(body):
        if line.kind in ("fence", "code"):
            if start is not None:
                yield body[start : line.start]
                start = None
        elif start is None:
            start = line.start
    if start is not None:
        yield body[start:]


class _Reader:
    """Collects from the pieces of one body."""

    def __init__(self, folder: VaultPath) -> None:
        self._folder = folder
        self._tags: dict[str, str] = {}
        self._links: dict[Link, None] = {}
        self._warnings: dict[str, None] = {}

    def marks(self) -> Marks:
        """What was collected."""
        return Marks(list(self._tags.values()), list(self._links), list(self._warnings))

    def read(self, text: str) -> None:
        """One piece without code blocks."""
        closings = _Closings(text)
        position = 0
        search = _MARK.search
        while found := search(text, position):
            position = found.end()
            match found.lastgroup:
                case "tag":
                    self._add_tag(found["tag"])
                case "wiki":
                    self._add_wikilink(found["wiki"][1:-2])
                case "link" | "tail":
                    whole = found.group()
                    self._add_link(whole[whole.index("](") + 2 : -1].strip())
                case "reference":
                    whole = found.group()
                    self._add_link(whole[whole.index("]:") + 2 :].strip())
                case "code":
                    position = closings.code(found.start(), position) or position
                case "comment":
                    position = closings.text("-->", position) or position
                case "html":
                    if raw := _RAW_HTML.match(found.group()):
                        position = closings.text("</" + raw.group(1).lower(), position) or position
                case _:
                    pass

    def _add_tag(self, raw: str) -> None:
        tag = clean_tag(raw)
        if tag is None or tag.casefold() in self._tags:
            return
        if len(self._tags) == MAX_TAGS:
            self._warnings["more than 10,000 tags; the first ones are kept"] = None
            return
        self._tags[tag.casefold()] = tag

    def _add_wikilink(self, inner: str) -> None:
        target = inner.split("|", 1)[0].rstrip("\\")  # in a table the bar is written \|
        self._add(target.split("#", 1)[0], "wikilink")

    def _add_link(self, destination: str) -> None:
        if destination.startswith("<"):
            target = destination[1 : destination.find(">")]
        else:
            target = destination.split(None, 1)[0] if destination else ""
        target = _ESCAPED.sub(r"\1", target).split("#", 1)[0]
        if _SCHEME.match(target):
            return
        target = unquote(target)
        name = target[target.rfind("/") + 1 :]
        if is_note_name(name) or "." not in name:
            self._add(target, "markdown")

    def _add(self, raw: str, kind: LinkKind) -> None:
        target = self._target(raw.strip())
        if target is None:
            return
        link = Link(target, kind)
        if len(self._links) == MAX_LINKS and link not in self._links:
            self._warnings["more than 10,000 links; the first ones are kept"] = None
            return
        self._links[link] = None

    def _target(self, raw: str) -> str | None:
        """A target in its kept form; None if it leads out of the vault, or to something that is no note."""
        if not raw or raw.endswith("/") or raw.startswith("//") or "://" in raw or not _is_one_line(raw):
            return None
        if raw.startswith(("./", "../")):
            raw = posixpath.normpath(posixpath.join(self._folder.text, raw))
            if raw.startswith(".."):
                return None
        raw = raw.removeprefix("/")
        if is_note_name(raw):
            raw = raw[: -len(NOTE_SUFFIX)]
        elif _ATTACHMENT.fullmatch(raw, max(raw.rfind("."), 0)):
            return None
        return raw or None


class _Closings:
    """Where constructs of one text end. Each answer costs no more than the distance to it, once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: dict[str, int] = {}
        self._runs: dict[int, list[int]] | None = None
        self._paragraph_ends: list[int] = []

    def text(self, closing: str, position: int) -> int | None:
        """The end of the next `closing`, in small letters; None if there is no further one."""
        if position >= self._missing.get(closing, len(self._text) + 1):
            return None
        found = re.compile(re.escape(closing), re.IGNORECASE).search(self._text, position)
        if found is None:
            self._missing[closing] = position
            return None
        return found.end()

    def code(self, start: int, end: int) -> int | None:
        """The end of the code span that the run of backticks from `start` to `end` opens; None if it opens none.

        The closing run has the same length and stands in the same paragraph.
        """
        if self._runs is None:
            self._runs = {}
            for run in _CODE_RUN.finditer(self._text):
                self._runs.setdefault(len(run.group()), []).append(run.start())
            self._paragraph_ends = [found.start() for found in _PARAGRAPH_END.finditer(self._text)]
        starts = self._runs.get(end - start, [])
        next_run = bisect.bisect_left(starts, end)
        if next_run == len(starts):
            return None
        next_end = bisect.bisect_left(self._paragraph_ends, end)
        if next_end < len(self._paragraph_ends) and self._paragraph_ends[next_end] < starts[next_run]:
            return None
        return starts[next_run] + (end - start)


def _is_one_line(text: str) -> bool:
    return text.isprintable() or not any(character < " " or "\x7f" <= character <= "\x9f" for character in text)
