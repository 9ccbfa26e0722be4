"""Rows D02, D03, D11: where the daemon can be reached, and the proof of identity."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from sidecar.bridge.identity import new_nonce, verify
from tests.living import listening
from tests.security.conftest import Guarded


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="lists sockets by way of /proc")
def test_d02_it_listens_on_one_loopback_address_only(guarded: Guarded) -> None:
    assert listening(guarded.daemon.pid) == {("tcp", f"0100007F:{guarded.port:04X}")}


def own_addresses() -> set[str]:
    """This machine's other addresses, and another one of the loopback net."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    except OSError:
        found = set()
    return {str(address) for address in found if address != "127.0.0.1"} | {"127.0.0.2"}


def test_d03_it_can_not_be_reached_by_another_address(guarded: Guarded) -> None:
    for address in own_addresses():
        with socket.socket() as client:
            client.settimeout(5)
            with pytest.raises(OSError):
                client.connect((address, guarded.port))


def test_d11_the_identity_is_proven_with_the_local_key(guarded: Guarded) -> None:
    [key] = guarded.state.rglob("local.key")
    nonce = new_nonce()
    reply = guarded.ask("GET", f"/identity?nonce={nonce}", Authorization=None)
    assert reply.status == 200
    answer = reply.json()
    local_key = key.read_text().strip()
    assert verify(local_key.encode(), nonce, guarded.port, answer["instance"], answer["proof"])
    assert local_key.encode() not in reply.body
    assert guarded.ask("GET", f"/identity?nonce={nonce}", Authorization=None).status == 400


@pytest.mark.parametrize("query", ["", "?nonce=", "?nonce=abc", "?nonce=" + "A" * 42, "?nonce=" + "A" * 44, "?nonce=é"])
def test_d11_a_bad_nonce_reveals_nothing(guarded: Guarded, query: str) -> None:
    reply = guarded.ask("GET", f"/identity{query}", Authorization=None)
    assert reply.status == 400
    assert set(reply.json()) == {"error", "message"}
