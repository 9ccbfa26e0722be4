from __future__ import annotations

from pathlib import Path

import pytest

from scripts.quality import GATES, measure, ndcg


@pytest.mark.parametrize("name", GATES)
def test_keywords_alone_reach_the_gate(name: str, corpora: Path) -> None:
    result = measure(name, corpora)
    assert result.ndcg >= result.gate


def test_the_measure_is_one_for_a_perfect_ranking_and_falls_with_each_place() -> None:
    relevant = {"a": 2, "b": 1}
    assert ndcg(["a", "b", "c"], relevant) == pytest.approx(1.0)
    assert 1.0 > ndcg(["b", "a"], relevant) > ndcg(["c", "b", "a"], relevant) > ndcg(["c", "d"], relevant) == 0.0
    assert ndcg([*"cdefghijkl", "a"], relevant) == 0.0
