"""The proof by which a local caller knows the daemon before it sends the local key.

The key itself never crosses the wire for it: the caller sends a nonce, the
daemon answers with an HMAC that also covers its own port and instance. A
program that sits on the recorded port can therefore neither answer by itself
nor pass the question on to the real daemon elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets

_PURPOSE = b"vault-sidecar identity v1"
_NONCE_BYTES = 32
_INSTANCE = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def new_nonce() -> str:
    """base64url text of 32 random bytes, without padding. Never use one twice."""
    return _text(secrets.token_bytes(_NONCE_BYTES))


def new_instance() -> str:
    """A name for one run of the daemon; it is no secret."""
    return secrets.token_hex(8)


def valid_nonce(nonce: str) -> bool:
    """Is this the one base64url text, without padding, of exactly 32 bytes?"""
    try:
        raw = base64.b64decode(nonce.encode("ascii") + b"=", altchars=b"-_", validate=True)
    except ValueError:
        return False
    # the last letter has spare bits: only one of its spellings is the one we would write
    return len(raw) == _NONCE_BYTES and _text(raw) == nonce


def prove(key: bytes, nonce: str, port: int, instance: str) -> str:
    """The proof, as base64url text: HMAC-SHA256 over purpose, nonce, port and instance.

    Raises:
        ValueError: the nonce or the instance isn't well formed; with a stray
            separator in them two different questions could have one answer.
    """
    if not valid_nonce(nonce):
        raise ValueError("a nonce is base64url of exactly 32 bytes")
    if not _INSTANCE.fullmatch(instance):
        raise ValueError("an instance is 1 to 64 letters, digits, '_' or '-'")
    message = b"|".join((_PURPOSE, nonce.encode(), str(port).encode(), instance.encode()))
    return _text(hmac.digest(key, message, hashlib.sha256))


def verify(key: bytes, nonce: str, port: int, instance: str, proof: str) -> bool:
    """Does `proof` come from the holder of `key`, listening on `port` as `instance`?"""
    try:
        expected = prove(key, nonce, port, instance)
    except ValueError:
        return False
    return hmac.compare_digest(expected.encode(), proof.encode("utf-8", "surrogatepass"))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
