"""The block of properties at the top of a note, read without trusting it.

YAML is parsed into events only, and the values are built here: no objects, no
aliases, no dates, no numbers that change when they are written back. So `no`
stays the word, `1.10` keeps its zero, and whatever comes out can be sent as
JSON. A block that can't be used costs a warning and counts as empty; no text
makes this raise.

Warnings name lines, never content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

import yaml

MAX_BYTES: Final = 64 * 1024
_MAX_DEPTH: Final = 24
_FIRST_LINE: Final = 2  # of the block, counted in the file

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

# libyaml where the wheel has it; the parser written in Python reads the same, slower
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_OPENING: Final = re.compile(r"---[ \t]*+\r?\n")
_CLOSING: Final = re.compile(r"\n(?:---|\.\.\.)[ \t]*+(?:\r?\n|\r?\Z)")
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,14})", re.ASCII)  # 15 digits: exact in every JSON reader
_FRACTION: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}", re.ASCII)
_WORDS: Final[dict[str, Json]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_KNOWN_TAGS: Final = frozenset(
    {"!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map"))}
)
_TEXT_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})


class Split(NamedTuple):
    """Where a text's block and body are."""

    block: str | None
    """What stands between the fences; None if there is no block."""
    body_start: int


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """The properties of a note."""

    values: dict[str, Json] = field(default_factory=dict[str, Json])
    """By their keys as written."""
    warnings: tuple[str, ...] = ()
    _folded: dict[str, Json] = field(default_factory=dict[str, Json])
    _written: dict[str, str] = field(default_factory=dict[str, str])

    def value(self, *keys: str) -> Json:
        """The first of these that is there, found without case; None if none is."""
        return next((self._folded[key] for key in keys if key in self._folded), None)

    def written(self, *keys: str) -> Iterator[str]:
        """The single values of these keys, exactly as written: `1.10` and `no` are the texts `1.10` and `no`."""
        return (self._written[key] for key in keys if self._folded.get(key) is not None and key in self._written)

    def __contains__(self, key: str) -> bool:
        return key in self._folded


def split(text: str) -> Split:
    """Find the block: `---` on the very first line, down to a line of `---` or `...`. Unclosed, it is body."""
    opening = _OPENING.match(text)
    if opening is None:
        return Split(None, 0)
    closing = _CLOSING.search(text, opening.end() - 1)
    if closing is None:
        return Split(None, 0)
    return Split(text[opening.end() : closing.start() + 1], closing.end())


def read(block: str) -> Frontmatter:
    """The properties in a block; empty, with a warning, if it can't be used."""
    if len(block) > MAX_BYTES or len(block.encode("utf-8", "replace")) > MAX_BYTES:
        return Frontmatter(warnings=("the frontmatter has more than 64 KiB and is not read",))
    try:
        return _Builder().build(block)
    except _Refused as refused:
        return Frontmatter(warnings=(f"the frontmatter is not read: line {refused.line}: {refused.reason}",))
    except yaml.MarkedYAMLError as bad:
        line = bad.problem_mark.line + _FIRST_LINE if bad.problem_mark else _FIRST_LINE
        return Frontmatter(warnings=(f"the frontmatter is not read: line {line}: no valid YAML",))
    except (yaml.YAMLError, ValueError):  # characters that YAML does not allow
        return Frontmatter(warnings=("the frontmatter is not read: no valid YAML",))


class _Refused(Exception):
    def __init__(self, reason: str, event: yaml.Event) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = event.start_mark.line + _FIRST_LINE


@dataclass(slots=True)
class _Map:
    values: dict[str, Json] = field(default_factory=dict[str, Json])
    key: str | None = None


class _Builder:
    """Builds the values of one block from its events."""

    def __init__(self) -> None:
        self._open: list[_Map | list[Json]] = []
        self._result: Json = None
        self._written: dict[str, str] = {}
        self._warnings: list[str] = []

    def build(self, block: str) -> Frontmatter:
        documents = 0
        for event in _events(block):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Refused("more than one YAML document", event)
            elif isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self._begin(event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                ended = self._open.pop()
                self._put(ended.values if isinstance(ended, _Map) else ended, None, event)
            elif isinstance(event, yaml.AliasEvent):
                raise _Refused("aliases are not read", event)
        if not isinstance(self._result, dict):
            if self._result is not None:
                self._warnings.append("the frontmatter is not read: it is not a list of properties")
            return Frontmatter(warnings=tuple(self._warnings))
        folded: dict[str, Json] = {}
        written: dict[str, str] = {}
        for key, value in self._result.items():
            lower = key.lower()
            if lower in folded and key != lower:
                continue  # the key in small letters counts
            folded[lower] = value
            written.pop(lower, None)
            if key in self._written:
                written[lower] = self._written[key]
        return Frontmatter(self._result, tuple(self._warnings), folded, written)

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        self._check(event)
        if len(self._open) == _MAX_DEPTH:
            raise _Refused("nested too deep", event)
        if self._open and isinstance(above := self._open[-1], _Map) and above.key is None:
            raise _Refused("a key is a list or a map", event)  # such as {{date}} in a template
        self._open.append(_Map() if isinstance(event, yaml.MappingStartEvent) else [])

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._check(event)
        text = str(event.value)
        if self._open and isinstance(above := self._open[-1], _Map) and above.key is None:
            above.key = text
            if text in above.values:
                self._warnings.append(
                    f"frontmatter line {event.start_mark.line + _FIRST_LINE}: "
                    "the key was given before; the last value counts"
                )
            return
        tag: str | None = event.tag
        is_plain = bool(event.implicit[0]) if tag is None else tag not in _TEXT_TAGS
        self._put(_plain(text) if is_plain else text, text, event)

    def _put(self, value: Json, written: str | None, event: yaml.Event) -> None:
        if not self._open:
            self._result = value
            return
        above = self._open[-1]
        if isinstance(above, list):
            above.append(value)
            return
        if above.key is None:
            raise _Refused("a value without a key", event)
        above.values[above.key] = value
        if len(self._open) == 1:
            self._written.pop(above.key, None)
            if written is not None:
                self._written[above.key] = written
        above.key = None

    def _check(self, event: yaml.NodeEvent) -> None:
        """Refuse what could share or make objects."""
        if event.anchor is not None:
            raise _Refused("anchors are not read", event)
        tag: str | None = getattr(event, "tag", None)
        if tag is not None and tag not in _KNOWN_TAGS:
            raise _Refused("an unknown tag", event)


def _events(block: str) -> Iterator[yaml.Event]:
    # the stub leaves the parameter without a type
    return cast("Iterator[yaml.Event]", yaml.parse(block, Loader=_LOADER))  # pyright: ignore[reportUnknownMemberType]


def _plain(text: str) -> Json:
    """What an unquoted word means; numbers only where their text comes back from the number."""
    if text in _WORDS:
        return _WORDS[text]
    if text[-1] in "0123456789":
        if _WHOLE.fullmatch(text) and text != "-0":
            return int(text)
        if _FRACTION.fullmatch(text) and repr(number := float(text)) == text:
            return number
    return text
