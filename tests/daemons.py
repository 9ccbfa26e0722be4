"""Starts real daemon processes for tests, and stops them."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

START_S = 60.0
STOP_S = 60.0
TOKEN_VARIABLE = "SIDECAR_TEST_TOKEN"


def environment(token: str | None = None, **more: str) -> dict[str, str]:
    """The environment of a daemon: this one's, no keyring, no vectors, and the token by way of a variable.

    Loading a model for each of hundreds of daemons would take longer than the tests; `more` switches it on.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("VAULT_SIDECAR_")}
    own["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    own["VAULT_SIDECAR_INDEX_RAG"] = "false"
    if token is not None:
        own["VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV"] = TOKEN_VARIABLE
        own[TOKEN_VARIABLE] = token
    return own | more


@dataclass
class Daemon:
    """A process that has said where it listens. `url` is what it said."""

    process: subprocess.Popen[bytes]
    token: str
    _errors: IO[bytes]
    url: str = ""
    _log: bytes = b""
    _out: list[bytes] = field(default_factory=list)
    _first_line: threading.Event = field(default_factory=threading.Event)
    _reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None, self.url
        return port

    def stdout(self) -> str:
        """All it printed so far."""
        return b"".join(self._out).decode()

    def stderr(self) -> str:
        """All it logged so far, also after its end."""
        if not self._errors.closed:
            # with no place of its own in the file: the process writes at the place that both share
            self._log = os.pread(self._errors.fileno(), os.fstat(self._errors.fileno()).st_size, 0)
        return self._log.decode("utf-8", "replace")

    def wait_ready(self) -> None:
        """Wait for the one line of stdout."""
        ready = self._first_line.wait(START_S)
        line = self.stdout().strip()
        if not ready or not line:
            code = self.process.poll()
            self.kill()
            raise AssertionError(f"the daemon did not start (exit code {code}):\n{self.stderr()}")
        self.url = line.splitlines()[0]

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the daemon did not stop:\n{self.stderr()}") from None
        self._close()
        return code

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(STOP_S)
        self._close()

    def _close(self) -> None:
        self._reader.join(STOP_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.stderr()
        self._errors.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._out.append(line)
            self._first_line.set()
        self._first_line.set()


def start_daemon(
    vault: Path,
    state: Path,
    *args: str,
    token: str | None = None,
    env: Mapping[str, str] | None = None,
    under: Sequence[str] = (),
    program: Sequence[str] = ("-m", "sidecar"),
) -> Daemon:
    """`python -m sidecar serve` on a random port, once it listens. Ends with `stop` or `kill`.

    `under`: a command that runs another one in its own place, such as one that takes rights away.
    `program`: what Python runs, with the arguments that follow.
    """
    token = token or secrets.token_urlsafe(40)
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - read as long as the daemon is looked at
    port = () if "--port" in args else ("--port", "0")
    process = subprocess.Popen(
        [*under, sys.executable, *program, "serve", "--vault", str(vault), "--state", str(state), *port, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment(token, **(env or {})),
        cwd=Path(__file__).parent.parent,
    )
    daemon = Daemon(process, token, errors)
    daemon.wait_ready()
    return daemon
