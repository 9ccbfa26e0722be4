"""S03 and S04: floods of half requests and of requests without a token cost the daemon next to nothing."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.index.corpus import Corpus
from tests import wire
from tests.lab import wait_until
from tests.security.conftest import Guarded
from tests.security.inside import served_here
from tests.security.measures import used

SLOW = 500
REFUSED = 10_000
HALF = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Slow: "
_EVENTUALLY = 10.0
"""Deadlines of the catalogue are those of a quiet machine; tests wait so many times as long."""


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def p95_ms(guarded: Guarded, calls: int) -> float:
    seconds: list[float] = []
    with wire.Wire(guarded.port) as client:
        for _ in range(calls):
            begin = time.perf_counter()
            client.send(wire.request("POST", "/mcp", guarded.headers, wire.INITIALIZE))
            assert client.reply().status == 200
            seconds.append(time.perf_counter() - begin)
    return statistics.quantiles(seconds, n=20)[-1] * 1e3


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted by Linux alone")
@pytest.mark.parametrize("connections", [pytest.param(SLOW, id="S03")])
def test_slow_headers_hold_no_good_client_up(guarded: Guarded, connections: int, say: Callable[[str], None]) -> None:
    before, baseline = open_files(guarded.daemon.process.pid), p95_ms(guarded, 200)
    slow = [wire.Wire(guarded.port, timeout_s=1.0) for _ in range(connections)]
    begin = time.monotonic()
    for client in slow:
        client.send(HALF % guarded.port)
    during = p95_ms(guarded, 200)
    held = time.monotonic() - begin
    for client in slow:
        client.socket.settimeout(10 * _EVENTUALLY)
        with client:
            while client.socket.recv(1 << 16):
                pass
    closed = time.monotonic() - begin
    wait_until(lambda: open_files(guarded.daemon.process.pid) <= before + 2)
    say(
        f"S03: {connections} slow connections; p95 of a good client {baseline:.1f} ms alone, {during:.1f} beside them"
        f" ({during / baseline:.2f} times, measured for {held:.1f} s); all slow ones closed after {closed:.1f} s;"
        f" files open {before} before, {open_files(guarded.daemon.process.pid)} after"
    )
    assert during <= 2 * baseline, "a ratio within one run"
    assert closed <= 10 * _EVENTUALLY


@pytest.mark.slow
@pytest.mark.parametrize("requests", [pytest.param(REFUSED, id="S04")])
def test_requests_without_a_token_are_all_refused_and_cost_no_memory(
    guarded: Guarded, requests: int, say: Callable[[str], None]
) -> None:
    headers = {name: value for name, value in guarded.headers.items() if name != "Authorization"}
    request = wire.request("POST", "/mcp", headers, wire.tool("search_notes", query="winter"))
    answers: dict[int, int] = {}
    with used(guarded.daemon.process.pid) as usage:
        for _ in range(requests):
            status = wire.raw(guarded.port, request).status  # a connection is closed after a refusal
            answers[status] = answers.get(status, 0) + 1
    say(f"S04: {answers} answers; memory rose by {usage.rise_mib:.1f} MiB, {usage.cpu_s:.1f} s of processor time")
    assert answers == {401: requests}
    assert usage.rise_mib <= 10


def test_s04_requests_without_a_token_reach_neither_vault_nor_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control is in it: the same call with the token does reach them."""
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "House.md").write_text("A house in winter.\n")
    reached: list[str] = []

    def counted(name: str) -> None:
        original = getattr(Corpus, name)

        def call(*given: object, **more: object) -> object:
            reached.append(name)
            return original(*given, **more)

        monkeypatch.setattr(Corpus, name, call)

    with served_here(tmp_path, tmp_path / "state") as ground:
        for name in ("names", "read", "kind", "search", "search_text", "status"):
            counted(name)
        calls = [
            wire.tool("search_notes", query="winter"),
            wire.tool("read_note", path="House.md"),
            wire.tool("list_notes"),
            wire.INITIALIZE,
        ]
        for body in calls * 100:
            assert wire.post(ground.port, "not-the-token-not-the-token-not-the-token", body).status == 401
        assert reached == []
        for body in calls:
            assert wire.post(ground.port, ground.token, body).status == 200
        assert {"search_text", "read", "names"} <= set(reached)
