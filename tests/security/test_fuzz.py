"""Rows F02, F03 over the wire: random bytes and mutated messages, random hosts and origins."""

from __future__ import annotations

import json
import random

import pytest

from tests import wire
from tests.security.conftest import Guarded
from tests.strange import strange_texts

SEEDS = [
    wire.INITIALIZE,
    wire.call("tools/list"),
    wire.call("ping"),
    wire.tool("list_notes", folder="Projects", limit=3),
    wire.tool("read_note", path="Projects/House.md"),
    wire.tool("search_notes", query="milk"),
    json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(),
]
PIECES = [
    *b'null true -1 1e400 NaN [] {} "" " \\ { } [ ] , : ../ "id": "method": "params": "arguments": \\ud800'.split(),
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"9" * 400, b"[" * 300),
]
BODIES = 5_000


def mutated(chance: random.Random) -> bytes:
    """A seed with a few bytes cut, doubled, swapped or replaced; now and then nothing but rubbish."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randint(0, 200))
    body = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(body) + 1)
        end = min(len(body), start + chance.randint(0, 12))
        match chance.randrange(4):
            case 0:
                del body[start:end]
            case 1:
                body[start:start] = body[start:end]
            case 2:
                body[start:end] = chance.choice(PIECES)
            case _:
                body[start:end] = chance.randbytes(end - start)
    return bytes(body)


@pytest.mark.parametrize("revision", [None, "2026-07-28"])
def test_f02_no_body_breaks_the_daemon(guarded: Guarded, revision: str | None) -> None:
    chance = random.Random(17)
    headers = guarded.headers
    if revision:
        headers |= {"MCP-Protocol-Version": revision, "Mcp-Method": "tools/call", "Mcp-Name": "list_notes"}
    client, seen = wire.Wire(guarded.port), set[int]()
    try:
        for _ in range(BODIES // 2):
            body = mutated(chance)
            client.send(wire.request("POST", "/mcp", headers | {"Content-Length": str(len(body))}, body))
            reply = client.reply()
            assert 200 <= reply.status < 500, body
            assert b"Traceback" not in reply.body, body
            seen.add(reply.status)
    finally:
        client.socket.close()
    assert {202, 400} <= seen
    assert guarded.is_well()


def test_f03_a_sample_of_strange_hosts_and_origins_over_the_wire(guarded: Guarded) -> None:
    good = {f"127.0.0.1:{guarded.port}".encode(), f"localhost:{guarded.port}".encode()}
    texts = [text for text in strange_texts(3) if text.isascii() and text.decode().isprintable()][:400]
    for text in texts:
        value = text.replace(b"24783", str(guarded.port).encode()).decode()
        host = guarded.post(wire.call("ping"), Host=value).status
        assert (host == 200) is (value.strip().lower().encode() in good), value
        origin = guarded.post(wire.call("ping"), Origin=value).status
        assert (origin == 200) is (value.strip() == "app://obsidian.md"), value
        assert host in (200, 400, 403) and origin in (200, 403)
