"""Picks the embedder that the settings ask for, as far as its weights are here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sidecar.index.embed.base import Embedder
from sidecar.index.embed.weights import E5_WEIGHTS, MODELS, Model, NoModel, checked, is_present, require
from sidecar.index.wire import EmbedderOptions

_NONE = EmbedderOptions()


def choose(name: str, models_dir: Path, report: Callable[[str], None], options: EmbedderOptions = _NONE) -> Embedder:
    """Load an embedder by the part of its id before the `@`; "auto" is the first of e5 and use whose weights are here.

    Blocks for a second, at the very first time for some; then `report` gets a line that says so.

    A model that is there but damaged is an error, not a reason to take the other: all notes would be embedded anew,
    and again once it is repaired.

    Raises:
        NoModel: the weights are not on this computer.
        NotInstalled: a library or its model is not on this computer.
        EmbedderAway: the service `openai` can't be used now.
        Unreadable: they are damaged, or the models folder can't be used.
    """
    # each embedder's libraries take long to load, and only one is needed
    if name == "auto":
        name = _first_present(models_dir)
    if name == "e5":
        from sidecar.index.embed.e5 import E5
        from sidecar.index.embed.e5_file import WeightFile
        from sidecar.index.embed.e5_made import made

        weights = WeightFile(checked(E5_WEIGHTS, models_dir))
        try:
            return E5(weights, lambda: made(weights, models_dir, report))
        except BaseException:
            weights.close()
            raise
    if name == "use":
        require("use", models_dir)  # before its package is imported, which may not be there either
        from sidecar.index.embed.use import Use

        return Use()
    kind, _, model = name.partition(":")
    if kind == "openai":
        from sidecar.index.embed.service import Service

        return Service(model, options)
    if kind in ("fastembed", "sentence-transformers"):
        from sidecar.index.embed.extras import FastEmbed, SentenceTransformers

        library = FastEmbed if kind == "fastembed" else SentenceTransformers
        return library(model, models_dir, network=options.network)
    from sidecar.index.embed.hashing import Hashing

    return Hashing()


def _first_present(models_dir: Path) -> Model:
    for model in MODELS:
        if is_present(model, models_dir):
            return model
    raise NoModel(
        "there is no embedding model on this computer, so notes are found by their words only;"
        " 'vault-sidecar model fetch' gets one"
    )
