"""Starts the command of a client's entry and speaks with it over its stdin and stdout, as the client would."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from sidecar.bridge.client import LocalClient
from sidecar.cli.clients.check_http import INITIALIZE, tools_step
from sidecar.cli.clients.client import Stdio
from sidecar.cli.clients.steps import Step
from sidecar.errors import SidecarError

_PATIENCE_S = 60.0  # it may have to start a daemon on a busy computer
_END_S = 10.0
_LARGEST_LINE = 16 << 20
_LAST_WORDS = 300


class _NoAnswer(Exception):
    """It ended, kept silent, or wrote what is no protocol; the text says which."""


def steps(
    entry: Stdio, state_dir: Path, environ: Mapping[str, str], cure: str, *, patience_s: float = _PATIENCE_S
) -> Iterator[Step]:
    """Try it; the program is ended afterwards. `cure` says how the entry is set right. Blocks."""
    program = shutil.which(entry.command[0], path=environ.get("PATH"))
    if program is None:
        yield Step("program", False, f"{Path(entry.command[0]).name} is not there, or may not be run; {cure}")
        return
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603 - the command that the client would start
                [program, *entry.command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**environ, **entry.environment},
            )
        except OSError as error:
            yield Step("program", False, f"{Path(program).name} can't be started: {error.strerror}; {cure}")
            return
        talk = _Talk(process, patience_s)
        try:
            yield from _talk(talk, state_dir, errors, cure)
        finally:
            talk.end()


def _talk(talk: _Talk, state_dir: Path, errors: IO[bytes], cure: str) -> Iterator[Step]:
    try:
        talk.ask("initialize", INITIALIZE)
    except _NoAnswer as what:
        yield Step("program", False, f"it {what}{_last_words(errors)}; {cure}")
        return
    yield Step("program", True, "it starts and answers")
    try:
        with LocalClient(state_dir) as client:
            facts = client.get("/admin/status")
    except SidecarError as error:
        yield Step("daemon", False, f"{error}{_last_words(errors)}")
        return
    yield Step("daemon", True, f"version {facts.get('version')}, process {facts.get('pid')}")
    try:
        talk.tell("notifications/initialized")
        answer = talk.ask("tools/list", {})
    except _NoAnswer as what:
        yield Step("tools", False, f"the program {what}{_last_words(errors)}; try again")
        return
    yield tools_step(answer)


def _last_words(errors: IO[bytes]) -> str:
    """The last line it wrote to stderr, to be added to a sentence."""
    errors.seek(max(0, os.fstat(errors.fileno()).st_size - 4096))
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return f" ({lines[-1].strip()[:_LAST_WORDS]})" if lines else ""


class _Talk:
    """Lines of JSON to and from one process."""

    def __init__(self, process: subprocess.Popen[bytes], patience_s: float) -> None:
        self._process = process
        self._patience_s = patience_s
        self._lines: queue.Queue[bytes] = queue.Queue(maxsize=1000)
        self._id = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """A request, and the reply to it; what comes in between is passed over.

        Raises:
            _NoAnswer: there is none.
        """
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        give_up = time.monotonic() + self._patience_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, give_up - time.monotonic()))
            except queue.Empty:
                raise _NoAnswer("does not answer") from None
            if not line:
                raise _NoAnswer("ended before it had answered")
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                raise _NoAnswer("writes to stdout what is not the protocol") from None
            if isinstance(message, dict) and cast("dict[str, Any]", message).get("id") == self._id:
                return cast("dict[str, Any]", message)

    def tell(self, method: str) -> None:
        """A notification.

        Raises:
            _NoAnswer: it has ended.
        """
        self._send({"jsonrpc": "2.0", "method": method})

    def end(self) -> None:
        """Close its stdin, by which such programs are told to end; one that doesn't is killed."""
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(OSError):  # it may have gone already
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_S)
        self._process.stdout.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise _NoAnswer("ended before it had answered") from None

    def _read(self) -> None:
        """Hand over line by line, and an empty one for the end."""
        assert self._process.stdout
        with contextlib.suppress(OSError, ValueError, queue.Full):  # nobody listens any more
            while line := self._process.stdout.readline(_LARGEST_LINE):
                self._lines.put(line, timeout=self._patience_s)
            self._lines.put(b"", timeout=self._patience_s)
