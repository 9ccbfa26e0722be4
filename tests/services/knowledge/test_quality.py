"""Golden scores of the contract, and what judgments and points make of them."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.services.knowledge import quality, reputation, skill_md
from sidecar.services.knowledge.scrub import Scrubber
from tests.services.knowledge.examples import SKILL, pattern, procedure, trace

THOUGHT = {"step_id": 1, "type": "thought"}
TOOL_CALL = {"step_id": 2, "type": "tool_call", "tool": {"name": "look"}}
OBSERVATION = {"step_id": 3, "type": "observation"}
RECOVERY = {"step_id": 4, "type": "error_recovery"}


def of_domain(domain: str, *, success: bool = True) -> dict[str, Any]:
    return {"task_domain": domain, "success": success}


@pytest.mark.parametrize(
    "unit, score",
    [
        pytest.param(trace(), 0.94, id="trace with all steps"),
        pytest.param(trace(steps=[THOUGHT]), 0.10, id="trace of one thought"),
        pytest.param(
            trace(
                steps=[THOUGHT, TOOL_CALL, OBSERVATION],
                outcome={"result_summary": "", "confidence": 0.5},
                metadata=of_domain("finance", success=False),
            ),
            0.40,
            id="trace that failed",
        ),
        pytest.param(pattern(), 0.97, id="pattern that was used often"),
        pytest.param(
            pattern(performance={"avg_ms": 1, "success_rate": 0.9, "uses": 0}), 0.81, id="pattern that was never used"
        ),
        pytest.param(procedure(), 1.0, id="procedure with everything"),
        pytest.param(
            {
                **procedure(
                    decision_tree=[{"step": 1, "instruction": "a"}, {"step": 2, "instruction": "b"}],
                    source={"type": "human_expert", "expert_id": "x", "credentials": []},
                ),
                "validation": {"test_cases": []},
            },
            0.46,
            id="procedure of two bare nodes",
        ),
    ],
)
def test_golden_scores(unit: dict[str, Any], score: float) -> None:
    assert quality.of_unit(unit, 1.0) == score


def test_weights_are_those_of_the_domain() -> None:
    scores = {
        domain: quality.of_unit(trace(metadata=of_domain(domain)), 0.0)
        for domain in ("anything", "Finance", "code", "medical", "customer service")
    }
    # .86 C, 0 N, 1 D, .9 O
    assert scores == {"anything": 0.59, "Finance": 0.68, "code": 0.65, "medical": 0.72, "customer service": 0.64}


def test_recoveries_of_a_success_count_and_those_of_a_failure_do_not() -> None:
    steps = [THOUGHT, TOOL_CALL, *[RECOVERY] * 3, {**TOOL_CALL, "tool": {"name": "other"}}]
    won = quality.of_unit(trace(steps=steps, outcome={"result_summary": "", "confidence": 0.0}), 0.0)
    lost = quality.of_unit(
        trace(steps=steps, outcome={"result_summary": "", "confidence": 0.0}, metadata=of_domain("x", success=False)),
        0.0,
    )
    assert round(won - lost, 2) == 0.1


def test_a_score_stays_between_0_and_1() -> None:
    other = {**TOOL_CALL, "tool": {"name": "other"}}
    steps = [THOUGHT, TOOL_CALL, other, OBSERVATION, *[RECOVERY] * 3]
    best = quality.of_unit(trace(steps=steps, outcome={"result_summary": "", "confidence": 1}), 1.0)
    worst = quality.of_unit(trace(steps=[{**THOUGHT, "tool": {"name": "x"}}]), 0.0)
    assert (best, worst) == (1.0, 0.0)


def skill_score(text: str, novelty: float = 1.0, *, suspicious: bool = False) -> float:
    skill = skill_md.read(text, Scrubber())
    return quality.of_skill(
        description=skill.description,
        body=skill.body,
        has_tags=bool(skill.tags),
        has_domain=skill.domain != skill_md.NO_DOMAIN,
        suspicious=suspicious,
        novelty=novelty,
    )


def test_a_skill_is_scored_by_what_it_holds() -> None:
    words = "word " * 150
    head = "---\nname: x\ndescription: Use it when there is a review to do.\ntags: a\nkp: {domain: d}\n---\n"
    assert skill_score(f"{head}# A\n# B\n# C\n- a\n{words}") == 1.0
    assert skill_score(f"{head}# A\n# B\n# C\n- a\n{words}", 0.0) == 0.9
    assert skill_score(f"{head}# A\n# B\n# C\n- a\n{words}", suspicious=True) == 0.8
    assert skill_score("---\nname: x\ndescription: short\n---\nfew words\n") == 0.40  # .40 - .10 + .10 of novelty
    assert skill_score("---\nname: x\ndescription: short\n---\n" + "字" * 300) == 0.60  # no blanks, but words
    fenced = f"{head}```\n# A\n# B\n# C\n- a\n```\n{words}"
    assert skill_score(fenced) == 0.85  # what stands in a fence is neither heading nor list
    assert skill_score(SKILL) >= 0.9


@pytest.mark.parametrize(
    "valid, invalid, score", [(0, 0, 0.80), (1, 0, 0.84), (0, 1, 0.64), (0, 3, 0.46), (3, 3, 0.62)]
)
def test_judgments_move_the_contributed_score(valid: int, invalid: int, score: float) -> None:
    assert quality.judged(0.80, valid, invalid) == score


@pytest.mark.parametrize(
    "valid, invalid, quarantined", [(0, 2, False), (0, 3, True), (3, 3, False), (2, 3, True), (4, 3, False)]
)
def test_three_judges_and_a_majority_quarantine(valid: int, invalid: int, quarantined: bool) -> None:
    assert quality.is_quarantined(valid, invalid) is quarantined


@pytest.mark.parametrize("score, stored", [(0.745, 0.75), (0.7449, 0.74), (0.005, 0.01), (1.0, 1.0), (0.3985, 0.4)])
def test_halves_are_rounded_upwards(score: float, stored: float) -> None:
    assert quality.rounded(score) == stored


def test_novelty_begins_where_texts_have_nothing_to_do_with_each_other() -> None:
    found = [round(quality.novelty(cosine, 0.8), 3) for cosine in (0.5, 0.8, 0.9, 0.95, 1.0, 1.001)]
    assert found == [1.0, 1.0, 1.0, 0.5, 0.0, 0.0]


def test_forty_seven_units_are_the_example_of_the_page() -> None:
    record = reputation.Record(units=47)
    assert (reputation.score(record), record.contributions) == (0.91, 47)


def test_a_reputation_grows_by_deeds_and_falls_by_what_others_found_invalid() -> None:
    assert reputation.score(reputation.Record()) == 0.0
    assert reputation.score(reputation.Record(skills=1)) == 0.05
    assert reputation.score(reputation.Record(judged=10)) == 0.12
    assert reputation.score(reputation.Record(units=47, invalid=2)) == 0.45
    assert reputation.score(reputation.Record(units=47, valid=9, invalid=2)) == 0.77
