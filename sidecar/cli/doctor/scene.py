"""What the checks of `doctor` look at, gathered once, and what they say."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sidecar.bridge import lock
from sidecar.bridge.client import LocalClient
from sidecar.bridge.lock import Holder
from sidecar.cli import where
from sidecar.errors import SidecarError
from sidecar.index.manifest_file import FILE_NAME

if TYPE_CHECKING:
    from sidecar.config import Config


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. `note`: works, but worth knowing. `do` is what helps, in words or as a command."""

    state: Literal["ok", "note", "wrong"]
    says: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """One vault as it is now. Checks only look; what they need beyond this they read from the disk."""

    place: where.Where
    config: Config | None
    """None where the settings are wrong; `mistake` says how."""
    mistake: str
    status: dict[str, Any] | None
    """The running daemon's own words; None where none answers."""
    silence: str
    """Why none answers although its lock is taken."""
    is_locked: bool
    """The kernel says that a process holds the vault's lock."""
    holder: Holder | None
    """Who took the lock last and has not left in order."""

    @property
    def state_dir(self) -> Path:
        """The vault's state folder, which need not exist."""
        return self.place.state_dir

    @property
    def manifest(self) -> Path:
        """Its manifest, which need not exist."""
        return self.state_dir / FILE_NAME


Check = Callable[[Scene], Finding]


@contextmanager
def gathered(args: Namespace) -> Generator[Scene]:
    """Look which vault is meant and whether a daemon answers. What our own parts log meanwhile is in the findings.

    Raises:
        BadConfig: no vault is named and none is near, or its state would lie inside it.
    """
    place = where.find(args)
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        config, mistake = None, ""
        try:
            from sidecar.surfaces import SURFACES

            config = where.load_config(place, [surface.name for surface in SURFACES])
        except SidecarError as wrong:
            mistake = str(wrong)
        status, silence = None, ""
        try:
            with LocalClient(place.state_dir) as client:
                status = client.get("/admin/status")
        except SidecarError as broken:
            silence = str(broken)
        yield Scene(
            place, config, mistake, status, silence, lock.is_held(place.state_dir), lock.holder(place.state_dir)
        )
    finally:
        logging.disable(before)


def looked_at(check: Check, scene: Scene) -> Finding:
    """Run one check; one that fails is a finding, too."""
    try:
        return check(scene)
    except SidecarError as refused:
        return Finding("wrong", str(refused))
    except OSError as failed:
        return Finding("wrong", f"can't be looked at: {(failed.strerror or type(failed).__name__).lower()}")
    except Exception as failed:  # last line of defence: the other checks shall be heard
        return Finding("wrong", f"the check itself failed ({type(failed).__name__}: {failed})")
