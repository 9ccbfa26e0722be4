from __future__ import annotations

import pytest

from sidecar.index.embed.facts import FACTS

USE, E5 = FACTS["use"], FACTS["e5"]


@pytest.mark.parametrize("facts", FACTS.values(), ids=FACTS)
def test_shares_and_floors_are_in_range(facts: object) -> None:
    found = FACTS[facts.name]  # type: ignore[attr-defined] - the parameter is one of the values
    assert 0 < found.keyword_weight < 1
    assert 0 < found.relevance_floor < 1


@pytest.mark.parametrize(
    "query",
    [
        *("cold air", "Kälte", "холодный воздух", "هواء بارد", "冷空气", "冷たい空気", "カタカナー", "찬 공기"),
        *("อากาศเย็น", "ｆｕｌｌ", "2026-11-30", "42 %", "", "→ ✓", "air हवा cold"),
    ],
)
def test_use_reads_queries_of_its_languages(query: str) -> None:
    assert USE.reads(query)
    assert USE.weight_for(query) == USE.keyword_weight


@pytest.mark.parametrize("query", ["ठंडी हवा", "קור", "κρύος αέρας", "குளிர்", "ცივი ჰაერი", "C हवा बहती है"])
def test_a_query_that_use_can_t_read_is_left_to_the_keywords(query: str) -> None:
    assert not USE.reads(query)
    assert USE.weight_for(query) == 1.0
    assert E5.reads(query)
    assert E5.weight_for(query) == E5.keyword_weight
