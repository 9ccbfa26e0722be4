"""The real package; it computes in this process, whose arithmetic is limited to one thread meanwhile."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sidecar.index.embed.base import Embedder
from sidecar.index.embed.choose import choose
from sidecar.index.embed.facts import FACTS
from tests.index.embed.conftest import installed


@pytest.fixture(scope="module")
def use() -> Iterator[Embedder]:
    installed("use")
    embedder = choose("use", Path(), print)
    yield embedder
    embedder.close()


def test_the_facts_are_true(use: Embedder) -> None:
    assert use.dim == FACTS["use"].dim == use.query("x").size
    assert use.id == "use@0db566fd0af8/512"


def test_vectors_have_length_one(use: Embedder) -> None:
    found = use.passages(["cold air", "", " \n\0 ", "🦔" * 20, "\ud800", "x" * 5000, "한글", "e\u0301", "long " * 2000])
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-4)
    assert use.passages([]).shape == (0, 512)


def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(use: Embedder) -> None:
    texts = [f"text {at} about {'cold ' * at}air" for at in range(30)]
    together = use.passages(texts)
    assert together[17] == pytest.approx(use.passages([texts[17]])[0], abs=1e-5)
    assert together[29] == pytest.approx(use.query(texts[29]), abs=1e-5)


def test_composed_and_decomposed_text_get_the_same_vector(use: Embedder) -> None:
    text = "Übermäßige Kälte, naïveté"
    assert np.array_equal(use.query(text), use.query(unicodedata.normalize("NFD", text)))


def test_a_question_is_nearest_to_the_note_that_answers_it_in_any_language(use: Embedder) -> None:
    notes = ["Der Akku des Sensors war im Winter leer.", "Рецепт хлеба: мука, вода, соль.", "会议改到星期二。"]
    found = use.passages(notes)
    questions = ["the battery of the sensor was empty", "how to bake bread", "when is the meeting?"]
    assert [int((found @ use.query(question)).argmax()) for question in questions] == [0, 1, 2]


def test_the_arithmetic_of_the_process_is_bounded(use: Embedder) -> None:
    from threadpoolctl import threadpool_info

    use.passages(["a", "b"])
    assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} <= {1}
