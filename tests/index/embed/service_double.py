"""A stand-in for Ollama, LM Studio and the like: a server on a real socket that speaks `/v1/embeddings`.

Answers by the same vectors as the embedder of `tests.index.embedders`, unless it is told to do otherwise.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.index.embedders import vector


@dataclass
class Asked:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Answer = Callable[["Handler", Asked], None]


@dataclass
class Service:
    """What the server did, and what it is to do."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    """For the next requests, in order; then `usual` answers."""
    usual: Answer = field(default=lambda handler, asked: handler.vectors(asked))
    connections: int = 0
    may_end: threading.Event = field(default_factory=threading.Event)
    """Set at the end, for answers that hang."""

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> list[str]:
        """All texts that were sent, in order."""
        return [text for asked in self.asked for text in asked.body["input"]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: Service

    def setup(self) -> None:
        super().setup()
        self.service.connections += 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.service.asked.append(asked)
        answer = self.service.answers.pop(0) if self.service.answers else self.service.usual
        answer(self, asked)

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def vectors(self, asked: Asked, dim: int = 64, scale: float = 3.0) -> None:
        """As the protocol wants it; not in order, and not of length 1."""
        found = [
            {"object": "embedding", "index": at, "embedding": [float(x) * scale for x in vector(text)[:dim]]}
            for at, text in enumerate(asked.body["input"])
        ]
        data = {"object": "list", "data": found[::-1], "model": asked.body["model"]}
        self.reply(200, json.dumps(data).encode())

    def log_message(self, *_: Any) -> None:
        pass


def refusing(status: int, **headers: str) -> Answer:
    """An answer with an error that repeats a text, as some services do."""

    def answer(handler: Handler, asked: Asked) -> None:
        handler.reply(status, json.dumps({"error": {"message": f"no: {asked.body['input']}"}}).encode(), **headers)

    return answer


def saying(body: bytes) -> Answer:
    return lambda handler, asked: handler.reply(200, body)


def of_size(dim: int) -> Answer:
    return lambda handler, asked: handler.vectors(asked, dim=dim)


def dropping(handler: Handler, asked: Asked) -> None:
    """Half of an answer, then the end of the connection."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def hanging(handler: Handler, asked: Asked) -> None:
    handler.service.may_end.wait()
    handler.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Clients that are gone are no news."""


@contextmanager
def serving() -> Generator[Service]:
    service = Service()
    handler = type("OwnHandler", (Handler,), {"service": service})
    server = _Server(("127.0.0.1", 0), handler)
    service.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield service
    finally:
        service.may_end.set()
        server.shutdown()
        thread.join()
        server.server_close()
