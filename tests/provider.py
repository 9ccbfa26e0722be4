"""A provider of models that plays a script: a real HTTP server that speaks both protocols, tool calls included."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Say:
    """The model's final text."""

    text: str


@dataclass(frozen=True)
class Use:
    """The model wants tools: pairs of a name and its arguments; text instead of arguments goes out as it is."""

    calls: Sequence[tuple[str, Any]]
    text: str = ""


@dataclass(frozen=True)
class Fail:
    """The provider refuses: a status, the message in its own form of error, and headers."""

    status: int
    message: str = "no"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Raw:
    """A body as it is, or its beginning."""

    body: bytes
    status: int = 200
    promised: int | None = None
    """The length that the head says, where it is not the body's: the connection ends before."""
    headers: tuple[tuple[str, str], ...] = ()


class Hang:
    """No answer until the provider closes, or the client goes."""


Step = Say | Use | Fail | Raw | Hang | Callable[["Asked"], "Say | Use | Fail | Raw | Hang"]


@dataclass(frozen=True)
class Asked:
    """One request as it came, and what it says in either protocol."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def speaks(self) -> str:
        return "anthropic" if self.path.endswith("/messages") else "openai"

    @property
    def persona(self) -> str:
        """All of the system's words."""
        if self.speaks == "anthropic":
            system = self.body.get("system", "")
            return system if isinstance(system, str) else "".join(part["text"] for part in system)
        return "\n".join(each["content"] for each in self.body["messages"] if each["role"] in ("system", "developer"))

    @property
    def said(self) -> list[tuple[str, Any]]:
        """The conversation after the system's words: role and content."""
        others = [each for each in self.body["messages"] if each["role"] not in ("system", "developer")]
        return [(each["role"], _text(each.get("content"))) for each in others]

    @property
    def tools(self) -> list[str]:
        """Names of the tools that may be called, in order."""
        listed = self.body.get("tools", [])
        return [each["name"] if self.speaks == "anthropic" else each["function"]["name"] for each in listed]

    @property
    def results(self) -> list[tuple[str, bool]]:
        """Texts of all tool results so far, and whether the model was told that the tool failed."""
        found: list[tuple[str, bool]] = []
        for each in self.body["messages"]:
            if each["role"] == "tool":
                text = _text(each["content"])
                failed = text.startswith('{"error":')
                found.append((json.loads(text)["error"] if failed else text, failed))
            elif each["role"] == "user" and isinstance(each["content"], list):
                parts = [part for part in each["content"] if part["type"] == "tool_result"]
                found += [(_text(part["content"]), bool(part.get("is_error"))) for part in parts]
        return found


def _text(content: Any) -> Any:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content


@dataclass
class Provider:
    """Plays `script` step by step; the last step again and again. `asked` is what it was asked."""

    script: list[Step] = field(default_factory=lambda: [Say("done")])
    asked: list[Asked] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    """Set by each request."""
    closing: threading.Event = field(default_factory=threading.Event)
    port: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """For providers of the kind openai."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url_for(self, kind: str) -> str:
        return self.anthropic_url if kind == "anthropic" else self.url

    def plays(self, *script: Step) -> None:
        """Begin another script."""
        with self._turn:
            self.script, self.asked = list(script), []
            self.arrived.clear()

    def step(self, asked: Asked) -> Say | Use | Fail | Raw | Hang:
        with self._turn:
            place = len(self.asked)
            self.asked.append(asked)
            step = self.script[min(place, len(self.script) - 1)]
            self.arrived.set()
        return step(asked) if callable(step) else step


def body_of(speaks: str, step: Say | Use) -> dict[str, Any]:
    """An answer in the form of a protocol."""
    calls = step.calls if isinstance(step, Use) else ()
    if speaks == "anthropic":
        content: list[dict[str, Any]] = [{"type": "text", "text": step.text}] if step.text else []
        content += [
            {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": given}
            for n, (name, given) in enumerate(calls)
        ]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 3},
        }
    message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for n, (name, given) in enumerate(calls)
        ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13},
    }


def error_of(speaks: str, fail: Fail) -> dict[str, Any]:
    if speaks == "anthropic":
        return {"type": "error", "error": {"type": "some_error", "message": fail.message}}
    return {"error": {"message": fail.message, "type": "some_error", "param": None, "code": None}}


@contextmanager
def provider(*script: Step) -> Iterator[Provider]:
    """A provider that listens, with as many threads as there are requests."""
    played = Provider(list(script) or [Say("done")])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            step = played.step(asked)
            if isinstance(step, Hang):
                played.closing.wait(PATIENCE_S)
                self.close_connection = True
                return
            if isinstance(step, Raw):
                self.answer(step.status, step.body, step.headers, step.promised)
            elif isinstance(step, Fail):
                self.answer(step.status, json.dumps(error_of(asked.speaks, step)).encode(), step.headers)
            else:
                self.answer(200, json.dumps(body_of(asked.speaks, step)).encode())

        def answer(
            self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = (), promised: int | None = None
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(promised or len(body)))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:  # the client has had enough
                self.close_connection = True
            if promised:
                self.close_connection = True

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that goes away is what some tests are about

    with Server(("127.0.0.1", 0), Handler) as server:
        played.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield played
        finally:
            played.closing.set()
            server.shutdown()
            thread.join()
