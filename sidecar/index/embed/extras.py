"""The embedders `fastembed:MODEL` and `sentence-transformers:MODEL`: other people's libraries, installed by the person.

Their models come from a hub and are kept below the models folder. Nothing is
fetched unless the person has allowed it, and no code that comes with a model
is run.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sidecar.errors import NotFound
from sidecar.index.embed.base import Vectors, readable

_THREADS: Final = 2
_VERSION: Final = 1
"""Part of the ids: to be changed when texts are handed over in another way."""

_PIECE: Final = 4  # texts after which a query or a save may come first


class NotInstalled(NotFound):
    """The library or its model is not on this computer. The sentence says how to get it."""


class FastEmbed:
    """See `base.Embedder`."""

    def __init__(self, model: str, models_dir: Path, *, network: bool) -> None:
        """Raises NotInstalled."""
        library = _library("fastembed", "fastembed", network)
        self._model = _loaded(
            model,
            lambda: library.TextEmbedding(
                model_name=model,
                cache_dir=str(models_dir / "fastembed"),
                threads=_THREADS,
                local_files_only=not network,
            ),
        )
        self.dim = self.query("text").size
        self.id = f"fastembed:{model}@{_VERSION}/{self.dim}"

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """See `base.Embedder`."""
        found = list(self._model.passage_embed([readable(text) for text in texts], batch_size=len(texts) or 1))
        return _of_length_one(found) if found else np.zeros((0, self.dim), np.float32)

    def query(self, text: str) -> Vectors:
        """See `base.Embedder`."""
        return _of_length_one(list(self._model.query_embed(readable(text))))[0]

    def close(self) -> None:
        """See `base.Embedder`."""


class SentenceTransformers:
    """See `base.Embedder`."""

    def __init__(self, model: str, models_dir: Path, *, network: bool) -> None:
        """Raises NotInstalled."""
        library = _library("sentence_transformers", "sentence-transformers", network)
        self._model = _loaded(
            model,
            lambda: library.SentenceTransformer(
                model,
                cache_folder=str(models_dir / "sentence-transformers"),
                local_files_only=not network,
                trust_remote_code=False,
            ),
        )
        # its tokenizers can't be used by two threads at once
        self._one_at_a_time = threading.Lock()
        self.dim = self.query("text").size
        self.id = f"sentence-transformers:{model}@{_VERSION}/{self.dim}"

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """See `base.Embedder`."""
        found = [np.zeros((0, self.dim), np.float32)]
        for at in range(0, len(texts), _PIECE):
            with self._one_at_a_time:
                piece = [readable(text) for text in texts[at : at + _PIECE]]
                found.append(_of_length_one(self._model.encode_document(piece, show_progress_bar=False)))
        return np.concatenate(found)

    def query(self, text: str) -> Vectors:
        """See `base.Embedder`."""
        with self._one_at_a_time:
            return _of_length_one(self._model.encode_query([readable(text)], show_progress_bar=False))[0]

    def close(self) -> None:
        """See `base.Embedder`."""


def _library(name: str, extra: str, network: bool) -> Any:
    # read by the hub's client when it is imported
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    if not network:
        os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise NotInstalled(
            f"the embedder {extra} needs a package that is not installed;"
            f" 'pip install \"vault-sidecar[{extra}]\"' gets it"
        ) from missing


def _loaded(model: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as failed:  # each library has its own, and the hub's client adds more
        raise NotInstalled(
            f"the embedding model {model} can't be loaded ({type(failed).__name__}); if it is not on this computer yet,"
            " [index] embedder_network = true lets it be fetched"
        ) from failed


def _of_length_one(vectors: Any) -> Vectors:
    matrix = np.asarray(vectors, np.float32)
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), np.finfo(np.float32).tiny)
