"""What is made from the weight file once and kept: the body for onnxruntime, the pieces for sentencepiece.

They lie in a folder named by the weights' hash and by `BUILD`, with a list of
their hashes. Whatever is missing or damaged there is made anew. A folder
appears whole, by a rename; several processes may come at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sidecar.bridge import private_files
from sidecar.errors import TooLarge, Unreadable
from sidecar.index.embed.e5_body import quantized_body
from sidecar.index.embed.e5_file import WeightFile
from sidecar.index.embed.e5_outliers import OUTLIERS
from sidecar.index.embed.e5_pieces import sentencepiece_model
from sidecar.index.embed.weights import E5_WEIGHTS

BUILD = 1
"""Grows with every change to what is made here: it is part of the embedder's id, and a new id embeds all anew."""

_BODY, _PIECES, _HASHES = "body.onnx", "pieces.model", "hashes.json"
_LARGEST = 64 << 20
_LEFT_S = 3600.0  # a folder under construction for an hour was left by a process that ended


@dataclass(frozen=True, slots=True)
class Made:
    """Contents of the two files."""

    body: bytes
    pieces: bytes


def made(weights: WeightFile, models_dir: Path, report: Callable[[str], None]) -> Made:
    """From the folder, else made now, which takes some seconds. Blocks.

    Raises:
        Unreadable: the folder can't be written.
    """

    def make() -> Made:
        report("preparing the embedding model e5; this happens once and takes a few seconds")
        return Made(quantized_body(weights, OUTLIERS), sentencepiece_model(weights))

    return kept(models_dir / f"e5-{E5_WEIGHTS.sha256[:12]}-{BUILD}", make)


def kept(folder: Path, make: Callable[[], Made]) -> Made:
    """What the folder holds, if that is whole; else what `make` returns, kept there. Blocks.

    Raises:
        Unreadable: the folder can't be written.
    """
    private_files.make_folder(folder.parent)
    found = _kept(folder)
    if found is None:
        found = make()
        _keep(folder, found)
    return found


def _kept(folder: Path) -> Made | None:
    """What the folder holds; None unless it is there and whole."""
    try:
        hashes: object = json.loads(private_files.read(folder / _HASHES) or b"null")
        body, pieces = (private_files.read(folder / name, max_bytes=_LARGEST) for name in (_BODY, _PIECES))
    except (ValueError, Unreadable, TooLarge):
        return None
    if body is None or pieces is None or hashes != _hashes(body, pieces):
        return None
    return Made(body, pieces)


def _keep(folder: Path, found: Made) -> None:
    """Write the folder beside its place, then put it there."""
    fresh = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    try:
        for left in folder.parent.glob(f".{folder.name}.*"):
            if left.stat().st_mtime < time.time() - _LEFT_S:
                _remove(left)
        private_files.make_folder(fresh)
        private_files.write(fresh / _BODY, found.body)
        private_files.write(fresh / _PIECES, found.pieces)
        private_files.write(fresh / _HASHES, json.dumps(_hashes(found.body, found.pieces)).encode())
        _put(fresh, folder)
    except OSError as error:
        raise Unreadable(f"the prepared embedding model can't be kept: {error.strerror}") from error
    finally:
        _remove(fresh)


def _put(fresh: Path, folder: Path) -> None:
    try:
        os.rename(fresh, folder)
        return
    except OSError:
        if not os.path.lexists(folder):
            raise
    if _kept(folder) is not None:  # another process was quicker
        return
    aside = fresh.with_name(f"{fresh.name}.old")
    os.rename(folder, aside)
    _remove(aside)
    os.rename(fresh, folder)


def _remove(path: Path) -> None:
    """Delete a folder, or what is in its place. What can't be deleted now is found again later."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _hashes(body: bytes, pieces: bytes) -> dict[str, str]:
    return {_BODY: hashlib.sha256(body).hexdigest(), _PIECES: hashlib.sha256(pieces).hexdigest()}
