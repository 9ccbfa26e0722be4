"""A weight file in the format of e5's with a handful of pieces and tensors, written by the rules of its reader."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sidecar.index.embed.e5_file import WIDTH

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PIECES = (*SPECIAL, "▁", "▁passage", ":", "▁query", "▁cold", "▁air", "a", "b", "é", "한", "<mask>")
LETTERS = {"\n": " ", "\t": " ", "Ａ": "a", "™": "ab", "\ufeff": ""}


def packed(numbers: NDArray[np.int64], scales: Sequence[float]) -> bytes:
    """Rows of 32 numbers from -8 to 7, one scale each."""
    blocks: list[bytes] = []
    for row, scale in zip(numbers + 8, scales, strict=True):
        blocks.append(np.float16(scale).tobytes() + (row[:16] | row[16:] << 4).astype(np.uint8).tobytes())
    return b"".join(blocks)


def write(path: Path, tensors: Mapping[str, NDArray[np.float32]], table: bytes) -> Path:
    """A file with these float32 tensors and this packed table of words."""
    blob = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)]).astype("<u4")
    scores = np.array([-0.5 * at if at >= len(SPECIAL) else 0 for at in range(len(PIECES))], "<f4")
    letters = b"".join(
        struct.pack("<IB", ord(letter), len(out)) + b"".join(struct.pack("<I", ord(one)) for one in out)
        for letter, out in LETTERS.items()
    )
    head = b"E5S1" + struct.pack("<I7ifi", 1, WIDTH, 0, 12, 1536, len(PIECES), 512, 1, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(blob)) + ends.tobytes() + scores.tobytes() + blob
    head += struct.pack("<iI", len(LETTERS), len(letters)) + letters + struct.pack("<i", len(tensors) + 1)
    contents = {"emb.word": (1, table)} | {name: (0, values.tobytes()) for name, values in tensors.items()}
    at = len(head) + sum(2 + len(name) + 21 for name in contents)
    for name, (kind, content) in contents.items():
        head += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", kind, 0, at, len(content))
        at += len(content)
    path.write_bytes(head + b"".join(content for _, content in contents.values()))
    return path
