"""Connects by HTTP as a client's entry says, one step after the other.

Only 127.0.0.1 is spoken to, whatever the entry says, and the token is sent
only after the other end has proved that it is this vault's daemon.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from sidecar import __version__
from sidecar.bridge import endpoint, identity
from sidecar.bridge.client import LocalClient
from sidecar.bridge.endpoint import Endpoint
from sidecar.bridge.token import read_local_key
from sidecar.cli.clients.client import AUTHORIZATION, Http
from sidecar.cli.clients.steps import Step
from sidecar.errors import SidecarError

_TIMEOUT_S = 15.0
_LARGEST_ANSWER = 16 << 20
_BROKEN = (OSError, http.client.HTTPException, ValueError, RecursionError)

REVISION = "2025-06-18"
"""Of the protocol; old enough for every client there is."""

INITIALIZE = {
    "protocolVersion": REVISION,
    "capabilities": {},
    "clientInfo": {"name": "vault-sidecar connect --check", "version": __version__},
}


def steps(entry: Http, state_dir: Path, cure: str, token: str | None) -> Iterator[Step]:
    """Try it. `cure` says how the entry is set right; `token` is tried where the client asks the person. Blocks."""
    try:
        with LocalClient(state_dir) as client:
            facts = client.get("/admin/status")
        published, key = endpoint.read(state_dir), read_local_key(state_dir)
    except SidecarError as error:
        yield Step("daemon", False, str(error))
        return
    if published is None or key is None:
        yield Step("daemon", False, "the daemon has just ended; start it with 'vault-sidecar serve'")
        return
    yield Step("daemon", True, f"version {facts.get('version')}, process {facts.get('pid')}")
    try:
        url = urlsplit(entry.url)
        wrong = _wrong_address(url, published.port)
    except ValueError:
        yield Step("port", False, f"the entry's address is no address; {cure}")
        return
    if wrong:
        yield Step("port", False, f"{wrong}; {cure}")
        return
    connection = http.client.HTTPConnection("127.0.0.1", published.port, timeout=_TIMEOUT_S)
    try:
        connection.connect()
    except OSError as error:
        yield Step("port", False, f"port {published.port} does not answer: {error.strerror}")
        return
    try:
        connection.auto_open = 0  # a new connection would need a new proof
        yield Step("port", True, f"{published.port} answers")
        yield from _talk(connection, entry, url, published, key, cure, token)
    finally:
        connection.close()


def _wrong_address(url: SplitResult, port: int) -> str | None:
    if url.scheme != "http":
        return f"the entry's address begins with {url.scheme}://, and the daemon speaks http only"
    if (url.port or 80) != port:
        return f"the entry says port {url.port or 80}, and the daemon listens on {port}"
    return None


def _talk(
    connection: http.client.HTTPConnection,
    entry: Http,
    url: SplitResult,
    published: Endpoint,
    key: bytes,
    cure: str,
    token: str | None,
) -> Iterator[Step]:
    host = url.netloc.rpartition("@")[2]
    wrong = _host(connection, host, published, key)
    yield Step("Host", not wrong, f"{wrong}; {cure}" if wrong else f"{host} is let in")
    if wrong:
        return
    headers = dict(entry.headers)
    if entry.missing:
        says = f"the entry takes it from the environment variable {entry.missing}, which is not set here"
        yield Step("token", False, f"{says}; set it where the client is started")
        return
    if entry.asks and token:
        headers[AUTHORIZATION.lower()] = f"Bearer {token}"
    if AUTHORIZATION.lower() not in headers:
        yield Step("token", False, f"the entry sends no Authorization header; {cure}")
        return
    session = _Session(connection, url.path or "/", {**headers, "host": host})
    try:
        status, answer = session.ask("initialize", INITIALIZE)
        if status == 401:
            yield Step("token", False, f"the entry sends another token than the vault's; {cure}")
            return
        yield Step("token", True, "the client asks for it; the vault's own is let in" if entry.asks else "it is let in")
        if status != 200:
            yield Step("tools", False, _refused(url.path, status, answer, cure))
            return
        session.tell("notifications/initialized")
        status, answer = session.ask("tools/list", {})
    except _BROKEN:
        yield Step("tools", False, "the daemon broke off before it had answered; try again")
        return
    yield tools_step(answer) if status == 200 else Step("tools", False, _refused(url.path, status, answer, cure))


def tools_step(answer: Mapping[str, Any]) -> Step:
    """What the answer to `tools/list` says."""
    result = answer.get("result")
    found = cast("dict[str, Any]", result).get("tools") if isinstance(result, dict) else None
    tools: list[Any] = cast("list[Any]", found) if isinstance(found, list) else []
    if not tools:
        return Step("tools", False, "the daemon offers no tool here; look at the setting surfaces.enabled")
    return Step("tools", True, f"{len(tools)} offered" if len(tools) > 1 else "1 offered")


def _host(connection: http.client.HTTPConnection, host: str, published: Endpoint, key: bytes) -> str | None:
    """What is wrong with the Host that the client would send. Nothing secret is sent."""
    nonce = identity.new_nonce()
    try:
        connection.request("GET", f"/identity?nonce={nonce}", headers={"Host": host})
        status, _, answer = _answer(connection)
    except _BROKEN:
        return f"what answers on port {published.port} does not speak as the daemon does"
    if status == 403:
        return f"the daemon refuses the name {host!r}: it must be 127.0.0.1 or localhost"
    proof = answer.get("proof")
    if not isinstance(proof, str) or not identity.verify(key, nonce, published.port, published.instance, proof):
        return f"what answers on port {published.port} is not this vault's daemon; nothing was sent to it"
    return None


def _refused(path: str, status: int, answer: Mapping[str, Any], cure: str) -> str:
    if status == 404:
        return f"nothing is served at {path or '/'}; {cure}"
    return f"the daemon refused with status {status}: {answer.get('message') or 'no reason given'}"


class _Session:
    """A conversation on one connection, with the headers of the entry."""

    def __init__(self, connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self._path = path
        self._headers = {
            **headers,
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        self._id = 0

    def ask(self, method: str, params: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """A request; its status and the reply. Raises one of `_BROKEN`."""
        self._id += 1
        return self._post({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})

    def tell(self, method: str) -> None:
        """A notification. Raises one of `_BROKEN`."""
        self._post({"jsonrpc": "2.0", "method": method})

    def _post(self, message: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        self._connection.request("POST", self._path, json.dumps(message).encode(), self._headers)
        status, headers, answer = _answer(self._connection)
        if session := headers.get("mcp-session-id"):
            self._headers["mcp-session-id"] = session
        self._headers["mcp-protocol-version"] = REVISION
        return status, answer


def _answer(connection: http.client.HTTPConnection) -> tuple[int, dict[str, str], dict[str, Any]]:
    response = connection.getresponse()
    content = response.read(_LARGEST_ANSWER)
    answer: Any = json.loads(content) if content else {}
    if not isinstance(answer, dict):
        raise ValueError("the answer is no object")
    return response.status, {k.lower(): v for k, v in response.getheaders()}, cast("dict[str, Any]", answer)
