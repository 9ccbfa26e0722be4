"""Plays the editor's plugin: starts the real `vault-sidecar bridge` and talks to it over real pipes.

Every line in either direction is held against the protocol's schema, but for
those that a test spoils on purpose.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tests.conftest import REPOSITORY
from tests.daemons import environment
from tests.editor import law

PATIENCE_S = 60.0

COMMAND = [sys.executable, "-m", "sidecar", "bridge"]


class Refused(Exception):
    """An answer that refuses; `data` is that of the protocol."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.number: int = error["code"]
        self.data: dict[str, Any] = error["data"]
        self.code: str = error["data"]["code"]


class Plugin:
    """One window of the editor. Left as a context manager its process is killed, if it has not ended."""

    def __init__(
        self, vault: Path, root: Path, *, command: list[str] | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.vault = vault
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - read at the end
        self.process = subprocess.Popen(
            command or [*COMMAND, "--state", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(**(env or {})),
            cwd=REPOSITORY,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._to, self._from = self.process.stdin, self.process.stdout
        self._ids = itertools.count(1)
        self._asked: dict[Any, str] = {}
        self._came: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._answers: dict[Any, dict[str, Any]] = {}
        self.events: list[tuple[str, dict[str, Any]]] = []
        """All that came so far and was taken in, in order."""
        self.raw = b""
        """All of stdout."""
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Plugin:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        with suppress(OSError):
            self._to.close()
        self._from.close()
        self._errors.close()

    # what it says

    def send(self, line: bytes) -> None:
        """A line as it is."""
        self._to.write(line + b"\n")
        self._to.flush()

    def begin(self, method: str, **params: Any) -> int:
        """Ask, and don't wait; the request's id."""
        request: dict[str, Any] = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        if params:
            request["params"] = params
        law.check("request", request)
        self._asked[request["id"]] = method
        self.send(json.dumps(request).encode())
        return int(request["id"])

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result; raises Refused."""
        return self.answer(self.begin(method, **params))

    def answer(self, message_id: Any) -> dict[str, Any]:
        """The result of a request that was begun; raises Refused."""
        while message_id not in self._answers:
            assert self._take(), self.stderr()
        answer = self._answers.pop(message_id)
        if "error" in answer:
            raise Refused(answer["error"])
        law.check(f"{self._asked[message_id]}.result", answer["result"])
        return dict(answer["result"])

    def hello(self, **other: Any) -> dict[str, Any]:
        return self.ask("hello", **{"protocol": 1, "plugin": "0.1.0", "vault": str(self.vault), **other})

    def start(self, **settings: Any) -> dict[str, Any]:
        """`hello` and `start`, on a random port if none is named."""
        self.hello()
        return self.ask("start", settings={"port": 0, **settings})

    # what it hears

    def hear(self, name: str, wanted: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        """The first event of that name that is `wanted`, of all that came and will come."""
        seen = 0
        while True:
            for event, params in self.events[seen:]:
                if event == name and wanted(params):
                    return params
            seen = len(self.events)
            assert self._take(), f"{name} did not come\n{self.stderr()}"

    def settled(self) -> dict[str, Any]:
        """The state once nothing is left to do."""
        return self.hear("state", lambda state: state["phase"] == "running" and state["settled"])

    def forget(self) -> None:
        """Wait for new events only."""
        self.events.clear()

    def _take(self) -> bool:
        """Take in one message; False: stdout has ended."""
        message = self._came.get(timeout=PATIENCE_S)
        if message is None:
            self._came.put(None)
            return False
        if "method" in message:
            law.check("event", message)
            self.events.append((message["method"], message["params"]))
        else:
            law.check("failure" if "error" in message else "success", message)
            self._answers[message["id"]] = message
        return True

    def rest(self) -> None:
        """Take in all until stdout ends."""
        while self._take():
            continue

    def _read(self) -> None:
        with suppress(ValueError, OSError):  # closed at the end of the test
            for line in self._from:
                self.raw += line
                self._came.put(json.loads(line))
        self._came.put(None)

    # its end

    def close(self) -> int:
        """Close the pipe, as the editor does; the exit code."""
        self._to.close()
        return self.process.wait(PATIENCE_S)

    def ended(self) -> int:
        """Wait for an end that comes by itself; the exit code."""
        return self.process.wait(PATIENCE_S)

    def stderr(self) -> str:
        """All it has logged so far."""
        return os.pread(self._errors.fileno(), 1 << 22, 0).decode()
