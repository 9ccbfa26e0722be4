"""Talks to this vault's daemon as a local program, with the local key.

The key is sent only over a connection whose other end has just proved that it
holds the same key, on this port, as this instance. A connection that broke is
never reopened without a new proof. Only 127.0.0.1 is ever spoken to; no proxy
is used and no redirect followed.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from sidecar.bridge import endpoint, identity
from sidecar.bridge.endpoint import Endpoint
from sidecar.bridge.token import read_local_key
from sidecar.errors import SidecarError, Unreachable

_PROOF_TIMEOUT_S = 5.0
_ANSWER_TIMEOUT_S = 60.0
_LARGEST_ANSWER = 64 << 20
_NOT_RUNNING = "no daemon serves this vault; start one with 'vault-sidecar serve'"

BROKEN = (OSError, http.client.HTTPException, ValueError, RecursionError)
"""What an exchange with somebody who doesn't speak our language may raise."""


class NotRunning(Unreachable):
    """No daemon serves this vault now; what was recorded, if anything, is left from an earlier one."""


def recorded(state_dir: Path) -> tuple[Endpoint, bytes]:
    """Where this vault's daemon said it listens, and the key it left; it may be gone. Blocks.

    Raises:
        NotRunning: nothing is on record.
        Unreadable: what is can't be believed.
    """
    published, key = endpoint.read(state_dir), read_local_key(state_dir)
    if published is None or not key:
        raise NotRunning(_NOT_RUNNING)
    return published, key


def connect(published: Endpoint, key: bytes) -> http.client.HTTPConnection:
    """A connection whose other end has proved that it is `published`: the key may be sent over it. Blocks.

    Once it breaks it stays broken. An exchange over it times out after 5 s until its owner says otherwise.

    Raises:
        NotRunning: nobody listens there.
        Unreachable: somebody else does, or no answer comes.
    """
    connection = http.client.HTTPConnection("127.0.0.1", published.port, timeout=_PROOF_TIMEOUT_S)
    try:
        connection.connect()
        connection.auto_open = 0  # the library would reconnect by itself, to whoever listens by then
    except ConnectionRefusedError as error:
        raise NotRunning(_NOT_RUNNING) from error
    except OSError as error:
        raise Unreachable(f"port {published.port} does not answer") from error
    try:
        _demand_proof(connection, key, published)
    except BaseException:
        connection.close()
        raise
    return connection


def bearer(key: bytes) -> dict[str, str]:
    """The header that opens the daemon's door. Only for a connection made by `connect`."""
    return {"Authorization": "Bearer " + key.decode("ascii")}


class LocalClient:
    """One vault's daemon, as a context manager. All methods block. Not for several threads at once."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._connection: http.client.HTTPConnection | None = None
        self._key = b""

    def __enter__(self) -> LocalClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; the next call makes and proves a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, **query: str | float) -> dict[str, Any]:
        """The JSON object that `GET path?query` answers.

        Raises:
            NotRunning: no daemon serves this vault.
            Unreachable: something answers, but it isn't this vault's daemon, or it broke off.
            SidecarError: what the daemon itself answered.
        """
        # what was typed in another encoding than UTF-8 goes on as it came
        asked = urlencode(query, errors="surrogateescape")
        return self._ask("GET", f"{path}?{asked}" if query else path, None)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """The JSON object that `POST path` answers to a JSON object; raises as `get`."""
        return self._ask("POST", path, json.dumps(body).encode())

    def _ask(self, method: str, target: str, body: bytes | None) -> dict[str, Any]:
        connection = self._connection or self._connect()
        self._connection = None  # whatever breaks below breaks the proof as well
        headers = bearer(self._key) | {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            status, answer = _exchange(connection, method, target, body, headers)
        except BROKEN as error:
            connection.close()
            raise Unreachable("the daemon broke off before it had answered; try again") from error
        if connection.sock is not None:  # else the daemon closed it, as it was free to
            self._connection = connection
        if status != 200:
            raise _refusal(status, answer)
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        published, self._key = recorded(self._state_dir)
        connection = connect(published, self._key)
        connection.timeout = _ANSWER_TIMEOUT_S
        if connection.sock is not None:
            connection.sock.settimeout(_ANSWER_TIMEOUT_S)
        return connection


def _demand_proof(connection: http.client.HTTPConnection, key: bytes, published: Endpoint) -> None:
    """Let the other end prove itself. Nothing secret is sent."""
    nonce = identity.new_nonce()
    stranger = Unreachable(
        f"what answers on port {published.port} is not this vault's daemon; nothing was sent to it."
        " Stop the daemon that is still running, or start it anew with 'vault-sidecar serve'"
    )
    try:
        status, answer = _exchange(connection, "GET", f"/identity?nonce={nonce}", None, {})
    except BROKEN as error:
        raise stranger from error
    proof = answer.get("proof")
    # port and instance are the ones we looked for, whatever the answer says
    is_ours = isinstance(proof, str) and identity.verify(key, nonce, published.port, published.instance, proof)
    if status != 200 or not is_ours:
        raise stranger


def _exchange(
    connection: http.client.HTTPConnection, method: str, target: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    """One request and its whole JSON answer. Raises one of `BROKEN`."""
    connection.request(method, target, body, headers)
    response = connection.getresponse()
    content = response.read(_LARGEST_ANSWER + 1)
    if len(content) > _LARGEST_ANSWER:
        raise ValueError("the answer is too large")
    answer = json.loads(content)
    if not isinstance(answer, dict):
        raise ValueError("the answer is no object")
    return response.status, cast("dict[str, Any]", answer)


def _refusal(status: int, answer: dict[str, Any]) -> SidecarError:
    """The daemon's own error `{"error": code, "message": sentence}`, as the class it had there."""
    kinds = {kind.code: kind for kind in SidecarError.__subclasses__()}
    kind = kinds.get(str(answer.get("error")), SidecarError)
    return kind(str(answer.get("message") or f"the daemon refused with status {status}"))
