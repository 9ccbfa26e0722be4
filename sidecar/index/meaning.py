"""The vector half of a corpus."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.index.embedding import VectorFeed
from sidecar.index.fuse import Method
from sidecar.index.succession import Succession
from sidecar.index.vectors import Vectors
from sidecar.index.wire import Backend


@dataclass(frozen=True, slots=True)
class Meaning:
    """Its collection, what feeds it, and how the legs are joined."""

    vectors: Vectors
    feed: VectorFeed
    succession: Succession
    method: Method
    backend: Backend

    @property
    def asked(self) -> Vectors:
        """Who answers queries now."""
        return self.succession.asked

    @property
    def in_words(self) -> str:
        """Its state, with the reason if it is not ready."""
        vectors, asked = self.vectors, self.asked
        if vectors.state == "ready" and not self.feed.is_compared:
            return "starting: what the vector index holds is compared with the notes"
        if vectors.state == "ready" and asked is not vectors:
            return f"ready: {asked.embedder_id} answers until all vectors by {vectors.embedder_id} are made"
        return f"{vectors.state}: {vectors.reason}" if vectors.reason else vectors.state
