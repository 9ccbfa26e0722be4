"""Paths inside the vault: text from outside is checked here, once, and is a `VaultPath` from then on.

The rules are the same on every system (the read profile of the security
catalogue). Nothing here looks at the disk, so no message can tell whether
something exists; opening is the jail's part.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

from sidecar.errors import BadPath, NotFound

NOTE_SUFFIX: Final = ".md"
MAX_SEGMENT_BYTES: Final = 255  # the limit of every file system we can meet
MAX_PATH_BYTES: Final = 4096  # PATH_MAX of Linux
MAX_SEGMENTS: Final = 256
_ECHO_CHARACTERS = 80


@dataclass(frozen=True, slots=True, order=True)
class VaultPath:
    """A path inside the vault, `/` between its segments, "" for the vault itself.

    Get one from `note`, `folder` or `found`; the constructor checks nothing.
    Order is the code point order of the whole text.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def parts(self) -> tuple[str, ...]:
        """The segments; none for the vault itself."""
        return tuple(self.text.split("/")) if self.text else ()

    @property
    def name(self) -> str:
        """The last segment."""
        return self.text[self.text.rfind("/") + 1 :]

    @property
    def stem(self) -> str:
        """The name without the suffix of a note."""
        name = self.name
        return name[: -len(NOTE_SUFFIX)] if is_note_name(name) else name

    @property
    def parent(self) -> VaultPath:
        """The folder it is in; the vault's parent is the vault."""
        return VaultPath(self.text[: max(self.text.rfind("/"), 0)])

    @classmethod
    def root(cls) -> VaultPath:
        """The vault itself."""
        return cls("")

    @classmethod
    def note(cls, raw: str) -> VaultPath:
        """A note named by a caller.

        Raises:
            BadPath: the text is no path inside the vault, or not one of a note.
        """
        if not is_inside(raw) or any(is_hidden(part) for part in raw.split("/")):
            raise BadPath(f"'{echo(raw)}' is not a path inside the vault; use one like 'Folder/Note.md'.")
        if not is_note_name(raw):
            raise BadPath(f"'{echo(raw)}' is not a note; notes end in .md.")
        return cls(raw)

    @classmethod
    def folder(cls, raw: str) -> VaultPath:
        """A folder named by a caller, with or without a final `/`; empty is the vault itself.

        Raises:
            BadPath: the text is no path inside the vault.
            NotFound: it goes through a dot-named folder; those do not exist for callers.
        """
        if not raw:
            return cls("")
        text = raw.removesuffix("/")
        if not is_inside(text):
            raise BadPath(f"'{echo(raw)}' is not a folder inside the vault; use one like 'Projects'.")
        path = cls(text)
        if any(is_hidden(part) for part in path.parts):
            raise no_folder(path)
        return path

    @classmethod
    def found(cls, text: str) -> VaultPath:
        """A path met on disk. It may hold what callers can't ask for, such as a backslash or a line end.

        Raises:
            BadPath: a segment is empty or begins with a dot, or it is too deep.
        """
        if is_too_deep(text) or (text and any(not part or is_hidden(part) for part in text.split("/"))):
            raise BadPath(f"'{echo(text)}' is not a path inside the vault; use one like 'Folder/Note.md'.")
        return cls(text)


def no_note(path: VaultPath) -> NotFound:
    """The error for a note that is not there."""
    return NotFound(f"There is no note '{echo(path.text)}'.")


def no_folder(path: VaultPath) -> NotFound:
    """The error for a folder that is not there."""
    return NotFound(f"There is no folder '{echo(path.text)}' in the vault.")


def is_note_name(name: str) -> bool:
    """Whether a file of this name or path is a note; the case of the suffix does not matter."""
    return name[-3:].lower() == NOTE_SUFFIX


def is_too_deep(text: str) -> bool:
    """Whether a path met on disk has more segments or bytes than a caller may ask for."""
    if text.count("/") >= MAX_SEGMENTS:
        return True
    # four bytes a character at most; "surrogatepass" because a name need not be UTF-8
    return len(text) > MAX_PATH_BYTES // 4 and len(text.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES


def is_hidden(segment: str) -> bool:
    """Whether a file or folder of this name stays invisible: it begins with a dot.

    Some file systems leave invisible characters out when they compare names, so
    a dot behind such characters counts too.
    """
    if segment.isascii():
        return segment.startswith(".")
    for character in segment:
        if unicodedata.category(character) != "Cf":
            return character == "."
    return False


def printable(text: str) -> str:
    """`text` on one line: control characters, line separators and what can't be encoded become `\\n`, `\\u001b` …"""
    return text if text.isprintable() else "".join(map(_printable, text))


def echo(text: str) -> str:
    """What a caller sent, as it may stand in a message: printable, cut at 80 characters."""
    cut = text if len(text) <= _ECHO_CHARACTERS else text[:_ECHO_CHARACTERS] + "…"
    return printable(cut)


def is_inside(raw: str) -> bool:
    """The read profile without its rules on dot names and suffixes: whether a caller's text is a path in the vault."""
    if not raw.strip() or "\\" in raw or (raw[1:2] == ":" and raw[0].isascii() and raw[0].isalpha()):
        return False
    try:
        size = len(raw.encode())
    except UnicodeEncodeError:  # a lone surrogate
        return False
    if size > MAX_PATH_BYTES or (not raw.isprintable() and any(unicodedata.category(c) == "Cc" for c in raw)):
        return False
    parts = raw.split("/")
    return len(parts) <= MAX_SEGMENTS and all(
        part not in ("", ".", "..") and len(part.encode()) <= MAX_SEGMENT_BYTES for part in parts
    )


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _printable(character: str) -> str:
    if unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp"):
        return character
    return _SHORT.get(character) or f"\\u{ord(character):04x}"
