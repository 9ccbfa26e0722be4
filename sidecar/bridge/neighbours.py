"""Other vaults that are served on this computer by the same user."""

from __future__ import annotations

from pathlib import Path

from sidecar.bridge import client
from sidecar.errors import SidecarError


def vault_on(port: int, root: Path) -> str | None:
    """The name of the vault whose daemon listens on the port and has proved it; None if there is none. Blocks.

    `root` holds the state folders. A name is as good as that of a state folder: other letters are left out of it.
    """
    try:
        folders = sorted(root.iterdir())
    except OSError:
        return None
    for folder in folders:
        try:
            published, key = client.recorded(folder)
            if published.port == port:
                client.connect(published, key).close()
                return folder.name.rpartition("-")[0]
        except SidecarError:  # no state folder, or its daemon has gone
            continue
    return None
