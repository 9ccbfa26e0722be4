"""What keeps the manifest from being used: it is damaged, and is made again, or the disk takes nothing for now."""

from __future__ import annotations

import logging
from typing import Final

from sidecar.index.trouble import damage_in_words, disk_trouble, is_damage

logger = logging.getLogger(__name__)

_NO_ROOM_S: Final = 5.0
_LONGEST_NO_ROOM_S: Final = 30.0
"""How soon writing is tried again after the disk took nothing; later each time, but not later than that."""


class Health:
    """Used on the loop alone."""

    def __init__(self) -> None:
        self.distrusted: str | None = None
        """Why the manifest is about to be made again, as the end of a sentence that begins with "the manifest"."""
        self.trouble: str | None = None
        """Why nothing can be written, as the end of a sentence."""
        self._wait_s = _NO_ROOM_S

    @property
    def is_good(self) -> bool:
        """The manifest can be written, as far as is known."""
        return not (self.distrusted or self.trouble)

    @property
    def problem(self) -> str | None:
        """A sentence for people if nothing can be indexed now."""
        if self.trouble is None:
            return None
        return f"Nothing can be indexed now, because {self.trouble}. It goes on by itself once it can."

    def distrust(self, reason: str) -> None:
        """The manifest was found to be no good. The first reason counts."""
        self.distrusted = self.distrusted or reason

    def explains(self, failed: Exception) -> bool:
        """Whether a failure is the fault of the manifest or of the disk, which is known from now on."""
        if is_damage(failed):
            self.distrust(damage_in_words(failed))
        elif trouble := disk_trouble(failed) or (str(failed) if self.distrusted else None):
            if self.trouble is None:
                logger.warning("nothing can be indexed now, because %s; what was indexed is still found", trouble)
            self.trouble = trouble
        else:
            return False
        return True

    def next_wait_s(self) -> float:
        """How long to wait for the disk, longer each time."""
        wait_s, self._wait_s = self._wait_s, min(self._wait_s * 2, _LONGEST_NO_ROOM_S)
        return wait_s

    def disk_is_back(self) -> None:
        """It took what was written."""
        self.trouble, self._wait_s = None, _NO_ROOM_S
