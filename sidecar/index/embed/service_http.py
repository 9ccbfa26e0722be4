"""One kept-open connection to an embedding service: JSON out, JSON in, within a time, and nowhere else.

No proxy is used, no redirect is followed, and where only this computer may be
asked, the address that was reached is checked and not its name. Everything
blocks.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
import time
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from sidecar.index.embed.base import EmbedderAway

_CONNECT_S: Final = 5.0
_MOST_BYTES: Final = 64 << 20  # 16 vectors of 8,192 numbers are 3 MB of JSON
_PIECE: Final = 1 << 16

_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 20.0
_TRIES: Final = 3
_MAY_PASS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""What the same request may get another answer to soon."""

_REFUSED_TEXT: Final = frozenset({400, 413, 422})


class TextRefused(Exception):
    """The service does not take what was sent; another text it may take."""


class ServiceConnection:
    """Use it from one thread at a time."""

    def __init__(self, base_url: str, key: str | None, *, network: bool) -> None:
        """`base_url` has a scheme and a host; `network`: other computers may be asked, too."""
        parts = urlsplit(base_url)
        self._path = parts.path.rstrip("/")
        self._network = network
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        host = parts.hostname or ""
        self._connection = (
            http.client.HTTPSConnection(host, parts.port, timeout=_CONNECT_S, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, parts.port, timeout=_CONNECT_S)
        )

    def post(self, path: str, body: dict[str, Any], *, within_s: float) -> dict[str, Any]:
        """The answer to a good request. What may pass is tried again while there is time.

        Raises:
            TextRefused: the service answered that the request is wrong.
            EmbedderAway: it did not answer, or with something else.
        """
        encoded = json.dumps(body).encode("ascii")
        give_up = time.monotonic() + within_s
        for last in (*[False] * (_TRIES - 1), True):
            pause_s = _PAUSE_S
            try:
                status, retry_after, answer = self._request(f"{self._path}{path}", encoded, give_up)
            except TimeoutError as late:
                raise EmbedderAway(f"got no answer from the embedding service in {within_s:g} s") from late
            except (OSError, http.client.HTTPException) as failed:
                failure = EmbedderAway(f"can't reach the embedding service ({type(failed).__name__})")
            else:
                if status == 200:
                    return _fields(answer)
                if status in _REFUSED_TEXT:
                    raise TextRefused(status)
                failure = EmbedderAway(_refusal(status))
                if status not in _MAY_PASS:
                    raise failure
                pause_s = retry_after or pause_s
            if last or pause_s > min(_LONGEST_PAUSE_S, give_up - time.monotonic()):
                raise failure
            time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """Close the connection; the next request opens one again."""
        self._connection.close()

    def _request(self, target: str, body: bytes, give_up: float) -> tuple[int, float, bytes]:
        """Status, seconds of `Retry-After` (0: none), body."""
        if self._connection.sock is not None:
            with suppress(ConnectionError, http.client.RemoteDisconnected):
                return self._exchange(target, body, give_up)  # it may have been closed since it was last used
            self.close()
        self._connect(give_up)
        return self._exchange(target, body, give_up)

    def _connect(self, give_up: float) -> None:
        self._connection.timeout = min(_CONNECT_S, _left(give_up))
        self._connection.connect()
        # a name such as localhost may stand for any address
        address = self._connection.sock.getpeername()[0]
        if not self._network and not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            self.close()
            raise EmbedderAway("may ask this computer only for embeddings ([index] embedder_network)")

    def _exchange(self, target: str, body: bytes, give_up: float) -> tuple[int, float, bytes]:
        connection = self._connection
        done = False
        try:
            sock: socket.socket = connection.sock
            sock.settimeout(_left(give_up))
            connection.request("POST", target, body, self._headers)
            response = connection.getresponse()
            found = bytearray()
            while piece := response.read1(_PIECE):
                found += piece
                if len(found) > _MOST_BYTES:
                    raise EmbedderAway("got more from the embedding service than vectors can be")
                sock.settimeout(_left(give_up))
            if response.length:  # `read1` ends in silence when the rest does not come
                raise http.client.IncompleteRead(bytes(found), response.length)
            response.close()  # `read1` leaves it open, and the connection takes no other request meanwhile
            done = not response.will_close
            return response.status, _seconds(response.getheader("Retry-After")), bytes(found)
        finally:
            if not done:
                self.close()


def _left(give_up: float) -> float:
    left = give_up - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _seconds(retry_after: str | None) -> float:
    """Of the form in seconds; dates are passed over."""
    return float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else 0.0


def _fields(answer: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(answer)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise EmbedderAway("got something else than JSON from the embedding service")
    return fields  # pyright: ignore[reportUnknownVariableType]: JSON


def _refusal(status: int) -> str:
    # without the service's own words, which may repeat a text or a key
    if status in (401, 403):
        return f"was refused by the embedding service, which wants another key ({status})"
    if status == 404:
        return "was told by the embedding service that it has no such model or address (404)"
    if 300 <= status < 400:
        return f"was sent elsewhere by the embedding service, and does not go there ({status})"
    return f"was refused by the embedding service ({status})"
