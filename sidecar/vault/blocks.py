"""Cuts a Markdown body into lines and says what each line is.

Enough of CommonMark to know where sections begin and where code is; whoever
reads tags and links or cuts chunks builds on it. Knows nothing of frontmatter:
it gets the body behind it.

One pass, and every step inside a line is a bounded prefix or a call that runs
in C, so time grows with the length of the text whatever the text is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "blank", "heading", "fence", "code"]

_KEPT_CHARACTERS = 1 << 20  # bodies up to this are kept; a line takes about 150 bytes
_LINE_END = re.compile(r"\r\n|\r|\n")
# The repetition is bounded: deeper quoting is read as text, and a line of ten million `>` stays cheap.
_QUOTE = re.compile(r"(?: {0,3}>){1,32} ?")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)")
# First characters that can begin something other than plain text of a paragraph.
_MARKED = frozenset("#`~=-> \t*+0123456789|<%")
# What can't be the text of a setext heading although a line of dashes follows: quote, table, HTML, comment.
_NEVER_TITLE = (">", "|", "<", "%%")


@dataclass(slots=True)
class Line:
    """One line of a body.

    `start` and `end` are offsets into the body without the line end; the next
    line's `start` lies behind it. Counting the lines from 1 gives line numbers.

    kind     level        heading          info
    heading  1 to 6       its plain text   -        `#` headings, and the text line of an underlined one
    heading  0            -                -        the `===` or `---` under it
    fence    -            -                the info string behind an opening run; "" on a closing one
    code     -            -                the info string of its fence
    """

    start: int
    end: int
    kind: Kind
    level: int = 0
    heading: str = ""
    info: str = ""


@dataclass(slots=True)
class _Fence:
    mark: str
    length: int
    indent: int
    quotes: int
    info: str


def lines(body: str) -> Iterator[Line]:
    """The lines of `body` in order; none for an empty body.

    Line ends are `\\n`, `\\r\\n` and a lone `\\r`. A final line end begins no further line.

    Two choices are narrower than CommonMark. An underline makes a heading of a
    paragraph of one line only: below several lines `---` is nearly always meant
    as a rule. A fence may be indented by four or more blanks inside a list only.
    """
    fence: _Fence | None = None
    in_list = False
    held: Line | None = None  # the last line; the next one may turn it into a heading
    alone = False  # `held` is a paragraph of one line so far
    for start, text in _split(body):
        end = start + len(text)
        if fence is not None:
            line, fence = _in_fence(start, text, fence)
            if line is not None:
                if held is not None:
                    yield held
                held, alone = line, False
                continue
        if not text or text.isspace():
            if held is not None:
                yield held
            held, alone = Line(start, end, "blank"), False
            continue
        if text[0] not in _MARKED:
            in_list = in_list and held is not None and held.kind == "text"
            if held is not None:
                yield held
                alone = held.kind != "text"
            else:
                alone = True
            held = Line(start, end, "text")
            continue
        if alone and held is not None and (level := _underline(text)):
            held.kind, held.level, held.heading = "heading", level, body[held.start : held.end].strip()
            line = Line(start, end, "heading")
            alone = in_list = False
        elif (fence := _opening(text, in_list)) is not None:
            line, alone = Line(start, end, "fence", info=fence.info), False
        elif (heading := _atx(text)) is not None:
            line = Line(start, end, "heading", heading[0], heading[1])
            alone = in_list = False
        else:
            line = Line(start, end, "text")
            item = _LIST_ITEM.match(text) is not None
            in_list = item or (in_list and text[0] in " \t")
            indented = text.startswith(("    ", "\t"))
            fresh = held is None or held.kind != "text"
            alone = fresh and not (item or indented or text.lstrip(" ").startswith(_NEVER_TITLE))
        if held is not None:
            yield held
        held = line
    if held is not None:
        yield held


def outline(body: str) -> Iterable[Line]:
    """`lines`, kept for the next who asks for the same body: a note is read for its marks and then cut."""
    return _kept(body) if len(body) <= _KEPT_CHARACTERS else lines(body)


@functools.lru_cache(maxsize=4)  # one for each thread that prepares notes
def _kept(body: str) -> tuple[Line, ...]:
    return tuple(lines(body))


def _split(body: str) -> Iterator[tuple[int, str]]:
    """Start and text of every line, without line ends. `str.splitlines` knows too many of them."""
    if not body:
        return
    start = 0
    if "\r" not in body:
        for text in body.removesuffix("\n").split("\n"):
            yield start, text
            start += len(text) + 1
        return
    for found in _LINE_END.finditer(body):
        yield start, body[start : found.start()]
        start = found.end()
    if start < len(body):
        yield start, body[start:]


def _underline(text: str) -> int:
    """Level of the heading that this line underlines; 0 if it is no underline."""
    if text.startswith("    "):
        return 0
    run = text.lstrip(" ")
    if run[0] not in "=-":
        return 0
    return (1 if run[0] == "=" else 2) if not run.rstrip(" \t").strip(run[0]) else 0


def _atx(text: str) -> tuple[int, str] | None:
    """Level and text of a `#` heading, trailing `#`s removed; None for any other line."""
    if text.startswith("    "):
        return None
    run = text.lstrip(" ")
    rest = run.lstrip("#")
    level = len(run) - len(rest)
    if not 1 <= level <= 6 or (rest and rest[0] not in " \t"):
        return None
    title = rest.strip()
    shorter = title.rstrip("#")
    if not shorter:
        return level, ""
    return level, shorter.rstrip() if shorter[-1] in " \t" else title


def _opening(text: str, in_list: bool) -> _Fence | None:
    """The fence that this line opens, behind quote marks or a list's indent too."""
    quotes = 0
    if quote := _QUOTE.match(text):
        quotes, text = quote.group().count(">"), text[quote.end() :]
    if not in_list and text.startswith(("    ", "\t")):
        return None
    run = text.lstrip(" \t")
    if not run.startswith(("```", "~~~")):
        return None
    indent = len(text) - len(run)
    mark = run[0]
    rest = run.lstrip(mark)
    if mark == "`" and "`" in rest:  # inline code, such as ```x```
        return None
    return _Fence(mark, len(run) - len(rest), indent, quotes, rest.strip())


def _in_fence(start: int, text: str, fence: _Fence) -> tuple[Line | None, _Fence | None]:
    """The line inside `fence` and the fence that is open behind it.

    No line when a quoted fence ends because the quote does: the line has to be read again as an ordinary one.
    """
    end = start + len(text)
    if fence.quotes:
        quote = _QUOTE.match(text)
        if quote is None or quote.group().count(">") < fence.quotes:
            return None, None
        text = text[quote.end() :]
    run = text.strip(" \t")
    closes = run.startswith(fence.mark) and len(run) >= fence.length and not run.strip(fence.mark)
    if closes and len(text) - len(text.lstrip(" \t")) <= fence.indent + 3:
        return Line(start, end, "fence"), None
    return Line(start, end, "code", info=fence.info), fence
