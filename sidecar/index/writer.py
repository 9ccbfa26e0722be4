"""What the second stage of indexing needs of the first: the one place where the manifest is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from sidecar.index.manifest import Manifest

T = TypeVar("T")


class Writer(Protocol):
    """Runs changes of the manifest where all of them run."""

    @property
    def is_filling(self) -> bool:
        """Keyword backfill goes on; it gets the processor first, so that every note is found by its words soon."""
        ...

    async def write(self, change: Callable[[Manifest], T]) -> T:
        """Do one change and publish the new generation."""
        ...
