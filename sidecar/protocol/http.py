"""One MCP path over HTTP: both protocol eras, with or without sessions, on the SDK's dispatch kernel.

The SDK's own HTTP transport is an ASGI application and costs twice the time.
Its kernel below (`runner`, `connection`, `inbound`) is importable but no stable
API: every such import of the product is here, in `eras` and in `exchange`, and
a test calls them.

A path is stateless, so that a session header is not issued and a foreign one is
ignored, or it requires sessions of the revisions that have them.

A closed connection cancels the call, within a session too: no stream can be
taken up again here, so nobody would get the answer. A posted
`notifications/cancelled` cancels within a session; elsewhere it is accepted and
does nothing, because a caller's own message ids say nothing about whose call is
meant.

Within a session a handler may ask its client something, on the stream of its
call; the answer is a POST of its own.

When a token is replaced, its streams and sessions end at once. A call that has
begun and has not turned into a stream is finished, one that has not is refused.

Who may come in, routes and limits of size and time are the web room's business.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext
from typing import Any

from aiohttp import web
from mcp.server.connection import Connection
from mcp.server.lowlevel import NotificationOptions
from mcp.server.runner import ServerRunner, aclose_shielded, modern_error_data
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, find_duplicated_routing_header
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    SubscriptionsListenRequestParams,
)

from sidecar.bridge.token import Caller
from sidecar.protocol import envelope, eras, json_body, media, replies
from sidecar.protocol.envelope import BadMessage, Id, Message
from sidecar.protocol.exchange import Exchange
from sidecar.protocol.json_body import BadJson
from sidecar.protocol.server import McpServer, Requester
from sidecar.protocol.sessions import MOST_PENDING, MOST_STREAMS, Session, Sessions
from sidecar.protocol.streams import EventStream, Streams
from sidecar.vault.paths import echo

SESSION_HEADER = "Mcp-Session-Id"

_CANCELLED = ErrorData(code=-32800, message="Request cancelled")  # the code of the SDK's own transport
_TOOLS_CHANGED = "notifications/tools/list_changed"


class McpPath:
    """What answers the requests of one path. With `sessions` it requires them, else it is stateless."""

    def __init__(self, server: McpServer, sessions: Sessions | None = None, *, ping_after_s: float = 15.0) -> None:
        self._server = server
        self._sessions = sessions
        # Only a session has a stream on which a client that shook hands can be told.
        self._hello = server.create_initialization_options(NotificationOptions(tools_changed=sessions is not None))
        self._streams = Streams(ping_after_s)
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus, max_subscriptions=MOST_STREAMS, max_buffered_events=MOST_PENDING)
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)

    @property
    def keeps_sessions(self) -> bool:
        """Whether the path answers GET and DELETE too."""
        return self._sessions is not None

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self._streams.count

    def unacceptable(self, request: web.BaseRequest) -> int | None:
        """The status that refuses the headers of a POST before its body is read: 415, 406 or None."""
        if not media.is_json(request.headers.get("Content-Type", "")):
            return 415
        return 406 if media.accepted(request) == (False, False) else None

    async def answer(
        self, request: web.BaseRequest, body: bytes, caller: Caller, valid: Callable[[], bool]
    ) -> web.StreamResponse:
        """Answer one posted message. `valid` tells whether the caller's token is still good."""
        try:
            message = envelope.read(json_body.parse(body))
        except BadJson as bad:
            return replies.to_error(None, PARSE_ERROR, f"Parse error: {bad}", 400)
        except BadMessage as bad:
            return replies.to_error(bad.id, bad.code, str(bad), 400)
        repeated = find_duplicated_routing_header(request.headers.items())
        if repeated is not None:
            return replies.to_error(message.id, HEADER_MISMATCH, f"{repeated} header appears more than once", 400)
        if self._sessions is not None and not eras.is_modern(request, message):
            return await self._in_session(self._sessions, request, message, caller, valid)
        if message.kind != "request":
            return eras.acknowledge(request, message)
        return await self._call(request, message, caller, valid)

    async def listen(self, request: web.BaseRequest, caller: Caller, valid: Callable[[], bool]) -> web.StreamResponse:
        """Answer a GET with the standing stream of a session, for what belongs to no request."""
        assert self._sessions is not None
        refused = eras.refuse_without_sessions(request)
        if refused is not None:
            return refused
        if not media.accepted(request)[1]:
            return _needs_stream(None)
        session = _find(self._sessions, request, None, caller)
        if isinstance(session, web.Response):
            return session
        if session.has_stream:
            return replies.to_error(None, INVALID_REQUEST, "This session has a stream already.", 409)
        with self._sessions.use(session), self._sessions.stream(session) as outbox:
            if outbox is None:
                return replies.to_error(None, INTERNAL_ERROR, "Too many streams are open; try again later.", 503)
            async with self._streams.open(request, valid) as stream:
                async for message in outbox:
                    await stream.send(message)
        return stream.response

    async def end(self, request: web.BaseRequest, caller: Caller) -> web.StreamResponse:
        """Answer a DELETE: the session is over."""
        assert self._sessions is not None
        refused = eras.refuse_without_sessions(request)
        if refused is not None:
            return refused
        session = _find(self._sessions, request, None, caller)
        if isinstance(session, web.Response):
            return session
        self._sessions.end(session)
        return web.Response()

    async def tools_changed(self) -> None:
        """Tell every client with a channel for it that the list of tools has changed."""
        for session in self._sessions or ():
            session.post(replies.notification_of(_TOOLS_CHANGED, None))
        await self._bus.publish(ToolsListChanged())

    def close_revoked(self) -> None:
        """End the streams and sessions of tokens that are no longer valid."""
        self._streams.abort_revoked()
        if self._sessions is not None:
            self._sessions.forget_revoked()

    def close(self) -> None:
        """Let every standing stream end; each sends its last bytes from its own task."""
        self._listen.close()
        if self._sessions is not None:
            self._sessions.end_streams()

    async def _in_session(
        self, sessions: Sessions, request: web.BaseRequest, message: Message, caller: Caller, valid: Callable[[], bool]
    ) -> web.StreamResponse:
        opening = message.kind == "request" and message.method == "initialize"
        if opening and SESSION_HEADER not in request.headers:
            session = sessions.open(caller, valid)
            if session is None:
                text = "Too many sessions are open; end one, or try again later."
                return replies.to_error(message.id, INTERNAL_ERROR, text, 503)
        else:
            session = _find(sessions, request, message.id, caller)
            if isinstance(session, web.Response):
                return session
        with sessions.use(session):
            if message.kind == "response":
                session.questions.answer(message)
                return web.Response(status=202)
            if message.kind == "notification":
                if message.method == "notifications/cancelled":
                    session.cancel(envelope.as_id((message.params or {}).get("requestId")))
                return web.Response(status=202)
            try:
                response = await self._call(request, message, caller, valid, session)
            finally:
                if session.revision is None:  # the handshake has failed
                    sessions.end(session)
        if opening and session.revision is not None and not response.prepared:
            response.headers[SESSION_HEADER] = session.id
        return response

    async def _call(
        self,
        request: web.BaseRequest,
        message: Message,
        caller: Caller,
        valid: Callable[[], bool],
        session: Session | None = None,
    ) -> web.StreamResponse:
        takes = media.accepted(request)
        if session is not None:
            connection = Connection.from_envelope(session.revision or DEFAULT_NEGOTIATED_VERSION, None, None)
        else:
            connection = eras.connection_of(request, message, self._server.get_tool_input_schema)
        if isinstance(connection, web.Response):
            return connection
        if message.method == "subscriptions/listen" and not takes[1]:
            return _needs_stream(message.id)
        headers = {SESSION_HEADER: session.id} if session is not None and message.method == "initialize" else None
        async with AsyncExitStack() as stack:

            async def open_stream() -> EventStream:
                return await stack.enter_async_context(self._streams.open(request, valid, headers))

            # Nothing waits between the web room's last look at the token and the handler's first step.
            questions = session.questions if session is not None else None
            requester = Requester(caller, echo(request.headers.get("User-Agent", "")) or None)
            exchange = Exchange(message, requester, valid, takes, open_stream, questions)
            with session.calling(exchange) if session is not None else nullcontext():
                reply, status = await self._reply(exchange, message, connection)
            if session is not None and message.method == "initialize" and "result" in reply:
                session.revision = connection.protocol_version
            return await exchange.finish(reply, status)

    async def _reply(self, exchange: Exchange, message: Message, connection: Connection) -> tuple[dict[str, Any], int]:
        """Run the handler: the reply, and the status it has where it is no stream."""
        runner = ServerRunner(self._server, connection, {}, init_options=self._hello)
        try:
            with exchange.scope:
                result = await runner.on_request(exchange, message.method, message.params)
                return replies.result_of(exchange.request_id, result), 200
        except Exception as failed:
            # What is no protocol error is logged there and becomes one fixed sentence.
            error = modern_error_data(failed)
            shook_hands = connection.protocol_version in eras.HANDSHAKE
            status = 200 if shook_hands else ERROR_CODE_HTTP_STATUS.get(error.code, 200)
            return replies.error_of(exchange.request_id, error), status
        finally:
            await aclose_shielded(connection)
        return replies.error_of(exchange.request_id, _CANCELLED), 200


def _find(
    sessions: Sessions, request: web.BaseRequest, message_id: Id | None, caller: Caller
) -> Session | web.Response:
    """The session that a request names, or the refusal."""
    named = request.headers.getall(SESSION_HEADER, [])
    if len(named) != 1:
        text = f"Send one {SESSION_HEADER} header, with the value that came with the answer to initialize."
        return replies.to_error(message_id, INVALID_REQUEST, text, 400)
    session = sessions.find(named[0], caller)
    if session is None:
        return replies.to_error(message_id, INVALID_REQUEST, "There is no such session; send initialize again.", 404)
    return session


def _needs_stream(message_id: Id | None) -> web.Response:
    return replies.to_error(message_id, HEADER_MISMATCH, "Accept header must name text/event-stream", 406)
