"""A vault that nobody serves, with a proposal for three notes, and what became of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sidecar.config import Config
from sidecar.errors import Unreadable
from sidecar.services.proposal_drafts import Rules, drafted
from sidecar.services.proposal_record import Proposal
from sidecar.services.proposal_store import ProposalStore
from sidecar.services.proposals_alone import Alone, open_alone
from sidecar.services.protection import Protection
from sidecar.vault.files import Files
from sidecar.vault.jail import Jail
from sidecar.vault.leftovers import sweep

ID = "01ARYZ6S410000000000000000"
OLD = {"A.md": b"one\ntwo\n", "C.md": b"\xef\xbb\xbfone\r\ntwo"}
NEW = {"A.md": b"one\n2\n", "New/Folder/B.md": b"new\n", "C.md": b"\xef\xbb\xbfone\r\n2\n"}
FOREVER_NS = 1 << 62


def lay(base: Path) -> None:
    """A new vault in `base`, its notes saved long ago, so that nobody waits for them to rest."""
    shutil.rmtree(base, ignore_errors=True)
    (base / "vault").mkdir(parents=True)
    (base / "state").mkdir(mode=0o700)
    for path, data in OLD.items():
        (base / "vault" / path).write_bytes(data)
        os.utime(base / "vault" / path, ns=(0, 10**18))


@contextmanager
def alone(base: Path) -> Iterator[Alone]:
    """As a command has it that holds the lock."""
    with open_alone(base / "vault", base / "state", Config()) as found:
        yield found


def propose(base: Path) -> None:
    """Store the proposal, as the daemon does."""
    jail = Jail(base / "vault")
    try:
        rules = Rules(jail, Protection("Agents", "Agents/Memory.md"), lambda _: False)
        patch = drafted(rules, [(path, data.decode("utf-8-sig")) for path, data in NEW.items()])
        proposal = Proposal(ID, "2026-11-30T10:00:00Z", "mcp:local", "Title", "", "open", tuple(NEW))
        ProposalStore(jail).add(Files(jail, lambda *_: None, max_bytes=1 << 20), proposal, patch)
    finally:
        jail.close()


def apply(base: Path) -> None:
    """Apply the proposal, or reject it."""
    with alone(base) as found:
        found.apply(ID, "cli", None)


def recover(base: Path) -> None:
    """What the next process does before anything else, and then cleans up."""
    with alone(base) as found, found._files() as files:
        found._settling.recover(files)
        found._store.tidy(before_ns=FOREVER_NS)
        sweep(found._jail, lambda *_: None, before_ns=FOREVER_NS)


def notes(base: Path) -> dict[str, bytes]:
    """Every file of the vault outside `.kp`, temporary ones too."""
    found = (path for path in (base / "vault").rglob("*") if path.is_file())
    files = {path.relative_to(base / "vault"): path for path in found}
    return {str(path): file.read_bytes() for path, file in files.items() if path.parts[0] != ".kp"}


def folders(base: Path) -> set[str]:
    """Every folder of the vault outside `.kp`."""
    found = (path.relative_to(base / "vault") for path in (base / "vault").rglob("*") if path.is_dir())
    return {str(path) for path in found if path.parts[0] != ".kp"}


def proposals(base: Path) -> list[str]:
    """Whatever is in the folder of proposals."""
    folder = base / "vault/.kp/proposals"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.exists() else []


def status(base: Path) -> str:
    """Of the proposal: as the record says, or that it is absent or broken."""
    jail = Jail(base / "vault")
    try:
        kept = ProposalStore(jail).all()
        whole = [each.id for each in kept.proposals if ProposalStore(jail).patch(each.id).endswith(b"+2\n")]
        if kept.unreadable or len(whole) < len(kept.proposals):
            return "broken"
        return kept.proposals[0].status if kept.proposals else "absent"
    except Unreadable:
        return "broken"
    finally:
        jail.close()


def outcome(base: Path) -> str:
    """Of applying: whether the vault is the old one or the new one, and the record agrees."""
    found, made = notes(base), folders(base)
    if found == OLD and made == set():
        return f"old, {status(base)}"
    if found == NEW and made == {"New", "New/Folder"}:
        return f"new, {status(base)}"
    return f"half, {status(base)}: {sorted(found)} {sorted(made)}"
