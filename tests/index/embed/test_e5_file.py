from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sidecar.index.embed.e5_file import POSITIONS, WIDTH, WeightFile
from tests.index.embed import small_e5

BLOCKS = WIDTH // 32


@pytest.fixture
def numbers() -> np.ndarray:
    return np.random.default_rng(1).integers(-8, 8, (5 * BLOCKS, 32))


@pytest.fixture
def file(tmp_path: Path, numbers: np.ndarray) -> Iterator[WeightFile]:
    scales = [0.5] * BLOCKS + [0.25] * 4 * BLOCKS
    tensors = {"emb.ln.b": np.array([1, -2.5], np.float32)}
    found = WeightFile(small_e5.write(tmp_path / "small.bin", tensors, small_e5.packed(numbers, scales)))
    yield found
    found.close()


def test_pieces_and_special_ids_are_read(file: WeightFile) -> None:
    pieces = file.pieces()
    assert [piece.decode() for piece, _ in pieces] == list(small_e5.PIECES)
    assert pieces[5][1] == -2.5
    assert (file.first_id, file.pad_id, file.last_id, file.unknown_id) == (0, 1, 2, 3)


def test_replaced_letters_are_read(file: WeightFile) -> None:
    assert file.letters() == {ord(letter): out for letter, out in small_e5.LETTERS.items()}


def test_tensors_of_both_kinds_are_read(file: WeightFile, numbers: np.ndarray) -> None:
    assert file.tensor("emb.ln.b").tolist() == [1, -2.5]
    words = file.tensor("emb.word").reshape(5, WIDTH)
    assert words.dtype == np.float32
    assert np.array_equal(words[0], numbers[:BLOCKS].reshape(-1) * 0.5)
    assert np.array_equal(words[4], numbers[4 * BLOCKS :].reshape(-1) * 0.25)


def test_single_rows_are_those_of_the_whole_table(file: WeightFile) -> None:
    ids = np.array([3, 0, 3, 4])
    assert np.array_equal(file.rows(ids), file.tensor("emb.word").reshape(5, WIDTH)[ids])


def test_rows_may_be_read_by_many_threads_at_once(file: WeightFile) -> None:
    words = file.tensor("emb.word").reshape(5, WIDTH)
    with ThreadPoolExecutor(4) as threads:
        for at, found in enumerate(threads.map(file.rows, [np.array([at % 5]) for at in range(200)])):
            assert np.array_equal(found[0], words[at % 5])


def test_the_real_file_has_the_sizes_that_the_code_names(weights: WeightFile) -> None:
    assert len(weights.pieces()) == 250_002
    assert len(weights.letters()) == 4837
    assert weights.tensor("emb.pos").size == POSITIONS * WIDTH
    assert weights.tensor("l11.fi.w").size == 1536 * WIDTH
    assert weights.rows(np.array([250_001])).shape == (1, WIDTH)
