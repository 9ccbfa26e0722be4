"""Starts of real daemons that are refused, watched, or several at once.

A start can be given code that runs in the daemon's own process before anything
of ours is imported: to write down what the process does (binding a port,
replacing a file, sending a signal), or to take a defence out for a control.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sidecar.bridge import private_files
from sidecar.bridge.places import state_dir_of
from tests.conftest import REPOSITORY
from tests.daemons import START_S, Daemon, environment

PRIVATE_UMASK = 0o077

_WRITE_DOWN = """
import os, sys

_out = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

def _note(event, args):
    if event == "socket.bind":
        words = [str(args[1])]
    elif event in ("os.rename", "os.chmod", "os.kill"):
        words = [str(arg) for arg in args[:2]]
    else:
        return
    os.write(_out, (" ".join([event, *words]) + chr(10)).encode())

sys.addaudithook(_note)
"""


@dataclass(frozen=True)
class Ended:
    """A start that ended by itself."""

    code: int
    out: str
    err: str


def run_first(folder: Path, code: str) -> dict[str, str]:
    """Variables with which a process, and what it starts, runs `code` before anything else."""
    hooks = Path(tempfile.mkdtemp(dir=folder))
    (hooks / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": os.pathsep.join((str(hooks), str(REPOSITORY)))}


class Site:
    """A vault and a state root that no daemon has touched yet, without a keyring. To be closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vault = folder / "vault"
        self.root = folder / "root"
        self.vault.mkdir()
        self.events_file = folder / "events"
        self._begun: list[Daemon] = []

    @property
    def state(self) -> Path:
        """The vault's state folder."""
        return state_dir_of(self.vault, self.root)

    @property
    def token(self) -> str:
        """What the daemon keeps in the file."""
        return (self.state / "token").read_text().strip()

    def put(self, name: str, content: str | bytes, mode: int = 0o600) -> Path:
        """A file in the state folder, as if left there earlier."""
        private_files.make_folder(self.state)
        path = self.state / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def left(self) -> dict[str, bytes]:
        """What lies in the state folder, by name."""
        if not self.state.exists():
            return {}
        return {path.name: path.read_bytes() for path in self.state.iterdir() if path.is_file()}

    def run_first(self, code: str) -> dict[str, str]:
        """Variables with which a start runs `code` before anything else."""
        return run_first(self.folder, code)

    def write_down(self) -> dict[str, str]:
        """Variables with which a start writes down the `events` of its process."""
        return self.run_first(_WRITE_DOWN.format(path=str(self.events_file)))

    def events(self, *kinds: str) -> list[str]:
        """What was written down, in order: `socket.bind ADDRESS`, `os.rename FROM TO`, `os.chmod`, `os.kill`."""
        lines = self.events_file.read_text().splitlines()
        return [line for line in lines if line.split(" ")[0] in kinds]

    def begin(self, *args: str, port: str | None = "0", umask: int = PRIVATE_UMASK, **env: str) -> Daemon:
        """Start a daemon, whatever will become of it. `port` is the command line's; None leaves it to the settings."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - read as long as the daemon is looked at
        process = subprocess.Popen(
            self._command(*args, port=port),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(**env),
            cwd=REPOSITORY,
            umask=umask,
        )
        self._begun.append(Daemon(process, "", errors))
        return self._begun[-1]

    def start(self, *args: str, port: str | None = "0", umask: int = PRIVATE_UMASK, **env: str) -> Daemon:
        """A daemon that listens; its token is the one in the file. Ends with `stop` or `kill`."""
        daemon = self.begin(*args, port=port, umask=umask, **env)
        daemon.wait_ready()
        if (self.state / "token").is_file():
            daemon.token = self.token
        return daemon

    def refused(self, *args: str, port: str | None = "0", **env: str) -> Ended:
        """A start that is expected to end by itself."""
        done = subprocess.run(
            self._command(*args, port=port),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment(**env),
            cwd=REPOSITORY,
            timeout=START_S,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """End by force what a failed test left running."""
        for daemon in self._begun:
            daemon.kill()

    def _command(self, *args: str, port: str | None) -> list[str]:
        """`serve`, of this vault unless `args` name another."""
        vault = [] if "--vault" in args else ["--vault", str(self.vault)]
        state = [] if "--state" in args else ["--state", str(self.root)]
        ports = [] if port is None else ["--port", port]
        return [sys.executable, "-m", "sidecar", "serve", *vault, *state, *ports, *args]
