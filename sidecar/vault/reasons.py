"""Why the system refused something, in words that name no path."""

from __future__ import annotations

import errno
import os
from typing import Final

A_LINK: Final = "it is a link, and links are not followed"
NOT_REGULAR: Final = "it is not a regular file"
OTHER_DEVICE: Final = "it is on another device"

_IN_USE: Final = "another program holds it open"
_WORDS: Final = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: A_LINK,
    errno.EMLINK: A_LINK,
    errno.ENXIO: NOT_REGULAR,  # a socket
    errno.EOPNOTSUPP: NOT_REGULAR,  # a socket on macOS
    errno.ENODEV: NOT_REGULAR,
    errno.EXDEV: OTHER_DEVICE,
    errno.ENOSPC: "no space left",
    errno.EBUSY: _IN_USE,
    errno.ETXTBSY: _IN_USE,
}


def reason_of(failed: Exception) -> str:
    """Why a call failed; small letters, no full stop."""
    if isinstance(failed, OSError) and failed.errno is not None:
        return _WORDS.get(failed.errno) or os.strerror(failed.errno).lower()
    return "it leads in a circle"
