"""How good the answers are with each embedder; all sets are a matter of minutes at the first run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from scripts.kept_vectors import KeptVectors
from scripts.quality import GATES, KEPT, UNKNOWN, measure_meaning, rank, run
from sidecar.index.embed.base import Vectors
from sidecar.index.embed.choose import choose
from sidecar.index.embed.facts import FACTS
from sidecar.index.embed.hashing import Hashing
from sidecar.index.embed.weights import Model
from tests.index.embed.conftest import installed


class Counting(Hashing):
    """Notes down what it embeds."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        self.seen += texts
        return super().passages(texts)


@pytest.fixture(scope="module", params=["e5", "use"])
def vectors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptVectors]:
    model: Model = request.param
    installed(model)
    found = KeptVectors(choose(model, tmp_path_factory.mktemp("state") / "models", print), KEPT)
    yield found
    found.close()


def holds(name: str, corpora: Path, vectors: KeptVectors) -> None:
    facts = FACTS["e5" if vectors.embedder.id.startswith("e5@") else "use"]
    found = measure_meaning(name, rank(name, corpora), vectors, facts)
    assert found.hybrid >= found.gate, found
    assert found.gate > 0 or name in UNKNOWN[facts.name]


def test_names_that_only_words_can_find_are_found_all_the_same(corpora: Path, vectors: KeptVectors) -> None:
    holds("limit-small", corpora, vectors)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [name for name in GATES if name != "limit-small"])
def test_words_and_meaning_together_reach_the_gate(name: str, corpora: Path, vectors: KeptVectors) -> None:
    holds(name, corpora, vectors)


def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    embedder = Counting()
    for _ in range(2):
        kept = KeptVectors(embedder, tmp_path)
        found = kept.passages(["a", "b", "a"])
        assert np.array_equal(found, Hashing().passages(["a", "b", "a"]))
        kept.close()
    assert embedder.seen == ["a", "b"]


def test_a_query_and_a_passage_of_the_same_words_are_kept_apart(tmp_path: Path) -> None:
    embedder = Counting()
    kept = KeptVectors(embedder, tmp_path)
    kept.queries(["a"])
    kept.passages(["a"])
    kept.close()
    assert embedder.seen == ["a"]


def test_without_models_the_run_fails_and_says_what_was_not_measured(
    hide: Callable[[Model], None],
    corpora: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hide("e5")
    hide("use")
    assert not run(sets=["limit-small"], corpora=corpora)
    said = capsys.readouterr()
    assert "quality: not measured, because the model is not here: e5, use" in said.out
    assert "'vault-sidecar model fetch'" in said.err
    assert run(sets=["limit-small"], embedders=[], corpora=corpora)
