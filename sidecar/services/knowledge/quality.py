"""How good an item is, as one number from 0 to 1, by what it holds. Pure.

The score is ours alone: whatever a contributor says about the quality is not
looked at. `novelty` is 1 for what resembles nothing that is stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sidecar.index.letters import WIDE

LEAST_INVALID: Final = 3
"""Judgments against a unit from which it may be quarantined."""


class Weights(NamedTuple):
    """What counts how much; the four make 1."""

    complexity: float
    novelty: float
    diversity: float
    outcome: float


_ANY: Final = Weights(0.25, 0.35, 0.15, 0.25)
_BY_DOMAIN: Final[Mapping[str, Weights]] = {
    "finance": Weights(0.20, 0.25, 0.10, 0.45),
    "code": Weights(0.20, 0.30, 0.30, 0.20),
    "medical": Weights(0.15, 0.20, 0.10, 0.55),
    "customer_service": Weights(0.20, 0.30, 0.20, 0.30),
}


def rounded(score: float) -> float:
    """Two decimals, a half upwards: the form in which scores are stored and compared."""
    return math.floor(score * 100 + 0.5 + 1e-9) / 100  # what is a half in decimals lies beside it in binary


def novelty(cosine: float, floor: float) -> float:
    """How new something is whose nearest of its kind has this cosine: 0 where it is the same, 1 where it resembles
    nothing.

    A plain 1 - cosine would say that nothing is ever new: e5 puts texts that have nothing to do with each other at
    .8. So it is counted from half way between the embedder's relevance `floor` and 1. Of 200 units on different tasks
    three in four have no earlier one that is nearer (scripts/bench knowledge).
    """
    return min(1.0, max(0.0, 2 * (1 - cosine) / (1 - floor)))


def of_unit(unit: Mapping[str, Any], novelty: float) -> float:
    """The score of a unit that fits its schema."""
    score = {"ReasoningTrace": _trace, "ToolCallPattern": _pattern, "ExpertSOP": _procedure}[unit["@type"]]
    return rounded(min(1.0, max(0.0, score(unit, novelty))))


def _trace(unit: Mapping[str, Any], novelty: float) -> float:
    steps: Sequence[Mapping[str, Any]] = unit["steps"]
    kinds = {step["type"] for step in steps}
    tools = {step["tool"]["name"] for step in steps if "tool" in step}
    recoveries = sum(step["type"] == "error_recovery" for step in steps)
    success: bool = unit["metadata"]["success"]
    complexity = min(1.0, len(kinds) / 4 * 0.5 + 0.3 * bool(recoveries) + len(steps) / 20 * 0.2)
    diversity = min(1.0, 3 * len(tools) / len(steps))
    outcome = unit["outcome"]["confidence"] * (1.0 if success else 0.3)
    domain = re.sub(r"[\s-]", "_", unit["metadata"]["task_domain"].strip().casefold())
    score = _weighted(_BY_DOMAIN.get(domain, _ANY), complexity, novelty, diversity, outcome)
    if len(steps) == 1 and kinds == {"thought"}:
        score = 0.1
    if recoveries > 2 and success:
        score += 0.1
    if len(tools) == 1:
        score -= 0.1
    return score


def _pattern(unit: Mapping[str, Any], novelty: float) -> float:
    steps: Sequence[Mapping[str, Any]] = unit["tool_sequence"]
    tools = {tool["name"] for step in steps for tool in step["tools"]}
    parallel = any(step["execution"] == "parallel" for step in steps)
    conditional = any(step.get("condition") for step in steps)
    uses = unit["performance"]["uses"]
    complexity = min(1.0, len(steps) / 4 * 0.5 + 0.25 * parallel + 0.25 * conditional)
    diversity = min(1.0, len(tools) / len(steps))
    # three failures that nobody counted: a pattern that was never used is not believed
    outcome = unit["performance"]["success_rate"] * (uses + 1) / (uses + 4)
    return _weighted(_ANY, complexity, novelty, diversity, outcome)


def _procedure(unit: Mapping[str, Any], novelty: float) -> float:
    nodes: Sequence[Mapping[str, Any]] = unit["decision_tree"]
    decides = any(node.get("criteria") or node.get("conditions") for node in nodes)
    suggests = any(node.get("tool_suggestions") for node in nodes)
    complexity = min(1.0, len(nodes) / 5 * 0.5 + 0.25 * decides + 0.25 * suggests)
    standing = min(1.0, 0.5 + 0.25 * len(unit["source"]["credentials"]))
    tested = min(1.0, len(unit.get("validation", {}).get("test_cases", ())) / 3)
    return 0.30 * complexity + 0.30 * novelty + 0.40 * (0.5 * standing + 0.5 * tested)


def _weighted(weights: Weights, complexity: float, novelty: float, diversity: float, outcome: float) -> float:
    parts = zip(weights, (complexity, novelty, diversity, outcome), strict=True)
    return math.fsum(weight * part for weight, part in parts)


# --- skills ---

_WHEN: Final = re.compile(r"\b(?:when|whenever|before|after|if|use)\b", re.IGNORECASE)
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]")
_ENTRY: Final = re.compile(r" {0,12}(?:[-*+]|\d{1,9}[.)])[ \t]")
_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)")


def of_skill(
    *, description: str, body: str, has_tags: bool, has_domain: bool, suspicious: bool, novelty: float
) -> float:
    """The score of a skill."""
    words, headings, has_list = _looked_over(body)
    score = math.fsum(
        (
            0.40,
            0.10 * (len(description) >= 20),
            0.05 * bool(_WHEN.search(description)),
            0.10 * min(1.0, words / 150),
            0.10 * min(1.0, headings / 3),
            0.05 * has_list,
            0.05 * has_tags,
            0.05 * has_domain,
            0.10 * novelty,
            -0.10 * (words < 20),
            -0.20 * suspicious,
        )
    )
    return rounded(min(1.0, max(0.0, score)))


def _looked_over(body: str) -> tuple[int, int, bool]:
    """Words, headings, and whether there is a list; inside of fences only words count."""
    words, headings, has_list, fenced = 0, 0, False, False
    for line in body.splitlines():
        words += len(line.split())
        if not line.isascii():
            words += len(WIDE.findall(line)) // 2  # scripts without blanks: about two characters a word
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            headings += bool(_HEADING.match(line))
            has_list = has_list or bool(_ENTRY.match(line))
    return words, headings, has_list


# --- judgments ---


def judged(contributed: float, valid: int, invalid: int) -> float:
    """The score after so many judgments; each time from the contributed one, which weighs as much as four."""
    return rounded((4 * contributed + valid) / (4 + valid + invalid))


def is_quarantined(valid: int, invalid: int) -> bool:
    """Whether so many judgments keep a unit out of searches."""
    return invalid >= LEAST_INVALID and invalid > valid
