"""`GET /identity`: proves to relay and command line that this is their daemon, before they send the local key."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from sidecar.bridge.identity import valid_nonce
from sidecar.web import answers
from sidecar.web.answers import Refusal

_MOST_REMEMBERED = 4096

BAD_NONCE = Refusal(400, "bad_nonce", "nonce: must be base64url of 32 random bytes, used once.")


class Identity:
    """Answers each nonce once. Of the nonces seen, the last few thousand are remembered."""

    def __init__(self, prove: Callable[[str, int], str], *, instance: str, port: int) -> None:
        """`prove` makes the proof for a nonce and a port; the key it needs stays behind it."""
        self._prove = prove
        self._instance = instance
        self._port = port
        self._seen: dict[str, None] = {}

    def answer(self, request: web.BaseRequest) -> web.Response:
        """The proof, or 400 for a nonce that is missing, repeated, malformed or seen before."""
        nonces = request.query.getall("nonce", [])
        nonce = nonces[0] if len(nonces) == 1 else ""
        if not valid_nonce(nonce) or nonce in self._seen:
            return answers.refuse(BAD_NONCE)
        self._seen[nonce] = None
        if len(self._seen) > _MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        proof = self._prove(nonce, self._port)
        return answers.to_json({"proof": proof, "instance": self._instance, "port": self._port})
