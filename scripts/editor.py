"""`scripts/bench editor`: how soon a daemon that the editor's plugin starts serves, and how soon it finds a save.

Beside each figure stands that of `serve` on the same vault in the same run, where there is one. The clock starts
with the process, as it does when somebody switches the server on.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripts.speed import (
    REPOSITORY,
    Daemon,
    corpora_of,
    freshness_ms,
    make_vault,
    percentile,
)

_STARTS = 5
_SAVES = 40
_CALLS = 200


class Child(Daemon):
    """A daemon at the other end of a pipe."""

    def __init__(self, vault: Path, state: Path) -> None:
        environment = {
            **os.environ,
            "VAULT_SIDECAR_INDEX_RAG": "false",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            "PYTHONPATH": str(REPOSITORY),
        }
        command = [sys.executable, "-m", "sidecar", "bridge", "--state", str(state)]
        self._ids = itertools.count(1)
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self.ask("hello", protocol=1, plugin="0.1.0", vault=str(vault))
        self.hello_s = time.perf_counter() - self.started
        self.port = int(str(self.ask("start", settings={"port": 0})["port"]))
        self.ready_s = time.perf_counter() - self.started
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        [key_file] = state.rglob("local.key")
        self._local_key = key_file.read_text().strip()

    def ask(self, method: str, **params: object) -> dict[str, object]:
        """The result of a method; events that come first are passed over."""
        request_id = next(self._ids)
        assert self.process.stdin is not None
        request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        while (message := self._message()).get("id") != request_id:
            continue
        result = message.get("result")
        if not isinstance(result, dict):
            raise SystemExit(f"{method} was refused: {message}")
        return result

    def wait_until_running(self) -> float:
        """Wait for the event that every note is searchable by its words; seconds since the start of the process."""
        while True:
            message = self._message()
            state = message.get("params")
            if message.get("method") == "state" and isinstance(state, dict) and state["phase"] == "running":
                return time.perf_counter() - self.started

    def _message(self) -> dict[str, object]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the daemon ended")
        return json.loads(line)

    def end_s(self) -> float:
        """Close the pipe; seconds until the process has ended."""
        self.connection.close()
        assert self.process.stdin is not None and self.process.stdout is not None
        begin = time.perf_counter()
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()
        return time.perf_counter() - begin


def serve(vault: Path, state: Path, saves: int) -> dict[str, float]:
    """The figures of `serve`: starts, then saves."""
    starts: list[float] = []
    readies: list[float] = []
    for turn in range(_STARTS):
        running = Daemon(vault, state, rag=False)
        starts.append(running.ready_s)
        running.wait_until_settled()
        readies.append(time.perf_counter() - running.started)
        fresh = freshness_ms(running, vault, saves, "keyword") if turn == _STARTS - 1 else []
        running.stop()
    return {
        "start to clients, s": statistics.median(starts),
        "cold start to running, s": readies[0],
        "warm start to running, s": statistics.median(readies[1:]),
        "save to searchable p50, ms": statistics.median(fresh),
        "save to searchable p95, ms": percentile(fresh, 0.95),
    }


def bridge(vault: Path, state: Path, saves: int) -> dict[str, float]:
    """The figures of a daemon that the plugin starts."""
    hellos: list[float] = []
    starts: list[float] = []
    readies: list[float] = []
    ends: list[float] = []
    fresh: list[float] = []
    calls: list[float] = []
    for turn in range(_STARTS):
        running = Child(vault, state)
        hellos.append(running.hello_s)
        starts.append(running.ready_s)
        readies.append(running.wait_until_running())
        if turn == _STARTS - 1:
            fresh = freshness_ms(running, vault, saves, "keyword")
            for _ in range(_CALLS):
                begin = time.perf_counter()
                running.ask("log/tail", lines=1)
                calls.append((time.perf_counter() - begin) * 1e3)
        ends.append(running.end_s())
    return {
        "start to hello, s": statistics.median(hellos),
        "start to clients, s": statistics.median(starts),
        "cold start to running, s": readies[0],
        "warm start to running, s": statistics.median(readies[1:]),
        "save to searchable p50, ms": statistics.median(fresh),
        "save to searchable p95, ms": percentile(fresh, 0.95),
        "a call over the pipe p50, ms": statistics.median(calls),
        "a call over the pipe p99, ms": percentile(calls, 0.99),
        "closed pipe to ended, s": statistics.median(ends),
    }


def main(argv: list[str]) -> int:
    """Prints the table; the exit code is 0 unless something failed."""
    parser = argparse.ArgumentParser(prog="scripts/bench editor", description=__doc__)
    parser.add_argument("--notes", action="append", type=int, help="a vault of so many notes (default 1000 and 10000)")
    parser.add_argument("--saves", type=int, default=_SAVES, help=f"how many saves are timed (default {_SAVES})")
    options = parser.parse_args(argv)
    corpora = corpora_of(parser)
    print(f"{'notes':>7}  {'figure':<30} {'bridge':>10} {'serve':>10}")
    for notes in options.notes or (1_000, 10_000):
        scratch = Path(tempfile.mkdtemp(prefix="vault-sidecar-editor-"))
        try:
            vault = make_vault(corpora, notes, scratch / "made")
            beside = serve(vault, scratch / "serve", options.saves)
            for name, value in bridge(vault, scratch / "bridge", options.saves).items():
                other = f"{beside[name]:,.2f}" if name in beside else ""
                print(f"{notes:>7,}  {name:<30} {value:>10,.2f} {other:>10}", flush=True)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return 0
