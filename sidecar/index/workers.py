"""The vector workers of a daemon: one for the embedder in use, and one for an earlier one as long as it is needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sidecar.index.vector_options import VectorOptions
from sidecar.index.vector_worker import VectorWorker


@dataclass(slots=True)
class _Shared:
    worker: VectorWorker
    users: int = 0


class Workers:
    """Use it with `async with`, around everything that has vectors."""

    def __init__(self, folder: Path, options: VectorOptions) -> None:
        """`folder` is where the processes are at home; its parent exists."""
        self._folder = folder
        self._earlier: dict[str, _Shared] = {}
        self.options = options
        self.current = self._made(options.embedder, None)
        """Makes the vectors and answers queries."""

    def _made(self, embedder: str, expected_id: str | None) -> VectorWorker:
        options = self.options
        return VectorWorker(
            self._folder,
            embedder,
            options.models_dir,
            environment=options.environment,
            options=options.embedder_options,
            expected_id=expected_id,
            factory=options.factory,
            patience=options.patience,
        )

    @asynccontextmanager
    async def earlier(self, embedder_id: str) -> AsyncGenerator[VectorWorker]:
        """The worker of an embedder that was in use before; it ends with its last user."""
        shared = self._earlier.get(embedder_id)
        if shared is None:
            name, _, _ = embedder_id.rpartition("@")
            shared = self._earlier[embedder_id] = _Shared(self._made(name, embedder_id))
            await shared.worker.__aenter__()  # by hand, since who opens it need not be the one who closes it
        shared.users += 1
        try:
            yield shared.worker
        finally:
            shared.users -= 1
            if not shared.users:
                del self._earlier[embedder_id]
                await shared.worker.__aexit__()

    async def __aenter__(self) -> Self:
        await self.current.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.current.__aexit__()
