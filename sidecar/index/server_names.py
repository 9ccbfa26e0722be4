"""What a corpus calls its collections on a Chroma server, where others may have theirs."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from sidecar.bridge import private_files
from sidecar.index.store_folder import name_for

FILE = "collection"


def collection_of(state_dir: Path) -> str:
    """Begins the names of this corpus's collections; the embedder's name follows. Blocks.

    Half of it is random and kept in the state folder: a vault at the same path of another computer has other chunks
    under the same ids, and must not come upon these. The other half is the state folder's own name, so that a copied
    state folder does not share it.

    Raises:
        Unreadable: the file can't be kept.
    """
    path = state_dir / FILE
    kept = (private_files.read(path) or b"").decode("ascii", "replace").strip()
    if not re.fullmatch(r"[0-9a-f]{16}", kept):
        kept = secrets.token_hex(8)
        private_files.write(path, f"{kept}\n".encode("ascii"))
    return f"{name_for(state_dir.name)}-{kept}"
