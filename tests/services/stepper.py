"""Does something again and again, ended as if by kill -9 one step later each time, and says what is left.

python -m tests.services.stepper FOLDER propose|apply [CONTROL]

Prints a line of JSON for each step: its name, what was there, and what is there
once the next process has cleared up. CONTROL takes the defence out.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sidecar.services.applying import Journal
from sidecar.services.proposal_store import ProposalStore
from sidecar.vault.folder_posix import PosixFolder
from tests.services import lone

STEPS = ("make_file", "make_folder", "give", "_rename", "move", "remove", "remove_folder", "sync")
CALLS = ("write", "fsync", "replace", "unlink")


def step_by_step(limit: int, told: Path) -> None:
    """End this process after so many calls that change something."""
    count = 0

    def done(name: str) -> None:
        nonlocal count
        count += 1
        if count == limit:
            told.write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **more: Any) -> Any:
            if name == "write" and count + 1 == limit:
                call(args[0], bytes(args[1])[: len(args[1]) // 2])
                done("half of it written")
            result = call(*args, **more)
            done(name)
            return result

        return counting

    for name in STEPS:
        setattr(PosixFolder, name, counted(name, getattr(PosixFolder, name)))
    for name in CALLS:
        setattr(os, name, counted(name, getattr(os, name)))


def take_out_the_defence(action: str) -> None:
    """Write at the final place; note nothing down."""
    if action == "propose":
        import sidecar.services.proposal_store as store

        place = store._place
        store._place = lambda folder, name: place(folder[1:27] if folder[0] == "." else folder, name)
        ProposalStore._name = lambda *_: None  # type: ignore[method-assign]
    else:
        Journal.write = lambda *_: None  # type: ignore[method-assign]


def ended(base: Path, limit: int, action: str) -> bool:
    """Whether the child was killed before it was through."""
    child = os.fork()
    if not child:
        step_by_step(limit, base / "step")
        (lone.propose if action == "propose" else lone.apply)(base)
        os._exit(0)
    _, code = os.waitpid(child, 0)
    assert os.WIFSIGNALED(code) or os.WEXITSTATUS(code) == 0, "the child failed"
    return os.WIFSIGNALED(code)


def main() -> None:
    base, action = Path(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        take_out_the_defence(action)
    told = lone.status if action == "propose" else lone.outcome
    for limit in range(1, 1000):
        lone.lay(base)
        if action == "apply":
            lone.propose(base)
        was_killed = ended(base, limit, action)
        before = told(base)
        lone.recover(base)
        line = {
            "step": (base / "step").read_text() if was_killed else "through",
            "before": before,
            "after": told(base),
            "left": [path for path in lone.proposals(base) if ".tmp" in path],
            "journal": (base / "state/applying.json").exists(),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        if not was_killed:
            return


if __name__ == "__main__":
    main()
