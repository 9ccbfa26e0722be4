"""What a database may be called, and which folders may be one. Blocks where it looks at folders."""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.bridge.places import true_path
from sidecar.errors import BadArguments
from sidecar.vault.paths import echo

_LONGEST: Final = 64
_SIGNS: Final = frozenset("_.-")
_KEY_FILES: Final = ("local.key", "lock")
"""Every state folder that was ever served from holds these."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The folders that decide what else may be a database."""

    state_dir: Path
    vault: Path
    home: Path


def name_of(raw: str) -> str:
    """The name that is meant: blanks become `_`, and letters are composed.

    Raises:
        BadArguments: it can't be the name of a database.
    """
    name = unicodedata.normalize("NFC", "".join("_" if letter.isspace() else letter for letter in raw))
    if not 1 <= len(name) <= _LONGEST or name.startswith(".") or not all(map(_is_allowed, name)):
        raise BadArguments(f"'{echo(raw)}' is not a database name; use letters, digits, _ . and -.")
    return name


def _is_allowed(letter: str) -> bool:
    # marks belong to letters: without them no word could be written in Hindi or Thai
    return letter in _SIGNS or unicodedata.category(letter) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd")


def folded(name: str) -> str:
    """What is the same for names that differ in case at most, of which only one may be given."""
    return unicodedata.normalize("NFC", name.casefold())


def folder_of(raw: str, ground: Ground) -> Path:
    """The folder that is meant, without links in the way to it.

    Raises:
        BadArguments: there is none, or it must not be a database.
    """
    path = Path(raw)
    try:
        found = os.lstat(path) if path.is_absolute() else None
    except (OSError, ValueError):
        found = None
    # Windows has more kinds of links than one; all of them are reparse points
    is_link = found is not None and (stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0)))
    if found is None or not (is_link or stat.S_ISDIR(found.st_mode)):
        raise BadArguments("There is no folder at that path.")
    folder = true_path(path)
    why = "it is a link" if is_link else _why_not(folder, ground)
    if why:
        raise BadArguments(f"That folder can't be a database: {why}.")
    return folder


def still_folder_of(folder: Path, ground: Ground) -> Path:
    """A folder that was taken once, if it would be now.

    Who may change what is around it, such as synchronisation in a vault, may have put a link in its place, or in the
    place of a folder above: then files from elsewhere would be told as those of this folder.

    Raises:
        BadArguments: it is not there, or must not be a database.
    """
    folder_of(str(folder), ground)
    if folder.resolve() != folder:
        raise BadArguments("That folder can't be a database: the way to it leads through a link by now.")
    return folder


def _why_not(folder: Path, ground: Ground) -> str | None:
    if folder.parent == folder:
        return "it is a root folder"
    if not _is_utf8(folder):  # no answer could name a file in it
        return "its path is not UTF-8"
    if _is_same(folder, ground.home):
        return "it is the home folder"
    if _is_within(ground.home, folder):
        return "the home folder lies in it"
    if _is_within(ground.state_dir, folder) or _is_within(folder, ground.state_dir):
        return "it holds the state of vault-sidecar, or lies in it"
    if any(all(os.path.exists(outer / name) for name in _KEY_FILES) for outer in (folder, *folder.parents)):
        return "it lies in the state of vault-sidecar for another vault"
    if folder.name.startswith("."):
        return "its name starts with a dot"
    if _is_within(folder, ground.vault) and any(part.startswith(".") for part in _below(folder, ground.vault)):
        return "it lies in a folder of the vault whose name starts with a dot"
    return None


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return False


def _is_within(path: Path, folder: Path) -> bool:
    """Is `path` the folder or below it? By identity on disk, since names can differ in case."""
    return any(_is_same(outer, folder) for outer in (path, *path.parents))


def _below(folder: Path, vault: Path) -> tuple[str, ...]:
    """Names of the folders from below the vault to this one."""
    inner: list[str] = []
    for outer in (folder, *folder.parents):
        if _is_same(outer, vault):
            break
        inner.append(outer.name)
    return tuple(inner)
