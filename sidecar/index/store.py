"""The vector store: ids and vectors in Chroma, nothing else. Imported in the worker process only.

Damaged files can end the process without an exception, and `upsert` and
`delete` hold the interpreter until they are done, so that no other thread
runs meanwhile: hand them little at a time. Everything blocks.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import chromadb
import numpy as np
from chromadb.api import ClientAPI
from chromadb.api.collection_configuration import CreateHNSWConfiguration
from chromadb.config import Settings
from chromadb.errors import NotFoundError

from sidecar.index.store_folder import StoreFailed
from sidecar.index.wire import Array, Float32, Int64, Server

_GRAPH: Final[CreateHNSWConfiguration] = {"space": "cosine", "max_neighbors": 32, "ef_construction": 200}
"""With Chroma's defaults, 16 and 100, 13 of the 6,908 passages of 1,000 notes by `e5` did not find themselves; with
these none. They cost 0.1 ms more a vector stored and 0.3 ms a query. All else is Chroma's default."""

_DRAWN = 4  # ids drawn for each that is wanted: most of a vault that is edited are of chunks that are gone
_SELF = 0.999  # cosine of a vector with itself, after rounding; several chunks may have the same text


def client(place: Path | Server) -> ClientAPI:
    """The one place that knows where the vectors are kept."""
    # Chroma would take settings from a file `.env` in the present folder
    settings = Settings(anonymized_telemetry=False, _env_file=None)  # pyright: ignore[reportCallIssue]: pydantic's own
    if isinstance(place, Path):
        return chromadb.PersistentClient(place, settings)
    if place.kind == "cloud":
        named = {"cloud_host": place.host, "cloud_port": place.port, "enable_ssl": place.ssl}
        return chromadb.CloudClient(
            tenant=place.tenant, database=place.database, api_key=place.api_key, settings=settings, **_given(named)
        )
    named = {"port": place.port, "ssl": place.ssl, "tenant": place.tenant, "database": place.database}
    # not the library's own default: that name may stand for another address than the one it listens on
    return chromadb.HttpClient(
        host=place.host or "127.0.0.1", headers=dict(place.headers), settings=settings, **_given(named)
    )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


class Store:
    """One collection: cosine, ids are chunk ids. Threads may use it at once, processes may not.

    Raises (from every method):
        StoreFailed: Chroma refused or its data is damaged.
    """

    def __init__(self, place: Path | Server, name: str, *, anew: bool = False) -> None:
        """Open the collection, make it when it is missing. `anew`: drop what it holds; for servers."""
        with _translated():
            self._client = client(place)
        if anew:
            self.drop(name)
        with _translated():
            self._collection = self._client.get_or_create_collection(
                name, embedding_function=None, configuration={"hnsw": _GRAPH}
            )
            configuration = cast("dict[str, dict[str, Any] | None]", self._collection.configuration_json)
            spaces = [(configuration.get(kind) or {}).get("space") for kind in ("hnsw", "spann")]
            if "cosine" not in spaces:
                raise StoreFailed("the collection does not compare by cosine")

    def count(self) -> int:
        """Ids in the store. Says nothing of whether their vectors can still be found."""
        with _translated():
            return self._collection.count()

    def query(self, vector: Float32, n: int) -> tuple[Int64, Float32]:
        """The `n` nearest: ids int64[m] and cosines float32[m], best first."""
        return self._nearest(vector[np.newaxis], n)[0]

    def _nearest(self, vectors: Float32, n: int) -> list[tuple[Int64, Float32]]:
        with _translated():
            found = self._collection.query(query_embeddings=vectors, n_results=n, include=["distances"])
            ids, distances = found["ids"], found["distances"]
            if distances is None:
                raise StoreFailed("the answer has no distances")
            return [
                (np.array(row, np.str_).astype(np.int64), 1.0 - np.array(far, np.float32))
                for row, far in zip(ids, distances, strict=True)
            ]

    def upsert(self, ids: Int64, vectors: Array) -> None:
        """Put vectors[n, dim]. About 10 ms and 0.3 ms a vector; ids that are there already take many times that."""
        with _translated():
            self._collection.upsert(ids=_named(ids), embeddings=vectors.astype(np.float32))

    def delete(self, ids: Int64) -> None:
        """Remove them; unknown ones are passed over."""
        if ids.size:
            with _translated():
                self._collection.delete(ids=_named(ids))

    def ids(self, offset: int, limit: int) -> Int64:
        """A page of the ids. Pages fit together as long as nothing is changed between them."""
        with _translated():
            page = self._collection.get(limit=limit, offset=offset, include=[])["ids"]
            return np.array(page, np.str_).astype(np.int64)

    def vectors(self, ids: Int64) -> tuple[Int64, Float32]:
        """Those of the ids[m] that are there, and their vectors[m, dim], as they are kept: of length 1."""
        with _translated():
            found = self._collection.get(ids=_named(ids), include=["embeddings"])
            return np.array(found["ids"], np.str_).astype(np.int64), np.array(found["embeddings"], np.float32)

    def sample(self, most: int) -> Int64:
        """Some ids, any as likely as another, and the newest ones: all of them when they are few.

        Ids that stand side by side tell less: where one of them was lost, the others were, too.
        """
        count = self.count()
        if count <= most:
            return self.ids(0, most)
        few = max(1, most // 10)
        newest = self.ids(count - few, few)
        low, high = sorted((int(self.ids(0, 1)[0]), int(newest[-1])))
        some = np.random.default_rng()
        with _translated():
            drawn = np.unique(some.integers(low, high + 1, _DRAWN * most))
            found = self._collection.get(ids=_named(drawn), include=[])["ids"]
        if len(found) < most // 2:  # there are few ids in a wide range
            offsets = some.integers(0, count, most // 2)
            return np.unique(np.concatenate([newest, *(self.ids(int(offset), 1) for offset in offsets)]))
        taken = some.permutation(np.array(found, np.str_).astype(np.int64))[: most - few]
        return np.unique(np.concatenate([newest, taken]))

    def self_hits(self, ids: Int64, vectors: Array) -> int:
        """How many of these vectors find themselves, or another chunk with the same vector."""
        found = self._nearest(vectors.astype(np.float32), 3)
        return sum(
            bool(chunk_id in near or (cosines.size and cosines[0] >= _SELF))
            for chunk_id, (near, cosines) in zip(ids.tolist(), found, strict=True)
        )

    def drop(self, name: str) -> None:
        """Delete another collection; nothing happens when there is none."""
        with _translated(), suppress(NotFoundError):
            self._client.delete_collection(name)

    def close(self) -> None:
        """Let go of the files."""
        with _translated():
            cast(Any, self._client).close()  # there, but not in the interface


def _named(ids: Int64) -> list[str]:
    return [str(chunk_id) for chunk_id in ids.tolist()]


def _in_a_word(failed: BaseException) -> str:
    """The kind of a failure; Chroma's client has its own around those of its connection to a server."""
    inner: BaseException | None = failed
    while inner is not None:
        status = getattr(getattr(inner, "response", None), "status_code", None)
        if status or type(inner).__module__.startswith("httpx"):
            return f"HTTP {status}" if status else type(inner).__name__
        inner = inner.__cause__ or inner.__context__
    return type(failed).__name__


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except StoreFailed:
        raise
    except Exception as failed:  # Chroma lets through what its parts raise: its own, pydantic's, httpx's, sqlite's
        raise StoreFailed(_in_a_word(failed)) from failed
    except BaseException as panic:
        if type(panic).__name__ != "PanicException":  # how Rust's panics arrive; not meant to be caught, but we report
            raise
        raise StoreFailed("its native code gave up") from panic
