"""The real model. Preparing it takes some seconds, once for this file."""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sidecar.index.embed.base import Embedder
from sidecar.index.embed.choose import choose
from sidecar.index.embed.e5 import E5
from sidecar.index.embed.facts import FACTS
from tests.index.embed.conftest import installed

FIXED = json.loads(Path(__file__).with_name("e5_vectors.json").read_text("utf-8"))
"""Made by `python -m scripts.e5_constants vectors` from the float32 graph: .9999 from those of the package itself."""


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state") / "models"


@pytest.fixture(scope="module")
def e5(models_dir: Path) -> Iterator[Embedder]:
    installed("e5")
    lines: list[str] = []
    embedder = choose("e5", models_dir, lines.append)
    assert len(lines) == 1
    assert "once" in lines[0]
    yield embedder
    embedder.close()


@pytest.mark.parametrize("kind", ["passage", "query"])
def test_the_vectors_are_those_of_the_float32_model(e5: Embedder, kind: str) -> None:
    texts = [row["text"] for row in FIXED]
    found = e5.passages(texts) if kind == "passage" else np.stack([e5.query(text) for text in texts])
    expected = np.array([row[kind] for row in FIXED])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    cosines = (found * expected).sum(axis=1)
    assert cosines.min() >= 0.997, cosines


def test_the_facts_are_true(e5: Embedder) -> None:
    assert e5.dim == FACTS["e5"].dim == e5.query("x").size
    assert e5.id.startswith("e5@1571fc982750.")
    assert e5.id.endswith("/384")


def test_vectors_have_length_one(e5: Embedder) -> None:
    found = e5.passages(["cold air", "", " \n\0 ", "🦔" * 20, "\ud800", "x" * 5000, "한글", "e\u0301"])
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert e5.passages([]).shape == (0, 384)


def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(e5: Embedder) -> None:
    texts = [row["text"] for row in FIXED]
    together = e5.passages([*texts, "short", "long " * 300])
    for at, text in enumerate(texts):
        assert np.array_equal(together[at], e5.passages([text])[0])


def test_a_query_is_embedded_otherwise_than_a_passage(e5: Embedder) -> None:
    assert not np.array_equal(e5.query("cold air"), e5.passages(["cold air"])[0])


def test_composed_and_decomposed_text_get_the_same_vector(e5: Embedder) -> None:
    text = "Übermäßige Kälte, naïveté, 한국어"
    found = e5.passages([text, unicodedata.normalize("NFD", text)])
    assert np.array_equal(found[0], found[1])


def test_the_end_of_a_long_text_counts(e5: Embedder) -> None:
    start = "The committee met and approved the minutes of the last meeting. " * 60
    end = "Hedgehogs hibernate under leaves from November until spring. " * 60
    cut, whole, about_end = e5.passages([start, start + end, end])
    question = e5.query("where do hedgehogs spend the winter?")
    assert question @ whole > question @ cut + 0.02
    assert whole @ about_end > cut @ about_end + 0.02


def test_a_question_is_nearest_to_the_note_that_answers_it_in_any_language(e5: Embedder) -> None:
    notes = [
        "Der Akku des Sensors war im Winter leer, drei Nächte fehlen.",
        "冷たい空気は斜面を流れ下り、生け垣の後ろにたまる。",
        "Рецепт хлеба: мука, вода, соль и закваска.",
        "The meeting on Tuesday was moved to the large room.",
    ]
    questions = [
        "why is data missing from the measuring device?",
        "where does the frost collect?",
        "how do I bake?",
        "dans quelle salle est la réunion ?",
    ]
    found = e5.passages(notes)
    assert [int((found @ e5.query(question)).argmax()) for question in questions] == [0, 1, 2, 3]


def test_queries_are_answered_while_passages_are_embedded(e5: Embedder) -> None:
    expected = e5.query("cold air")
    begun = threading.Event()

    def embed() -> None:
        begun.set()
        e5.passages(["a long passage about the weather " * 20] * 12)

    with ThreadPoolExecutor(1) as threads:
        work = threads.submit(embed)
        begun.wait(timeout=30)
        found = [e5.query("cold air") for _ in range(5)]
        work.result(timeout=60)
    assert all(np.array_equal(vector, expected) for vector in found)


def test_a_second_start_takes_what_was_prepared(e5: Embedder, models_dir: Path) -> None:
    assert isinstance(e5, E5)

    def never(line: str) -> None:
        raise AssertionError(line)

    again = choose("e5", models_dir, never)
    assert np.array_equal(again.query("cold air"), e5.query("cold air"))
    again.close()
