"""Keeps a corpus to a number of files: those that are indexed stay, others come in while there is room."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

logger = logging.getLogger(__name__)


class Crowd:
    """The files of a folder that are let in, and those that are not. Used by one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: set[str] = set()
        self._outside: set[str] = set()

    @property
    def problem(self) -> str | None:
        """A sentence for people if files are left out."""
        if not self._outside:
            return None
        left_out = "1 file is" if len(self._outside) == 1 else f"{len(self._outside):,} files are"
        return f"{left_out} left out: at most {self._most:,} of one folder are indexed."

    def admit_all(self, found: Iterable[str], indexed: Collection[str]) -> list[str]:
        """Of all files of the folder those that are let in: indexed ones first, then by name."""
        order = sorted(found, key=lambda path: (path not in indexed, path))
        before = self.problem
        self._inside, self._outside = set(order[: self._most]), set(order[self._most :])
        if self.problem and self.problem != before:
            logger.warning("%s", self.problem)
        return order[: self._most]

    def admit(self, path: str) -> bool:
        """Whether this file is let in."""
        if path not in self._inside:
            if len(self._inside) >= self._most:
                self._outside.add(path)
                return False
            self._outside.discard(path)
            self._inside.add(path)
        return True

    def leave(self, path: str) -> None:
        """This file is gone; its place is free."""
        self._inside.discard(path)
        self._outside.discard(path)
