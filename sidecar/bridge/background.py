"""Starts a daemon in the background: a process that outlives the one that started it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sidecar.bridge import private_files

LOG_FILE = "daemon.log"
OLD_LOG_FILE = "daemon.log.1"

_LARGEST_LOG = 4 << 20
_LAST_WORDS = 1 << 14
_SAYS = "vault-sidecar: "  # how a command's last sentence begins


class Background:
    """A daemon that was started, or is about to be refused."""

    def __init__(self, state_dir: Path, arguments: Sequence[str]) -> None:
        """Run `vault-sidecar ARGUMENTS`. What it logs goes to a file in the state folder. Blocks for a moment.

        Raises:
            Unreadable: the log can't be written.
        """
        private_files.make_folder(state_dir)
        self._log = state_dir / LOG_FILE
        if self._log.exists() and self._log.stat().st_size > _LARGEST_LOG:
            os.replace(self._log, state_dir / OLD_LOG_FILE)
        descriptor = private_files.open_own(self._log, os.O_WRONLY | os.O_APPEND)
        try:
            self._start = os.fstat(descriptor).st_size
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                # -P: no code may come from the present folder, which may be somebody's vault
                [sys.executable, "-P", "-m", "sidecar", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=descriptor,
                cwd=state_dir.parent,
                # so that what ends the starter's terminal, group or session does not end the daemon
                start_new_session=True,
                creationflags=_creation_flags(),
            )
        finally:
            os.close(descriptor)

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll()

    def last_words(self) -> str:
        """The sentence with which it ended, without the name of the program. Blocks."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(self._start, log.seek(0, os.SEEK_END) - _LAST_WORDS))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        said = [line.removeprefix(_SAYS) for line in lines if line.startswith(_SAYS)]
        return said[-1] if said else f"it ended with code {self.poll()}; {LOG_FILE} in the state folder says more"


def _creation_flags() -> int:
    """On Windows; elsewhere a session of its own does it."""
    if sys.platform != "win32":
        return 0
    # a client may put what it starts into a job, which ends as a whole
    return subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_BREAKAWAY_FROM_JOB
