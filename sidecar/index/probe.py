"""Asks a vector store on this computer whether it is well, while no daemon has it open.

It is opened in a worker process as the daemon would open it, since a damaged
one can end its process. Nothing is repaired or set aside.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from sidecar.index.child import Child, Ended
from sidecar.index.known import FOREIGN, sampled
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.store_folder import StoreFolder
from sidecar.index.vector_options import VectorOptions
from sidecar.index.wire import Array, Int64

_SILENT_S: Final = 60.0
_CLOSE_S: Final = 5.0
_SAMPLE: Final = 200
_STORE: Final = 1


@dataclass(frozen=True, slots=True)
class Probed:
    """What was found. `is_lasting`: a problem that the daemon's next start does not cure by itself."""

    says: str
    problem: str | None = None
    is_lasting: bool = False


async def probe(root: Path, manifest: Path, options: VectorOptions) -> Probed:
    """Load the embedder, open its store below `root`, and let known vectors find themselves.

    Raises:
        OSError: the worker can't be started.
        sqlite3.Error: the manifest can't be read.
    """
    if not await asyncio.to_thread(root.is_dir):
        return Probed("there is none yet; the first start makes it")
    child = await Child.start(
        root, options.environment, silent_s=_SILENT_S, slow_s=_SILENT_S, on_report=lambda text: None
    )
    try:
        return await _probed(child, root, manifest, options)
    except Ended as ended:
        failure = ended.failure
        is_lasting = failure.kind in ("off", "away") or (failure.kind == "failed" and not failure.stores)
        return Probed("", failure.reason if failure.kind == "off" else f"the store {failure.reason}", is_lasting)
    finally:
        await child.close(_CLOSE_S)


async def _probed(child: Child, root: Path, manifest: Path, options: VectorOptions) -> Probed:
    loaded = await child.call(
        "load",
        factory=options.factory,
        name=options.embedder,
        models=str(options.models_dir),
        options=asdict(options.embedder_options),
    )
    embedder_id = str(loaded.head["embedder"])
    folder = StoreFolder(root, embedder_id)
    if not await asyncio.to_thread(_has_files, folder.path):  # opening would make it
        return Probed(f"{embedder_id} has no store yet; the next start fills one")
    if strange := await asyncio.to_thread(folder.strangeness):
        return Probed("", f"the store {strange}")
    opened = await child.call("open", store=_STORE, root=str(root), set_aside=None, server=None, collection="")
    count = int(opened.head["count"])
    tried = 0
    if count:
        sample = await sampled(
            child, _STORE, _SAMPLE, lambda ids: asyncio.to_thread(_known, manifest, embedder_id, ids)
        )
        if sample.is_foreign:
            return Probed("", f"the store {FOREIGN}")
        if not sample.finds_itself:
            return Probed("", f"the store {sample.in_words}")
        tried = sample.tried
    return Probed(f"{embedder_id}: {count:,} vectors, of which {tried:,} were tried and found themselves")


def _known(manifest: Path, embedder_id: str, ids: Int64) -> tuple[Int64, Array]:
    """Those of the chunks whose vector is cached, and the vectors[n, dim]."""
    with closing(ManifestReader(manifest)) as reader:
        rows = reader.to_embed(ids.tolist(), embedder_id)
    known = {row.chunk_id: np.frombuffer(row.vector, np.float16) for row in rows if row.vector is not None}
    if not known:
        return np.empty(0, np.int64), np.empty((0, 0), np.float16)
    return np.array(list(known), np.int64), np.stack(list(known.values()))


def _has_files(folder: Path) -> bool:
    return folder.is_symlink() or folder.is_file() or (folder.is_dir() and any(folder.iterdir()))
