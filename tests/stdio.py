"""The client's end of a relay: lines to its stdin, lines from its stdout."""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO

from sidecar.bridge import endpoint, lock
from sidecar.bridge.client import LocalClient
from sidecar.bridge.places import state_dir_of
from sidecar.errors import Unreachable
from tests.conftest import REPOSITORY
from tests.daemons import environment
from tests.eras import ENVELOPE
from tests.lab import wait_until

PATIENCE_S = 60.0  # also for a daemon that is started first
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "pipes", "version": "0"}}


class Pipes:
    """Sends messages and takes them apart: answers by their id, everything else in order."""

    def __init__(self, to: BinaryIO, out_of: BinaryIO) -> None:
        self._to = to
        self._out_of = out_of
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._ids = itertools.count(1)
        self.others: list[dict[str, Any]] = []
        """What came and is no answer, or a second one."""
        self._answers: dict[Any, bytes] = {}
        self.raw = b""
        """All that came, byte for byte."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, message: bytes | Mapping[str, Any]) -> None:
        """One line."""
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._to.write(line + b"\n")
        self._to.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method: str, params: Mapping[str, Any] | None = None, *, modern: bool = False) -> int:
        """Send a request; its id."""
        message_id = next(self._ids)
        given = {**(params or {}), **({"_meta": ENVELOPE | dict((params or {}).get("_meta", {}))} if modern else {})}
        self.send({"jsonrpc": "2.0", "id": message_id, "method": method, "params": given})
        return message_id

    def next_line(self) -> bytes:
        """The next line, whatever it is."""
        line = self._lines.get(timeout=PATIENCE_S)
        assert line, "stdout has ended"
        return line

    def answer_line(self, message_id: Any) -> bytes:
        """The answer to a request, as it came."""
        while message_id not in self._answers:
            self._take(self.next_line())
        return self._answers.pop(message_id)

    def answer(self, message_id: Any) -> dict[str, Any]:
        return json.loads(self.answer_line(message_id))

    def ask(self, method: str, params: Mapping[str, Any] | None = None, *, modern: bool = False) -> dict[str, Any]:
        """A request and its answer."""
        return self.answer(self.begin(method, params, modern=modern))

    def hear(self, method: str) -> dict[str, Any]:
        """The next notification of this method."""
        while True:
            for message in self.others:
                if message.get("method") == method:
                    self.others.remove(message)
                    return message
            self._take(self.next_line())

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        if "method" not in message and message.get("id") not in self._answers:
            self._answers[message.get("id")] = line
        else:
            self.others.append(message)

    def shake_hands(self, **hello: Any) -> dict[str, Any]:
        """`initialize` and what follows it; the result."""
        result = self.ask("initialize", HELLO | hello)["result"]
        self.notify("notifications/initialized")
        return result

    def call(self, tool: str, *, modern: bool = False, **arguments: Any) -> dict[str, Any]:
        """The result of a tool."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments}, modern=modern)["result"]

    def text(self, tool: str, **arguments: Any) -> str:
        """The one text block of a tool that did not fail."""
        result = self.call(tool, **arguments)
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list")["result"]["tools"]]

    def end_input(self) -> None:
        self._to.close()

    def rest(self) -> bytes:
        """All that comes until the end."""
        self._reader.join(PATIENCE_S)
        assert not self._reader.is_alive()
        return self.raw

    def _read(self) -> None:
        for line in self._out_of:
            self.raw += line
            self._lines.put(line.rstrip(b"\n"))
        self._lines.put(b"")


def relay_environment(**more: str) -> dict[str, str]:
    """Of a relay, and so of a daemon that it starts: no keyring, no vectors, a random port."""
    return environment(**{"VAULT_SIDECAR_HTTP_PORT": "0", **more})


def command(vault: Path, root: Path, *args: str, linger_s: float = 1.0) -> list[str]:
    """What a client starts. A daemon that it starts ends `linger_s` after the last relay left."""
    places = ["--vault", str(vault), "--state", str(root), "--linger", str(linger_s)]
    return [sys.executable, "-m", "sidecar", "mcp", *args, *places]


class RelayProcess(Pipes):
    """`vault-sidecar mcp` as a client starts it. As a context manager it is ended by force, if it has not ended."""

    def __init__(self, vault: Path, root: Path, *args: str, linger_s: float = 1.0, **env: str) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - read at the end
        self.process = subprocess.Popen(
            command(vault, root, *args, linger_s=linger_s),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=relay_environment(**env),
            cwd=REPOSITORY,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        super().__init__(self.process.stdin, self.process.stdout)

    def __enter__(self) -> RelayProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE_S)  # else it may read from what is closed
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue
        self._errors.close()

    def end(self) -> int:
        """Close its stdin; the exit code."""
        self.end_input()
        return self.process.wait(PATIENCE_S)

    def stderr(self) -> str:
        """All it has logged so far."""
        return os.pread(self._errors.fileno(), 1 << 20, 0).decode()


@dataclass
class Household:
    """A vault, its relays, and whatever daemon serves it. Nothing is left running after the block."""

    vault: Path
    root: Path
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def state(self) -> Path:
        """The vault's state folder."""
        return state_dir_of(self.vault, self.root)

    def relay(self, *args: str, linger_s: float = 1.0, **env: str) -> RelayProcess:
        """A client over stdio."""
        return self._stack.enter_context(RelayProcess(self.vault, self.root, *args, linger_s=linger_s, **env))

    def daemon(self) -> endpoint.Endpoint:
        """The daemon that is on record now."""
        found = endpoint.read(self.state)
        assert found is not None
        return found

    def status(self) -> dict[str, Any]:
        """What the daemon says of itself."""
        with LocalClient(self.state) as client:
            return client.get("/admin/status")

    def token(self) -> str:
        """What a client over HTTP sends."""
        return (self.state / "token").read_text().strip()

    def is_served(self) -> bool:
        """Somebody holds the lock. Asking takes it from nobody, and wipes no name from it."""
        return lock.is_held(self.state)

    def stop(self) -> None:
        """End the daemon, if there is one. It may be ending by itself."""

        def stopped() -> bool:
            with suppress(Unreachable), LocalClient(self.state) as client:
                client.post("/admin/stop")
            return not self.is_served()

        wait_until(stopped)

    def __enter__(self) -> Household:
        self.vault.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self.stop()
