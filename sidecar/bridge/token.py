"""The bearer token: its form, and the check that every request passes.

Where tokens are kept is the business of `token_store` and `named_tokens`; here
is only what one looks like and who may come in with it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.bridge import private_files
from sidecar.errors import BadConfig

LOCAL_KEY_FILE = "local.key"

TOKEN_PREFIX = "vsc_"  # noqa: S105 - how a token begins is no secret
LOCAL_PREFIX = "vsl_"

# a token is prefix + 43 letters (32 random bytes, base64url) + 6 letters (CRC-32 of all before it, base64url)
_RANDOM_BYTES = 32
_CHECK_LETTERS = 6
_LEAST_LETTERS = 32  # of a token that a person chose
_TOKEN = re.compile(TOKEN_PREFIX + r"[A-Za-z0-9_-]{49}(?![A-Za-z0-9_-])")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, by the key that let it in. `local` is true for the local key, which alone opens `/admin`."""

    agent_id: str
    org: str
    local: bool


def new_token() -> str:
    """A fresh token: fixed prefix, 32 random bytes, and a checksum by which typing mistakes are caught."""
    return _with_check(TOKEN_PREFIX + _text(secrets.token_bytes(_RANDOM_BYTES)))


def is_token(text: str) -> bool:
    """Is this a whole token of our form, without a typing mistake?"""
    head = text[:-_CHECK_LETTERS]
    is_whole = len(text) == len(TOKEN_PREFIX) + 43 + _CHECK_LETTERS and text.startswith(TOKEN_PREFIX)
    return is_whole and text.isascii() and _with_check(head) == text


def tokens_in(text: str) -> list[str]:
    """What has the form of a token in a text."""
    return _TOKEN.findall(text)


def digest(key: bytes) -> bytes:
    """SHA-256 of a key: all that is kept of it where it only has to be recognised."""
    return hashlib.sha256(key).digest()


def fingerprint(token: str) -> str:
    """A name for a token that does not tell it: half of its digest, in hex."""
    return digest(token.encode("utf-8", "surrogatepass")).hex()[:32]


def check_injected(variable: str, value: str | None) -> str:
    """The token from the environment variable `variable`, if it is fit to guard a vault.

    Raises:
        BadConfig: unset, empty, short, or not fit for a header. The value isn't in the message.
    """
    if value is None:
        raise BadConfig(f"[http] bearer_token_env names the environment variable {variable}, which is not set")
    if len(value.strip()) < _LEAST_LETTERS:
        raise BadConfig(f"the token in the environment variable {variable} needs at least {_LEAST_LETTERS} characters")
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise BadConfig(f"the token in the environment variable {variable} may hold ASCII letters and signs only")
    return value


def new_local_key(state_dir: Path) -> bytes:
    """The key of this run for relay and CLI, fresh, left for them in the state folder. Blocks.

    Raises:
        Unreadable: the disk refused.
    """
    key = (LOCAL_PREFIX + _text(secrets.token_bytes(_RANDOM_BYTES))).encode()
    private_files.write(state_dir / LOCAL_KEY_FILE, key + b"\n")
    return key


def read_local_key(state_dir: Path) -> bytes | None:
    """The key the running daemon left; None where there is none. Blocks.

    Raises:
        Unreadable: the file can't be believed, by the rule of `private_files`.
    """
    content = private_files.read(state_dir / LOCAL_KEY_FILE, max_bytes=1 << 10)
    return content.strip() if content is not None else None


@dataclass(frozen=True, slots=True, repr=False)
class _Valid:
    """The digests that open the door now. Replaced whole, so that a reader never sees half a rotation."""

    token: bytes
    local: bytes
    generation: int
    named: Mapping[bytes, Caller] = field(default_factory=dict[bytes, Caller])


_OWNER = Caller("local", "local", local=False)
_OWN_PROGRAM = Caller("local", "local", local=True)


class Keys:
    """The keys that are valid now. Holds digests only, so no dump or repr of it can leak one.

    Each change is one assignment, so it may be made in any thread.
    """

    def __init__(self, token: str, local_key: bytes, named: Mapping[bytes, Caller] | None = None) -> None:
        """`named`: the callers of named tokens, by the tokens' digests."""
        self._valid = _Valid(digest(token.encode()), digest(local_key), 1, named or {})

    @property
    def generation(self) -> int:
        """Grows with each change. What began under an older one must be checked again before it acts."""
        return self._valid.generation

    def check(self, presented: bytes) -> Caller | None:
        """Whose key these bytes are, or None. Takes the same time for every wrong key.

        Bytes, because comparing text raises on letters outside ASCII; digests,
        because they have one length whatever was presented.
        """
        valid = self._valid
        found = digest(presented)
        keys = ((valid.token, _OWNER), (valid.local, _OWN_PROGRAM), *valid.named.items())
        matching = [caller for key, caller in keys if hmac.compare_digest(found, key)]
        return matching[0] if matching else None

    def replace(self, token: str) -> None:
        """Let `token` in from now on, and neither the old one nor any named one any more.

        Call it after the store accepted the new one.
        """
        self._valid = _Valid(digest(token.encode()), self._valid.local, self._valid.generation + 1)

    def name(self, named: Mapping[bytes, Caller]) -> None:
        """Let these named tokens in from now on, and no other named ones."""
        valid = self._valid
        self._valid = _Valid(valid.token, valid.local, valid.generation + 1, named)


def _with_check(head: str) -> str:
    return head + _text(zlib.crc32(head.encode()).to_bytes(4, "big"))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
