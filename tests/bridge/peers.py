"""Programs at the other end of the local client: an honest daemon's twin, and strangers on its port."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from sidecar.bridge import endpoint, identity
from sidecar.bridge.token import new_local_key


class Honest:
    """Answers `/identity` and, to the local key, whatever `answers` holds; remembers what it was asked."""

    def __init__(self, state: Path, *, port: int = 0) -> None:
        self.key = new_local_key(state)
        self.instance = identity.new_instance()
        self.requests: list[tuple[str, bool]] = []
        self.answers: dict[str, tuple[int, object]] = {}
        self.series: dict[str, list[object]] = {}
        """By path: what is answered one after the other, before `answers` holds again."""
        self.close_after_answer = False
        honest = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self.body = self.rfile.read(length)
                honest.requests.append((self.path, "Authorization" in self.headers))
                where = urlsplit(self.path)
                if where.path == "/identity":
                    return self.reply(200, honest.proof(parse_qs(where.query)["nonce"][0]))
                if self.headers["Authorization"] != "Bearer " + honest.key.decode():
                    return self.reply(401, {})
                if honest.series.get(where.path):
                    return self.reply(200, honest.series[where.path].pop(0))
                self.reply(*honest.answers.get(where.path, (200, {"echo": self.body.decode()})))

            do_POST = do_GET

            def reply(self, status: int, answer: object) -> None:
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                if honest.close_after_answer:
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def proof(self, nonce: str) -> dict[str, object]:
        proof = identity.prove(self.key, nonce, self.port, self.instance)
        return {"proof": proof, "instance": self.instance, "port": self.port}

    def publish(self, state: Path, port: int | None = None) -> None:
        endpoint.write(state, endpoint.of_this_process(port or self.port, self.instance, "0.1.0"))


@contextmanager
def honest_daemon(state: Path) -> Generator[Honest]:
    daemon = Honest(state)
    daemon.publish(state)
    thread = threading.Thread(target=daemon.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield daemon
    finally:
        daemon.server.shutdown()
        daemon.server.server_close()
        thread.join()


class Stranger:
    """Takes connections on a port, keeps every byte that reaches it, and answers each request with `answer(bytes)`."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.heard = b""
        self.connections = 0
        self._answer = answer
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection, suppress(ConnectionError):  # who has heard enough may be gone already
                while part := connection.recv(65536):
                    self.heard += part
                    answer = self._answer(part)
                    if not answer:
                        break
                    connection.sendall(answer)

    def __enter__(self) -> Stranger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def http_answer(answer: object, status: str = "200 OK", headers: str = "") -> bytes:
    content = json.dumps(answer).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{headers}\r\n".encode() + content


def relay_to(port: int) -> Callable[[bytes], bytes]:
    """Passes each request on to another port and its answer back."""

    def relay(request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as onward:
            onward.sendall(request)
            onward.shutdown(socket.SHUT_WR)
            answer = b""
            while part := onward.recv(65536):
                answer += part
            return answer

    return relay
