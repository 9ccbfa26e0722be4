"""A request of the client while it is not answered."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sidecar.protocol.envelope import Id, Message
from sidecar.protocol.stdio.post import Post


@dataclass(slots=True, eq=False)
class Call:
    """The request as it was sent, and what carries it now."""

    message: Message
    line: bytes
    version: str | None
    """Its revision, if it has an envelope."""
    cancelled: bool = field(default=False, init=False)
    _post: Post | None = field(default=None, init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def id(self) -> Id:
        """The client's name for it."""
        assert self.message.id is not None
        return self.message.id

    @property
    def method(self) -> str:
        """What is asked for."""
        return self.message.method

    @property
    def tool(self) -> str | None:
        """The tool that is called, if one is."""
        name = (self.message.params or {}).get("name")
        return name if self.method == "tools/call" and isinstance(name, str) else None

    def carry(self, post: Post) -> None:
        """It goes by this post from now on."""
        with self._turn:
            self._post = post
            if self.cancelled:
                post.cancel()

    def cancel(self) -> None:
        """The client no longer wants an answer."""
        with self._turn:
            self.cancelled = True
            if self._post is not None:
                self._post.cancel()
