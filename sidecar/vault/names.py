"""Which names a new note may have: those that every system can store, and that no other system takes for another's.

This is the write profile of the security catalogue, as far as text alone
decides it. What lies on the disk under nearly the same name is compared here
as well, but looked up elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from sidecar.errors import BadPath, Protected
from sidecar.vault.paths import VaultPath, echo, is_hidden, is_inside, is_note_name

MAX_NEW_PATH_BYTES: Final = 1024
MAX_NEW_SEGMENTS: Final = 32

_FORBIDDEN: Final = frozenset('<>:"|?*')
_DEVICES: Final = re.compile(
    r"(?:CON|PRN|AUX|NUL|CLOCK\$|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9¹²³]) *(?:\..*)?", re.I | re.S
)
# What Windows makes of a long name, `OBSIDI~1` of `.obsidian`: there such a name leads to the long one's file.
_SHORT_NAME: Final = re.compile(r"[^.]{1,6}~[0-9]{1,6}(?:\.[^.]{0,3})?")
# Letters and marks that show nothing; the catalogue's other invisible characters have a category of their own.
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def writable(raw: str, *, by: str) -> VaultPath:
    """A note that a caller wants to write. Whether the name is NFC, short or a twin is `is_ready_for_all`'s part.

    `by` ends the sentence of a refusal: "written by a client".

    Raises:
        BadPath: no path inside the vault, not one of a note, or not a name for every system.
        Protected: a part of it begins with a dot.
    """
    if not is_inside(raw):
        raise BadPath(f"'{echo(raw)}' is not a path inside the vault; use one like 'Folder/Note.md'.")
    parts = raw.split("/")
    if any(map(is_hidden, parts)):
        raise protected(raw, by=by)
    if (
        len(parts) > MAX_NEW_SEGMENTS
        or len(raw.encode()) > MAX_NEW_PATH_BYTES
        or not all(_is_portable(part) for part in parts)
    ):
        raise bad_name(raw)
    if not is_note_name(raw):
        raise BadPath(f"'{echo(raw)}' is not a note; notes end in .md.")
    return VaultPath(raw)


def protected(raw: str, *, by: str) -> Protected:
    """The error for a path that callers may not change."""
    return Protected(f"'{echo(raw)}' is protected: agent files, the memory note and dot folders can't be {by}.")


def bad_name(raw: str) -> BadPath:
    """The error for a name that some system could not store."""
    return BadPath(
        f"'{echo(raw)}' is not a name every system can store;"
        ' avoid < > : " | ? *, final dots and blanks, and reserved names.'
    )


def is_ready_for_all(segment: str) -> bool:
    """Whether a new entry may be called so: in NFC, and not like the short names of Windows.

    Asked of new names only. One that is on the disk already was somebody's choice.
    """
    return unicodedata.is_normalized("NFC", segment) and not _SHORT_NAME.fullmatch(segment)


def twin_in(names: Iterable[str], wanted: str) -> str | None:
    """Another one of `names` that differs from `wanted` only in case or Unicode form."""
    form = _form(wanted)
    return next((name for name in names if name != wanted and _form(name) == form), None)


def differ_in_case(one: str, other: str) -> bool:
    """Whether two twins differ in case, not only in Unicode form."""
    return unicodedata.normalize("NFC", one) != unicodedata.normalize("NFC", other)


def folded(path: str) -> str:
    """Equal for all spellings of a path that any disk takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _form(name: str) -> str:
    """As disks compare names: letter by letter, so that 'Maße' and 'Masse' stay two words."""
    letters = (
        folded if len(folded := letter.casefold()) == 1 else letter for letter in unicodedata.normalize("NFC", name)
    )
    return unicodedata.normalize("NFC", "".join(letters))


def _is_portable(segment: str) -> bool:
    if segment[-1] == "." or segment[-1].isspace() or _DEVICES.fullmatch(segment):
        return False
    if segment.isascii() and segment.isprintable():
        return _FORBIDDEN.isdisjoint(segment)
    return not any(
        letter in _FORBIDDEN
        or letter in _INVISIBLE
        or unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        or ord(letter) & 0xFFFE == 0xFFFE  # no characters at all, and refused by macOS
        or "\ufdd0" <= letter <= "\ufdef"
        for letter in segment
    )
