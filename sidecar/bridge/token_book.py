"""The tokens of one vault as they are kept, and how they are changed.

For the holder of the vault's lock: the daemon, or a command while none runs.
What is changed on disk becomes valid in a daemon by the caller's `publish`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sidecar.bridge import former_tokens, named_tokens, private_files, times
from sidecar.bridge.named_tokens import NamedToken
from sidecar.bridge.token import digest, fingerprint, new_token
from sidecar.bridge.token_store import TokenStore
from sidecar.errors import BadArguments, NotFound, SidecarError

logger = logging.getLogger(__name__)


def _nobody(token: str) -> None:
    """No daemon runs, so nobody needs to be told."""


class TokenBook:
    """The main token and the named ones. Its methods block; one change at a time.

    Facts are JSON as they are, the same for a daemon's answer and a command's.
    """

    def __init__(self, state_dir: Path, store: TokenStore, main: str) -> None:
        """`main` is the fingerprint of the token that `store` keeps.

        Raises:
            Unreadable: the file of the named tokens can't be believed.
        """
        self._state_dir = state_dir
        self._store = store
        self._main = main
        self._named = named_tokens.read(state_dir, main)

    @property
    def place(self) -> str:
        """Where the main token is kept, in words."""
        return self._store.place

    @property
    def named(self) -> tuple[NamedToken, ...]:
        """The records of the named tokens that are valid, oldest first."""
        return self._named

    def main_token(self) -> str | None:
        """The main token; None where it has gone from its place.

        Raises:
            Unreadable: the place can't say.
        """
        return self._store.load()

    def listed(self) -> dict[str, Any]:
        """The named tokens, oldest first, and the place of the main one."""
        tokens = [{"agent": record.agent, "org": record.org, "made": record.made} for record in self._named]
        return {"kept_in": self.place, "tokens": tokens}

    def rotate(self, publish: Callable[[str], None] = _nobody) -> dict[str, Any]:
        """Make another main token, and none of the named ones, valid; the facts hold it, and who was revoked.

        `publish` is called once the new token is kept: a crash before leaves the old one valid, one after it the new.

        Raises:
            Overridden: it comes from the environment.
            Unreadable: it could not be kept; the old one is valid as before.
        """
        token, old, revoked = new_token(), self._main, [record.agent for record in self._named]
        self._store.store(token)
        self._main, self._named = fingerprint(token), ()
        publish(token)
        logger.info("the token was replaced")
        self._store.tidy()
        try:
            private_files.remove(self._state_dir / named_tokens.FILE_NAME)
            former_tokens.add(self._state_dir, old)
        except SidecarError as error:  # the records count beside the old token only, and by the other none counts
            logger.debug("%s", error)
        return {"token": token, "kept_in": self.place, "revoked": revoked}

    def add(self, agent: str, org: str) -> dict[str, Any]:
        """Make a token for `agent`. It is in the facts, and kept nowhere.

        Raises:
            BadArguments: not a name, or one that has a token already, or there are too many.
            Unreadable: the disk refused; nothing has changed.
        """
        named_tokens.check_names(agent, org)
        if any(record.agent == agent for record in self._named):
            raise BadArguments(f"AGENT: '{agent}' has a token already; 'vault-sidecar token remove {agent}' revokes it")
        if len(self._named) >= named_tokens.MOST:
            raise BadArguments(f"AGENT: at most {named_tokens.MOST} tokens can have names; remove one first")
        token = new_token()
        self._keep((*self._named, NamedToken(agent, org, digest(token.encode()).hex(), times.now())))
        return {"token": token, "agent": agent, "org": org}

    def remove(self, agent: str) -> dict[str, Any]:
        """Revoke the token of `agent`.

        Raises:
            NotFound: there is none.
            Unreadable: the disk refused; nothing has changed.
        """
        kept = tuple(record for record in self._named if record.agent != agent)
        if len(kept) == len(self._named):
            raise NotFound("no token has that name; 'vault-sidecar token list' shows which there are")
        self._keep(kept)
        return {"removed": agent}

    def _keep(self, named: tuple[NamedToken, ...]) -> None:
        named_tokens.write(self._state_dir, self._main, named)
        self._named = named
