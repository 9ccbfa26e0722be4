from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.embed.facts import FACTS
from sidecar.index.embed.hashing import Hashing


@given(st.text())
def test_every_text_gets_a_vector_of_length_one(text: str) -> None:
    found = Hashing().query(text)
    assert found.dtype == np.float32
    assert found.shape == (FACTS["hash"].dim,)
    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-5)


def test_the_vectors_are_the_same_on_every_machine() -> None:
    found = Hashing().query("cold air drains")
    assert sorted(np.argsort(-np.abs(found))[:3].tolist()) == [4, 42, 53]  # those of the three words
    assert Hashing.id == "hash@1/64"


def test_texts_are_near_that_share_words_or_parts_of_words() -> None:
    hashing = Hashing()
    floor = FACTS["hash"].relevance_floor
    passages = hashing.passages(["Cold air drains from the slope", "Sourdough bread recipe", "Slopes and cold nights"])
    near, far, part = passages @ hashing.query("cold air on a slope")
    assert near > part > floor > far


def test_no_text_is_no_row() -> None:
    assert Hashing().passages([]).shape == (0, 64)
