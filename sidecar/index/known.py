"""Whether a store finds its own vectors: some ids are picked, and looked for by those vectors that are cached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, cast

from sidecar.index.child import Child
from sidecar.index.wire import Array, Int64

FOREIGN: Final = "holds nothing that belongs to this index"

_SELF_SHARE: Final = 0.9  # of known vectors that must find themselves; the graph misses a few of a hundred
_TELLING: Final = 10  # ids of a sample; when fewer are all unknown, that may be by chance


@dataclass(frozen=True, slots=True)
class Sample:
    """How many ids were picked, of how many of them a vector is cached, how many of these say something, and how many
    of these found themselves."""

    picked: int
    known: int
    tried: int
    hits: int

    @property
    def is_foreign(self) -> bool:
        """The store is of another index."""
        return self.picked >= _TELLING and not self.known

    @property
    def finds_itself(self) -> bool:
        """As far as was tried."""
        return self.hits >= _SELF_SHARE * self.tried

    @property
    def in_words(self) -> str:
        """The end of a sentence that begins with the store."""
        return f"found {self.hits} of {self.tried} known vectors"


async def sampled(
    child: Child, store: int, most: int, known: Callable[[Int64], Awaitable[tuple[Int64, Array]]]
) -> Sample:
    """Pick `most` ids at most of a store that is open in a worker. `known` gives those that have a cached vector, and
    the vectors[n, dim].

    Raises:
        Ended: the worker ended.
    """
    picked = cast(Int64, (await child.call("sample", store=store, most=most)).arrays[0])
    ids, vectors = await known(picked)
    found = int(ids.size)
    if found:
        telling = vectors.any(axis=1)  # a text without meaning has zeros, which are near to nothing
        ids, vectors = ids[telling], vectors[telling]
    hits = int((await child.call("probe", (ids, vectors), store=store)).head["hits"]) if ids.size else 0
    return Sample(int(picked.size), found, int(ids.size), hits)
