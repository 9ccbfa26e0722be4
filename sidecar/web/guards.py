"""Who may come in: the checks that every request passes before anything else looks at it.

Their order is fixed: form of the request, Host, Origin and Sec-Fetch, bearer.
It is the same for known and unknown paths, for every method and for upgrades.
The checks read the raw list of headers, because the framework's conveniences
answer with the socket's address or the request target where Host is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sidecar.bridge.token import Caller, Keys
from sidecar.web import answers
from sidecar.web.answers import Refusal

RawHeaders = Iterable[tuple[bytes, bytes]]

IDENTITY = "/identity"
REGISTER = "/register"
WELL_KNOWN = "/.well-known/"

_READ: Final = frozenset((b"host", b"origin", b"sec-fetch-site", b"authorization", b"transfer-encoding"))


@dataclass(frozen=True, slots=True)
class Access:
    """A caller who was let in, with the key that did it."""

    caller: Caller
    _presented: bytes
    _generation: int
    _keys: Keys

    def __repr__(self) -> str:
        return f"Access({self.caller!r})"

    def valid(self) -> bool:
        """Whether the key would still let this caller in; a token may be replaced while a body arrives."""
        return self._generation == self._keys.generation or self._keys.check(self._presented) is not None


@dataclass(frozen=True, slots=True)
class Entry:
    """A request that passed the guards. Without `access` only the fixed open answers may be given."""

    origin: str | None
    """The allowed web origin it came from."""
    access: Access | None


class Guards:
    """The checks of one listener."""

    def __init__(self, keys: Keys, port: int, allowed_origins: Iterable[str]) -> None:
        self._keys = keys
        # The whole value, port included, is compared: nothing is left to parse.
        names = ("127.0.0.1", "localhost")
        self._hosts = frozenset(f"{name}:{port}".encode() for name in names)
        if port == 80:
            self._hosts |= frozenset(name.encode() for name in names)
        self._origins = frozenset(origin.encode() for origin in allowed_origins)

    def admit(self, method: str, target: str, headers: RawHeaders) -> Entry | Refusal:
        """Let a request in, or say how it is refused. `target` is the request target as it was sent.

        An `OPTIONS` request from an allowed origin comes back without access, as
        the open paths do: a preflight never carries a token.
        """
        found: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            lowered = name.lower()
            if lowered in _READ:
                found.setdefault(lowered, []).append(value)
        if not self._well_formed(target, found):
            return answers.BAD_REQUEST
        if not self.allows_host(found[b"host"][0]):
            return answers.FORBIDDEN_HOST
        origins = found.get(b"origin", [])
        if not self.allows_origin(origins, found.get(b"sec-fetch-site", [])):
            return answers.FORBIDDEN_ORIGIN
        origin = origins[0].decode() if origins else None
        if method == "OPTIONS":
            return Entry(origin, None) if origin else answers.not_allowed(frozenset(("GET", "POST")))
        path = target.partition("?")[0]
        if (path == IDENTITY and method == "GET") or path == REGISTER or path.startswith(WELL_KNOWN):
            return Entry(origin, None)
        access = self.authenticate(found.get(b"authorization", []))
        return access if isinstance(access, Refusal) else Entry(origin, access)

    def _well_formed(self, target: str, found: dict[bytes, list[bytes]]) -> bool:
        """Origin-form target, one Host, and no transfer coding that this server would not undo."""
        codings = found.get(b"transfer-encoding", [])
        known = not codings or (len(codings) == 1 and codings[0].lower() == b"chunked")
        return known and target.startswith("/") and len(found.get(b"host", [])) == 1

    def allows_host(self, host: bytes) -> bool:
        """A page that had its own name resolved to 127.0.0.1 still sends that name."""
        return host.lower() in self._hosts

    def allows_origin(self, origins: list[bytes], sites: list[bytes]) -> bool:
        """One origin of the list, or none; and without one, no request that a browser made for a page."""
        if origins:
            return len(origins) == 1 and origins[0] in self._origins
        return all(site == b"none" for site in sites)

    def authenticate(self, values: list[bytes]) -> Access | Refusal:
        """The caller of the one bearer token; the scheme in any case, then one blank, then the token."""
        if not values:
            return answers.NO_TOKEN
        scheme, blank, presented = values[0].partition(b" ")
        if len(values) > 1 or scheme.lower() != b"bearer" or not blank or not presented:
            return answers.WRONG_TOKEN
        generation = self._keys.generation  # before the check: a rotation in between must not pass unseen
        caller = self._keys.check(presented)
        if caller is None:
            return answers.WRONG_TOKEN
        return Access(caller, presented, generation, self._keys)
