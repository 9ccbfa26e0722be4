"""The file `token` in the state folder: the one word on which token is valid.

It holds the token itself, or the name of the entry in the system's keyring that
holds it. Every token has an entry of its own, and the file is replaced in one
step. So no write to a keyring, however late it ends, can make a token valid or
harm the one that is; and after a crash the file says which of two it is.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

from sidecar.bridge import private_files
from sidecar.errors import Unreadable

logger = logging.getLogger(__name__)

FILE_NAME = "token"

_ENTRY = re.compile(r"keyring ([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class Entry:
    """The token is in the keyring, in the entry of this name (`token.fingerprint`)."""

    name: str


def read(state_dir: Path) -> str | Entry | None:
    """What the file holds: a token as it stands there, perhaps damaged; an entry; or None if there is none. Blocks.

    Raises:
        Unreadable, TooLarge: the file can't be believed, by the rule of `private_files`.
    """
    content = private_files.read(state_dir / FILE_NAME, max_bytes=1 << 12)
    if content is None:
        return None
    text = content.decode("ascii", "replace").strip()
    entry = _ENTRY.fullmatch(text)
    return Entry(entry[1]) if entry else text


def write(state_dir: Path, content: str | Entry) -> None:
    """Make another token the valid one, in one step. Blocks.

    Raises:
        Unreadable: the disk refused, and the file is as it was.
    """
    line = f"keyring {content.name}" if isinstance(content, Entry) else content
    try:
        private_files.write(state_dir / FILE_NAME, line.encode() + b"\n")
    except Unreadable:
        # The last step, the folder's sync, may fail after the file was replaced. What counts is what will be read.
        if read(state_dir) != content:
            raise
        logger.warning("the disk did not confirm the new token; a power cut now may bring the old one back")
