"""The fingerprints of main tokens that were replaced: by them the set-up that a client still has is known as ours.

They let nobody in. The file is a convenience: where it can't be read, nothing is known.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Final, cast

from sidecar.bridge import private_files
from sidecar.errors import SidecarError

logger = logging.getLogger(__name__)

FILE_NAME: Final = "former_tokens.json"
_MOST: Final = 100


def read(state_dir: Path) -> list[str]:
    """As `token.fingerprint` made them, oldest first. Blocks."""
    try:
        raw: Any = json.loads(private_files.read(state_dir / FILE_NAME) or b"[]")
    except (SidecarError, ValueError, RecursionError) as error:
        logger.debug("%s can't be used: %s", FILE_NAME, type(error).__name__)
        return []
    return [each for each in cast("list[Any]", raw) if isinstance(each, str)] if isinstance(raw, list) else []


def add(state_dir: Path, fingerprint: str) -> None:
    """Keep one more, and the newest hundred. Blocks; only the holder of the vault's lock may call it.

    Raises:
        Unreadable: the disk refused.
    """
    kept = [*read(state_dir), fingerprint][-_MOST:]
    private_files.write(state_dir / FILE_NAME, json.dumps(kept, indent=0).encode() + b"\n")
