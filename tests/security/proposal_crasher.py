"""A daemon that ends itself, as if by kill -9, at a named point of proposing or of applying.

python proposal_crasher.py POINT ARGUMENTS OF vault-sidecar
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from sidecar.cli.main import main
from sidecar.services.applying import Journal
from sidecar.services.proposal_store import ProposalStore
from sidecar.vault.files import Files
from sidecar.vault.folder_posix import PosixFolder
from sidecar.vault.paths import VaultPath

POINT = sys.argv.pop(1)


def end(point: str) -> None:
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def after(owner: type, name: str, point_of: Callable[..., str | None]) -> None:
    """End at a point that is named by the arguments, once the call is done."""
    real = getattr(owner, name)

    def call(*args: Any, **more: Any) -> Any:
        result = real(*args, **more)
        end(point_of(*args, **more) or "")
        return result

    setattr(owner, name, call)


make_file, write = PosixFolder.make_file, os.write
patches: set[int] = set()


def faulty_make_file(folder: PosixFolder, name: str) -> int:
    descriptor = make_file(folder, name)
    if name.startswith(".changes.patch."):
        patches.add(descriptor)
    return descriptor


def faulty_write(descriptor: int, data: bytes) -> int:
    if descriptor in patches and POINT == "proposal half":
        write(descriptor, bytes(data)[: len(data) // 2])
        end("proposal half")
    return write(descriptor, data)


def created(files: Files, path: VaultPath, data: bytes) -> str | None:
    return {"proposal.json": "record written", "changes.patch": "patch written", "New.md": "new note written"}.get(
        path.name
    )


PosixFolder.make_file = faulty_make_file  # type: ignore[method-assign]
os.write = faulty_write  # type: ignore[assignment]
after(PosixFolder, "make_folder", lambda _, name: "folder made" if name.startswith(".0") else None)
after(Files, "create", created)
after(PosixFolder, "move", lambda _, name, over: "has its name" if name.startswith(".0") else None)
after(ProposalStore, "add", lambda *_: "stored")
after(Journal, "write", lambda *_: "noted")
after(Files, "change", lambda _, path, *rest, **more: f"{path.name} written")
after(ProposalStore, "stamp", lambda *_: "stamped")

if __name__ == "__main__":
    sys.exit(main())
