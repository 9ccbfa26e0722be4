"""What the owner of a vault can do with a running daemon: asks below /admin with the local key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import wire

BACKEND = "tests.bridge.keyrings.OnDisk"


def local_key(state: Path) -> str:
    """The key that the running daemon has left for its user's own programs."""
    return (state / "local.key").read_text().strip()


def request(port: int, key: str | None, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
    """A request below /admin as bytes."""
    headers = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return wire.request(method, path, headers, json.dumps(body or {}).encode() if method == "POST" else b"")


def ask(port: int, state: Path, method: str, path: str, **body: Any) -> wire.Reply:
    """One answer to the owner."""
    return wire.raw(port, request(port, local_key(state), method, path, body))


def rotate(port: int, state: Path) -> str:
    """Replace the token; the new one."""
    reply = ask(port, state, "POST", "/admin/token/rotate")
    assert reply.status == 200, reply
    return str(reply.json()["token"])


def opens(port: int, token: str) -> bool:
    """Whether a client with this token is served."""
    status = wire.post(port, token, wire.call("tools/list")).status
    assert status in (200, 401)
    return status == 200


def keyring_at(path: Path) -> dict[str, str]:
    """The variables of a process whose keyring is a file."""
    return {"PYTHON_KEYRING_BACKEND": BACKEND, "TEST_KEYRING": str(path)}


def kept(state: Path) -> dict[str, bytes]:
    """What decides who may come in and where, by file."""
    names = ("token", "tokens.json", "local.key", "settings.json", "endpoint.json")
    return {name: (state / name).read_bytes() for name in names if (state / name).exists()}
