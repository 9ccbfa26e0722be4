"""One MCP path over HTTP: both protocol eras, on the SDK's dispatch kernel.

The SDK's own HTTP transport is an ASGI application and costs twice the time.
Its kernel below (`runner`, `connection`, `inbound`) is importable but no stable
API: every such import of the product is in this module, and a test calls them.

An answer is plain JSON; it becomes an event stream only when the handler emits
a notification first, or when the client takes nothing else. Revisions up to
2025-11-25 shake hands (`initialize`), 2026-07-28 sends its envelope with every
request. Both are served without sessions: a session header is not issued, and a
foreign one is ignored. A closed connection cancels the call; a posted
`notifications/cancelled` is accepted and does nothing, because a caller's own
message ids say nothing about whose call is meant.

Who may come in, routes and limits of size and time are the web room's business.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from aiohttp import web
from mcp.server.connection import Connection
from mcp.server.runner import modern_error_data, serve_one
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    HEADER_MISMATCH,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    SubscriptionsListenRequestParams,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from sidecar.bridge.token import Caller
from sidecar.protocol import envelope, json_body, media
from sidecar.protocol.envelope import BadMessage, Id, Message
from sidecar.protocol.json_body import BadJson
from sidecar.protocol.server import McpServer

logger = logging.getLogger(__name__)

_MAX_LISTENERS = 64
_MAX_PENDING_EVENTS = 64  # a client that reads nothing for so many changes is cut off, and lists again
_STREAM_HEADERS = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}


class McpPath:
    """What answers the POSTs of one path."""

    def __init__(self, server: McpServer, *, ping_after_s: float = 15.0) -> None:
        """A stream silent for `ping_after_s` gets a comment, lest the client's read timeout, often a minute, end it."""
        self._server = server
        self._ping_after_s = ping_after_s
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(
            self._bus, max_subscriptions=_MAX_LISTENERS, max_buffered_events=_MAX_PENDING_EVENTS
        )
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        self._exchanges: set[_Exchange] = set()

    def unacceptable(self, request: web.BaseRequest) -> int | None:
        """The status that refuses these headers before the body is read: 415, 406 or None."""
        if not media.is_json(request.headers.get("Content-Type", "")):
            return 415
        return 406 if media.accepted(request) == (False, False) else None

    async def answer(
        self, request: web.BaseRequest, body: bytes, caller: Caller, valid: Callable[[], bool]
    ) -> web.StreamResponse:
        """Answer one message. `valid` is asked when a token has changed: are the caller's rights still good?"""
        try:
            message = envelope.read(json_body.parse(body))
        except BadJson as bad:
            return _error(None, ErrorData(code=PARSE_ERROR, message=f"Parse error: {bad}"), 400)
        except BadMessage as bad:
            return _error(bad.id, ErrorData(code=bad.code, message=str(bad)), 400)
        repeated = find_duplicated_routing_header(request.headers.items())
        if repeated is not None:
            error = ErrorData(code=HEADER_MISMATCH, message=f"{repeated} header appears more than once")
            return _error(message.id, error, 400)
        if message.kind != "request":
            return _acknowledge(request, message)
        return await self._call(request, message, caller, valid)

    async def tools_changed(self) -> None:
        """Tell every open listen stream that the list of tools has changed."""
        await self._bus.publish(ToolsListChanged())

    def close_revoked(self) -> None:
        """End the streams whose token is no longer valid. A call without a stream that has begun is finished."""
        for exchange in list(self._exchanges):
            if not exchange.valid():
                exchange.abort()

    def close(self) -> None:
        """End every listen stream; each sends its last frame from its own task."""
        self._listen.close()

    async def _call(
        self, request: web.BaseRequest, message: Message, caller: Caller, valid: Callable[[], bool]
    ) -> web.StreamResponse:
        assert message.id is not None
        takes_json, takes_stream = media.accepted(request)
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        modern = _is_modern(version, message)
        if modern:
            route = _envelope_route(request, message)
            if isinstance(route, InboundLadderRejection):
                return _rejected(message.id, route)
            connection = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
        else:
            connection = Connection.from_envelope(version or DEFAULT_NEGOTIATED_VERSION, None, None)
        if message.method == "subscriptions/listen" and not takes_stream:
            error = ErrorData(code=HEADER_MISMATCH, message="Accept header must name text/event-stream")
            return _error(message.id, error, 406)

        exchange = _Exchange(request, message.id, message.params, caller, valid, takes_stream, self._ping_after_s)
        self._exchanges.add(exchange)
        try:
            if not takes_json:
                await exchange.open()
            try:
                result = await serve_one(
                    self._server, exchange, message.method, message.params, connection=connection, lifespan_state={}
                )
            except ConnectionError:
                raise  # the client of a stream has gone
            except Exception as failed:
                # What is no protocol error is logged there and becomes one fixed sentence.
                error = modern_error_data(failed)
                status = ERROR_CODE_HTTP_STATUS.get(error.code, 200) if modern else 200
                return await exchange.finish(_error_body(message.id, error), status)
            return await exchange.finish({"jsonrpc": "2.0", "id": message.id, "result": result}, 200)
        finally:
            self._exchanges.discard(exchange)
            await exchange.stop_pings()


@dataclass(eq=False)
class _Exchange:
    """One request and its reply: the kernel's channel back to the client while the handler runs."""

    request: web.BaseRequest
    request_id: Id
    params: Mapping[str, Any] | None
    caller: Caller
    valid: Callable[[], bool]
    takes_stream: bool
    ping_after_s: float
    transport: TransportContext = field(init=False)
    message_metadata: ServerMessageMetadata = field(init=False)
    cancel_requested: anyio.Event = field(default_factory=anyio.Event, init=False)
    can_send_request: bool = field(default=False, init=False)
    _stream: web.StreamResponse | None = field(default=None, init=False)
    _pings: asyncio.Task[None] | None = field(default=None, init=False)
    _task: asyncio.Task[Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.transport = TransportContext(kind="streamable-http", can_send_request=False)
        self.message_metadata = ServerMessageMetadata(request_context=self.caller)
        self._task = asyncio.current_task()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Never: without a session a client's reply has nowhere to land."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification on this reply. Dropped where the client takes JSON only."""
        if self.takes_stream:
            stream = await self.open()
            await stream.write(_event({"jsonrpc": "2.0", "method": method, "params": dict(params or {})}))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress, if the request asked for it."""
        token = progress_token_from_params(self.params)
        if token is not None:
            facts = {"progressToken": token, "progress": progress, "total": total, "message": message}
            await self.notify("notifications/progress", {k: v for k, v in facts.items() if v is not None})

    async def open(self) -> web.StreamResponse:
        """Turn the reply into an event stream, if it is none yet."""
        if self._stream is None:
            self._stream = web.StreamResponse(headers=_STREAM_HEADERS)
            await self._stream.prepare(self.request)
            self._pings = asyncio.create_task(_ping(self._stream, self.ping_after_s))
        return self._stream

    async def finish(self, reply: dict[str, Any], status: int) -> web.StreamResponse:
        """Send the reply, on the stream if there is one; its status is 200 then."""
        if self._stream is None:
            return _json(reply, status)
        await self.stop_pings()
        await self._stream.write(_event(reply))
        await self._stream.write_eof()
        return self._stream

    async def stop_pings(self) -> None:
        """Nothing but the handler writes from here on."""
        if self._pings is not None:
            self._pings.cancel()
            await asyncio.wait((self._pings,))

    def abort(self) -> None:
        """Cut an open stream off; a reply that is no stream yet is left to finish."""
        if self._stream is not None and self._task is not None:
            self._task.cancel()


async def _ping(stream: web.StreamResponse, after_s: float) -> None:
    """Send comments until cancelled."""
    while True:
        await asyncio.sleep(after_s)
        try:
            await stream.write(b": ping\n\n")
        except ConnectionError:
            return


def _is_modern(version: str | None, message: Message) -> bool:
    """Whether a request is for the era of per-request envelopes.

    Decided by the header, and by the body where the header is silent or old: a
    request with an envelope must say so in its headers too, and is refused by
    the classifier if it does not.
    """
    if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return True
    meta = (message.params or {}).get("_meta")
    return message.method != "initialize" and isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta


def _envelope_route(request: web.BaseRequest, message: Message) -> InboundModernRoute | InboundLadderRejection:
    """Check the envelope of a request, and that the headers repeat it truly.

    Headers that mirror arguments (`Mcp-Param-*`) need no check: no schema here asks for one.
    """
    # The classifier looks names up in lower case.
    lowered = {name.lower(): value for name, value in request.headers.items()}
    return classify_inbound_request({"method": message.method, "params": message.params}, headers=lowered)


def _acknowledge(request: web.BaseRequest, message: Message) -> web.StreamResponse:
    """202 for what needs no reply. Nothing acts on it: no state is kept between two requests."""
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
        refused = unsupported_protocol_version_rejection(version)
        if refused is not None:
            return _rejected(message.id, refused)
        if message.kind == "response":
            text = "Responses are not accepted: this server sends no requests."
            return _error(message.id, ErrorData(code=BadMessage.code, message=text), 400)
    return web.Response(status=202)


def _rejected(message_id: Id | None, rejection: InboundLadderRejection) -> web.Response:
    error = ErrorData(code=rejection.code, message=rejection.message, data=rejection.data)
    return _error(message_id, error, ERROR_CODE_HTTP_STATUS.get(error.code, 400))


def _error(message_id: Id | None, error: ErrorData, status: int) -> web.Response:
    return _json(_error_body(message_id, error), status)


def _error_body(message_id: Id | None, error: ErrorData) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, "error": error.model_dump(mode="json", exclude_none=True)}


def _json(reply: dict[str, Any], status: int) -> web.Response:
    return web.Response(body=_dump(reply), status=status, content_type="application/json")


def _event(message: dict[str, Any]) -> bytes:
    return b"event: message\ndata: " + _dump(message) + b"\n\n"


def _dump(message: dict[str, Any]) -> bytes:
    # "replace": half a surrogate pair, should a handler ever produce one, must not cost the whole answer.
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
