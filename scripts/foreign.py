"""Programs of other makers, run in a home of their own and spoken to over MCP on stdio.

Of the surroundings they get `PATH` alone. Home, settings, caches and temporary
files lie in a scratch folder, proxies lead nowhere, and each program is the head
of a process group, so that it ends together with what it has started.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_ANSWER_LIMIT_S = 120.0
_NOWHERE = "http://127.0.0.1:9"  # the discard port: who looks something up is refused at once


class Failed(Exception):
    """A program did not do what it was asked; the message names the command and what it said last."""


class Home:
    """A scratch folder in which programs take themselves to be at home."""

    def __init__(self, folder: Path, limit_s: float = 900.0, **variables: str) -> None:
        self.folder = folder
        self.limit_s = limit_s
        """The longest that a command may take."""
        places = {
            "HOME": "home",
            "XDG_CONFIG_HOME": "config",
            "XDG_CACHE_HOME": "cache",
            "XDG_DATA_HOME": "data",
            "XDG_STATE_HOME": "state",
            "XDG_RUNTIME_DIR": "run",
            "TMPDIR": "tmp",
        }
        for name in places.values():
            (folder / name).mkdir(parents=True, mode=0o700)
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "DO_NOT_TRACK": "1",
            **{f"{protocol}_PROXY": _NOWHERE for protocol in ("HTTP", "HTTPS", "ALL")},
            **{variable: str(folder / name) for variable, name in places.items()},
            **variables,
        }

    def run(self, *command: str) -> str:
        """Run a command to its end; what it printed.

        Raises:
            Failed: exit code other than 0, or no end within the limit.
        """
        with self._started(command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT) as process:
            try:
                said = process.communicate(timeout=self.limit_s)[0].decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                raise Failed(f"`{' '.join(command[:3])}` did not end within {self.limit_s:.0f} s") from None
        if process.returncode != 0:
            last = (said.strip() or "nothing").splitlines()[-1]
            raise Failed(f"`{' '.join(command[:3])}` ended with {process.returncode} and said: {last}")
        return said

    @contextmanager
    def server(self, *command: str) -> Iterator[Server]:
        """An MCP server on stdio, greeted and ready; it ends with the block."""
        with self._started(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            server = Server(process)
            server.greet()
            yield server

    @contextmanager
    def _started(self, command: tuple[str, ...], *, stdin: int, stderr: int) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,
            bufsize=0,
        )
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """As a client ends a server: close stdin and wait; then SIGTERM; then what is left of its group, which is ours."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Server:
    """An MCP client of the plainest kind: one request, one answer."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._stdin, self._stdout = process.stdin, process.stdout.fileno()
        self._read = b""
        self._requests = 0

    def greet(self) -> None:
        """Open the session."""
        client = {"name": "vault-sidecar-bench", "version": "1"}
        self._request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tool(self, name: str, **arguments: object) -> str:
        """Call a tool; the text of its answer.

        Raises:
            Failed: the server refused, the tool failed, or no answer came within the limit.
        """
        return text_of(self._request("tools/call", name=name, arguments=arguments))

    def _request(self, method: str, **parameters: object) -> Mapping[str, object]:
        self._requests += 1
        self._send({"jsonrpc": "2.0", "id": self._requests, "method": method, "params": parameters})
        limit = time.monotonic() + _ANSWER_LIMIT_S
        while True:
            message = json.loads(self._line(limit))
            if message.get("id") == self._requests and "method" not in message:
                return message

    def _send(self, message: Mapping[str, object]) -> None:
        try:
            self._stdin.write(json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            raise Failed("the MCP server has ended") from None

    def _line(self, limit: float) -> bytes:
        while b"\n" not in self._read:
            if not select.select([self._stdout], [], [], max(0.0, limit - time.monotonic()))[0]:
                raise Failed(f"the MCP server did not answer within {_ANSWER_LIMIT_S:.0f} s")
            more = os.read(self._stdout, 1 << 16)
            if not more:
                raise Failed("the MCP server has ended")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line


def text_of(answer: Mapping[str, object]) -> str:
    """All text of an answer to tools/call.

    Raises:
        Failed: the answer is an error, of the protocol or of the tool.
    """
    result = answer.get("result")
    if not isinstance(result, dict):
        raise Failed(f"the MCP server refused: {json.dumps(answer.get('error'))[:200]}")
    text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
    if result.get("isError"):
        raise Failed(f"the tool failed: {text[:200]}")
    return text
