"""Edits JSON in place: whatever isn't changed keeps its bytes, comments, order and blanks.

Comments and commas before a closing bracket are read as the editors read them
(JSONC). An edit is a list of replaced spans, so nothing is ever written anew
but the members that differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sidecar.cli.clients.broken import Broken, at_position

_DEEPEST = 200
_UNIT = "  "  # indentation where a file shows none of its own

# possessive, so that no text makes the search go back and forth
_SKIPPED = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*+"')
_BLANKS = re.compile(r"[ \t]*")
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null")


def read(text: str) -> dict[str, Any]:
    """The object in a text; an empty one where there is nothing but blanks and comments.

    Raises:
        Broken: it is no JSON, or no object.
    """
    return cast("dict[str, Any]", node.value) if (node := _Reader(text).whole()) else {}


def put(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """The text with the object at `path` equal to `value`; objects on the way are made where they are missing.

    Members that are equal already are left alone. The object is written anew
    only where it has members that `value` has not.

    Raises:
        Broken: as `read`; or something on the way is no object, or stands there twice.
    """
    root = _Reader(text).whole()
    style = _Style.of(text, root)
    if root is None:
        start = text.rstrip()
        nested = style.render(_nested(path, value), "")
        return (start + style.newline if start else "") + nested + style.newline
    node = root
    for depth, key in enumerate(path):
        member = _only(text, node, key)
        if member is None:
            return _apply(text, _inserted(text, style, node, {key: _nested(path[depth + 1 :], value)}))
        if member.node.members is None:
            raise at_position(text, member.node.start, f'"{key}" must be an object')
        node = member.node
    return _apply(text, _changed(text, style, node, value))


def render(path: Sequence[str], value: Mapping[str, Any]) -> str:
    """A whole text with just `value` at `path`."""
    return put("", path, value)


@dataclass(frozen=True, slots=True)
class _Node:
    """A value and where it stands. `members` are those of an object; None for any other value."""

    start: int
    end: int
    value: Any
    members: tuple[_Member, ...] | None = None
    comma: bool = False
    """Does a comma follow the last member?"""


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    node: _Node


class _Reader:
    """Reads one text from front to back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> _Node | None:
        """The object that the text is; None where it is blank."""
        self._skip()
        if self._at == len(self._text):
            return None
        node = self._value(0)
        if node.members is None:
            raise at_position(self._text, node.start, "an object in braces is expected")
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("something follows the end of the object")
        return node

    def _wrong(self, what: str) -> Broken:
        return at_position(self._text, self._at, what)

    def _skip(self) -> None:
        found = _SKIPPED.match(self._text, self._at)
        self._at = found.end() if found else self._at
        if self._text.startswith("/*", self._at):
            raise self._wrong("a comment has no end")

    def _takes(self, sign: str) -> bool:
        """Step over `sign` and what may be skipped around it, if it comes next."""
        self._skip()
        if not self._text.startswith(sign, self._at):
            return False
        self._at += 1
        self._skip()
        return True

    def _value(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise self._wrong("this is nested too deeply")
        start = self._at
        if self._text.startswith("{", start):
            return self._object(depth)
        if self._text.startswith("[", start):
            return self._array(depth)
        if self._text.startswith('"', start):
            value = self._string()
            return _Node(start, self._at, value)
        found = _PLAIN.match(self._text, start)
        if found is None:
            raise self._wrong("a value is expected")
        self._at = found.end()
        try:
            return _Node(start, self._at, json.loads(found[0]))
        except ValueError as error:  # a number with thousands of digits
            raise at_position(self._text, start, "this number is too long") from error

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            raise self._wrong("a text has no end")
        try:
            value = json.loads(found[0])
        except ValueError as error:
            raise self._wrong("a text has a wrong escape") from error
        self._at = found.end()
        return str(value)

    def _object(self, depth: int) -> _Node:
        start = self._at
        members: list[_Member] = []
        comma = False
        self._takes("{")
        while not self._text.startswith("}", self._at):
            if members and not comma:
                raise self._wrong("a comma or a closing brace is expected")
            member_start = self._at
            if not self._text.startswith('"', member_start):
                raise self._wrong("a name in double quotes is expected")
            key = self._string()
            if not self._takes(":"):
                raise self._wrong("a colon is expected")
            members.append(_Member(key, member_start, self._value(depth + 1)))
            comma = self._takes(",")
        self._at += 1
        value = {member.key: member.node.value for member in members}
        return _Node(start, self._at, value, tuple(members), comma)

    def _array(self, depth: int) -> _Node:
        start = self._at
        items: list[Any] = []
        comma = False
        self._takes("[")
        while not self._text.startswith("]", self._at):
            if items and not comma:
                raise self._wrong("a comma or a closing bracket is expected")
            items.append(self._value(depth + 1).value)
            comma = self._takes(",")
        self._at += 1
        return _Node(start, self._at, items)


@dataclass(frozen=True, slots=True)
class _Edit:
    """Put `text` in the place of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


def _apply(text: str, edits: Iterator[_Edit]) -> str:
    """Edits at one place keep their order."""
    parts: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        parts += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join([*parts, text[done:]])


@dataclass(frozen=True, slots=True)
class _Style:
    """How a file is laid out, as far as it shows."""

    newline: str
    unit: str

    @classmethod
    def of(cls, text: str, root: _Node | None) -> _Style:
        """The first line end, and the indentation of the first member, decide."""
        first = text.find("\n")
        newline = "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
        members = root.members if root else None
        unit = _own_line(text, members[0].start) if members else None
        return cls(newline, unit or _UNIT)

    def render(self, value: Any, indent: str) -> str:
        """A value whose lines after the first are indented by `indent` and more."""
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return lines.replace("\n", self.newline + indent)  # texts hold no bare line end


def _changed(text: str, style: _Style, node: _Node, value: Mapping[str, Any]) -> Iterator[_Edit]:
    """Make the object `node` equal to `value`."""
    if not set(node.value) <= set(value):
        indent = _line_indent(text, node.start)
        yield _Edit(node.start, node.end, style.render(value, indent))
        return
    for key, wanted in value.items():
        member = _only(text, node, key)
        if member is None or _same(member.node.value, wanted):
            continue
        if member.node.members is not None and isinstance(wanted, Mapping):
            yield from _changed(text, style, member.node, cast("Mapping[str, Any]", wanted))
        else:
            indent = _line_indent(text, member.start)
            yield _Edit(member.node.start, member.node.end, style.render(wanted, indent))
    new = {key: wanted for key, wanted in value.items() if key not in node.value}
    if new:
        yield from _inserted(text, style, node, new)


def _inserted(text: str, style: _Style, node: _Node, members: Mapping[str, Any]) -> Iterator[_Edit]:
    """Put members at the end of an object, laid out as its last one is."""
    assert node.members is not None
    last = node.members[-1] if node.members else None
    after = _last_sign(text, node, last)
    base = _line_indent(text, node.start)
    indent = _own_line(text, last.start) if last else base + style.unit
    if last and not node.comma:
        yield _Edit(last.node.end, last.node.end, ",")
    if indent is None and "\n" not in text[last.start if last else after : node.end]:  # all in one line
        rendered = ", ".join(_member(key, json.dumps(value, ensure_ascii=False)) for key, value in members.items())
        yield _Edit(after, after, " " + rendered + ("," if node.comma else ""))
        return
    indent = base + style.unit if indent is None else indent
    lead = style.newline + indent
    rendered = ",".join(lead + _member(key, style.render(value, indent)) for key, value in members.items())
    rendered += "," if node.comma else ""
    if last or "\n" in text[after : node.end]:
        yield _Edit(after, after, rendered)
    else:
        yield _Edit(after, node.end - 1, rendered + style.newline + base)  # the brace gets a line of its own


def _last_sign(text: str, node: _Node, last: _Member | None) -> int:
    """Behind the last thing inside an object: a member, its comma, a comment or the brace itself.

    Blanks before a line end count as well: they may be the end of a comment.
    """
    at = last.node.end if last else node.start + 1
    end = at + len(text[at : node.end - 1].rstrip())
    blanks = _BLANKS.match(text, end)
    return blanks.end() if blanks and text[blanks.end()] in "\r\n" else end


def _member(key: str, rendered: str) -> str:
    return f"{json.dumps(key, ensure_ascii=False)}: {rendered}"


def _only(text: str, node: _Node, key: str) -> _Member | None:
    """The member of that name; programs differ in which of two they take."""
    found = [member for member in node.members or () if member.key == key]
    if len(found) > 1:
        raise at_position(text, found[1].start, f'"{key}" stands there twice')
    return found[0] if found else None


def _nested(path: Sequence[str], value: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return value


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 and true are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _line_indent(text: str, position: int) -> str:
    """The blanks at the start of the line that holds a character."""
    found = _BLANKS.match(text, text.rfind("\n", 0, position) + 1)
    return found[0] if found else ""


def _own_line(text: str, position: int) -> str | None:
    """The blanks before a character if it is the first of its line, and not of the first line; else None."""
    start = text.rfind("\n", 0, position) + 1
    blanks = text[start:position]
    return blanks if start and not blanks.strip(" \t") else None
