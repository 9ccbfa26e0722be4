"""What the indexer is asked to look at: single paths, which were just saved, or the whole vault.

Orders only name what may have changed. Given twice, they are done once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sidecar.vault.ignore import IGNORE_FILE

_SECOND_LOOK_S = 1.0
"""A folder that appeared is looked at again: files may have come in before it was watched."""


class Scan(NamedTuple):
    """How the whole vault is compared with the index."""

    again: bool = False
    """Every note is taken as new, and the caches are made again."""
    may_be_empty: bool = False
    """A vault without a note is believed, whatever was in it before."""

    def and_(self, other: Scan) -> Scan:
        """What both want, in one scan."""
        return Scan(self.again or other.again, self.may_be_empty or other.may_be_empty)


class Orders:
    """Used on the loop alone. One takes them, anybody gives them."""

    def __init__(self) -> None:
        self.given = asyncio.Event()
        """Set by every order; whoever is about to wait clears it first."""
        self.number = 0
        """Of the last order to look at a file that we changed ourselves."""
        self.is_rebuilding = False
        """Every note is to be taken as new, and that is not through yet."""
        self.is_scan_due = False
        self._scan = Scan()
        self._paths: dict[str, None] = {}
        self._second_looks: set[str] = set()

    def changed(self, paths: Iterable[str]) -> None:
        """These files or folders may have changed; `""` means anything may have."""
        new = dict.fromkeys(paths)
        if "" in new or IGNORE_FILE in new:
            self.scan()
        self._paths.update(new)
        self._paths.pop("", None)
        self.given.set()

    def look_at(self, path: str) -> int:
        """A file was changed by ourselves. The number is that of the order."""
        self.number += 1
        self.changed([path])
        return self.number

    def scan(self, *, again: bool = False) -> None:
        """Compare the whole vault soon. `again`: take every note as new; believe the vault, too, if it is empty."""
        self.is_scan_due = True
        self.with_next_scan(Scan(again, again))
        self.given.set()

    def with_next_scan(self, wish: Scan) -> None:
        """The next scan, whenever it is due, is to do this as well."""
        self._scan = self._scan.and_(wish)

    def scan_after_failure(self) -> None:
        """Find again what was not stored. A rebuild that was under way is not known to have come to any note: it
        begins again."""
        self.is_scan_due = True
        self.with_next_scan(Scan(again=self.is_rebuilding))

    @property
    def has_paths(self) -> bool:
        """Single paths are to be looked at."""
        return bool(self._paths)

    def take_scan(self) -> Scan:
        """The scan that is due; from now on it is not."""
        scan, self._scan, self.is_scan_due = self._scan, Scan(), False
        self.is_rebuilding = self.is_rebuilding or scan.again
        return scan

    def take_paths(self) -> tuple[list[str], int]:
        """The paths, and the number of the last of our own files that is among them or was before."""
        paths, self._paths = list(self._paths), {}
        return paths, self.number

    def look_twice(self, named: Iterable[str], folders: Sequence[str]) -> None:
        """Have those of the named paths that are folders, and came up for the first time, looked at once more."""
        first = [folder for folder in folders if folder not in self._second_looks]
        self._second_looks.difference_update(named)  # one that is gone by now may come up again
        if first:
            self._second_looks.update(first)
            asyncio.get_running_loop().call_later(_SECOND_LOOK_S, self.changed, first)
