"""On a small set of pieces, so that what is cut can be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.embed.e5_file import POSITIONS, WeightFile
from sidecar.index.embed.e5_pieces import WINDOW, Cutter, sentencepiece_model
from tests.index.embed import small_e5


@pytest.fixture(scope="module")
def cutter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cutter]:
    table = small_e5.packed(np.zeros((12, 32), np.int64), [1] * 12)
    weights = WeightFile(small_e5.write(tmp_path_factory.mktemp("small") / "small.bin", {}, table))
    yield Cutter(sentencepiece_model(weights), weights)
    weights.close()


def pieces(cutter: Cutter, text: str) -> list[str]:
    """The pieces between the marks of the only window."""
    (ids,) = cutter.windows(text)
    assert (ids[0], ids[-1]) == (0, 2)
    return [small_e5.PIECES[at] for at in ids[1:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("passage: cold air", ["▁passage", ":", "▁cold", "▁air"]),
        ("query: ab", ["▁query", ":", "▁", "a", "b"]),
        ("cold \t\n\n  air  ", ["▁cold", "▁air"]),
        ("Ａ™", ["▁", "a", "a", "b"]),
        ("\ufeffa\0b", ["▁", "a", "▁", "b"]),
        ("e\u0301", ["▁", "é"]),
        ("\u1112\u1161\u11ab", ["▁", "한"]),
        ("a\ud800b", ["▁", "a", "<unk>", "b"]),
        ("", []),
    ],
    ids=["words", "letters", "blanks", "mapped", "marks and NUL", "decomposed", "jamo", "half a pair", "empty"],
)
def test_text_is_made_plain_and_cut(cutter: Cutter, text: str, expected: list[str]) -> None:
    assert pieces(cutter, text) == expected


@pytest.mark.parametrize("mark", ["<s>", "</s>", "<pad>", "<mask>"])
def test_a_mark_that_a_text_spells_out_is_only_text(cutter: Cutter, mark: str) -> None:
    found = pieces(cutter, f"cold {mark} air")
    assert mark not in found
    assert found[0] == "▁cold"
    assert found[-1] == "▁air"


@given(st.integers(0, 4 * WINDOW))
def test_long_texts_are_cut_into_windows_and_lose_nothing(cutter: Cutter, count: int) -> None:
    windows = list(cutter.windows("cold " * count))
    assert all(ids.size <= POSITIONS and ids[0] == 0 and ids[-1] == 2 for ids in windows)
    assert sum(ids.size - 2 for ids in windows) == count
    assert len(windows) == max(-(-count // WINDOW), 1)


@given(st.text())
def test_any_text_can_be_cut(cutter: Cutter, text: str) -> None:
    assert all(0 <= at < len(small_e5.PIECES) for ids in cutter.windows(text) for at in ids.tolist())
