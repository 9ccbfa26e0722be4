"""A good skill and a good unit of each type, and ways to change them."""

from __future__ import annotations

import copy
from typing import Any

from sidecar.bridge.token import Caller

LOCAL = Caller("local", "local", local=False)
ANNA = Caller("anna", "north", local=False)
ARNE = Caller("arne", "north", local=False)
BERT = Caller("bert", "south", local=False)
CARL = Caller("carl", "south", local=False)

SKILL = """---
name: code-review
description: Checks a change for mistakes. Use it when a pull request waits for a review.
tags: [review, quality]
kp:
  domain: software-engineering
---
# Look at the whole

Read the description of the change first, then its tests, then the code. Ask what the change is for, and whether it
does that and nothing else.

## Look for mistakes

- limits of loops and lists
- errors that are swallowed
- names that promise something else

## Write down what you found

Say what is wrong, why, and what would be right. Name the file and the line.
"""


def skill(name: str = "code-review", extra: str = "", body: str = "") -> str:
    """The good skill under another name, with more lines of frontmatter or of text."""
    return SKILL.replace("name: code-review", f"name: {name}\n{extra}".rstrip("\n")) + body


def trace(**changes: Any) -> dict[str, Any]:
    """6 steps of all four types, 2 tools, confidence .9, success."""
    return {
        "@type": "ReasoningTrace",
        "metadata": {"task_domain": "debugging", "success": True},
        "task": {"objective": "Find out why the nightly import stops"},
        "steps": [
            {"step_id": 1, "type": "thought", "content": "The log ends in the middle of a file."},
            {"step_id": 2, "type": "tool_call", "tool": {"name": "read_log"}, "input": {"lines": 200}},
            {"step_id": 3, "type": "observation", "output_summary": "The disk was full at that moment."},
            {"step_id": 4, "type": "error_recovery", "content": "Freed space and started again."},
            {"step_id": 5, "type": "tool_call", "tool": {"name": "run_import", "mcp_server": "jobs"}},
            {"step_id": 6, "type": "observation", "output_summary": "It went through.", "latency_ms": 12.5},
        ],
        "outcome": {"result_summary": "A full disk; there is an alarm now.", "confidence": 0.9},
        **copy.deepcopy(changes),
    }


def pattern(**changes: Any) -> dict[str, Any]:
    """4 steps, parallel, condition, 4 tools, success_rate .9, 97 uses."""
    return {
        "@type": "ToolCallPattern",
        "metadata": {"task_domain": "research", "success": True},
        "name": "Gather and compare sources",
        "description": "Looks in several places at once and goes on with what two of them say.",
        "trigger_conditions": {"task_types": ["fact check"], "required_tools": ["web"]},
        "tool_sequence": [
            {"step": 1, "execution": "parallel", "tools": [{"name": "web"}, {"name": "archive"}]},
            {"step": 2, "execution": "sequential", "tools": [{"name": "compare"}], "condition": "both answered"},
            {"step": 3, "execution": "sequential", "tools": [{"name": "cite", "input_template": {"style": "short"}}]},
            {"step": 4, "execution": "sequential", "tools": [{"name": "web", "query_template": "{claim} criticism"}]},
        ],
        "performance": {"avg_ms": 800, "success_rate": 0.9, "uses": 97},
        **copy.deepcopy(changes),
    }


def procedure(**changes: Any) -> dict[str, Any]:
    """5 nodes with criteria and suggestions, 2 credentials, 3 tests."""
    return {
        "@type": "ExpertSOP",
        "metadata": {"task_domain": "customer_service", "success": True},
        "name": "Refund for a late parcel",
        "domain": "logistics",
        "source": {"type": "human_expert", "expert_id": "m-weber", "credentials": ["team lead", "ten years"]},
        "decision_tree": [
            {"step": 1, "instruction": "Look up the parcel.", "criteria": "Its number is known."},
            {
                "step": 2,
                "instruction": "Ask the carrier.",
                "tool_suggestions": [{"name": "tracking", "when": "always"}],
            },
            {
                "step": "3a",
                "instruction": "Decide.",
                "conditions": {"older than ten days": {"action": "Refund at once.", "sla_min": 30}},
            },
            {"step": 4, "instruction": "Write to the customer.", "criteria": ["kind", "short"]},
            {"step": 5, "instruction": "Close the case.", "criteria": {"ledger": "booked"}},
        ],
        "validation": {"test_cases": [{"input": n, "expected_output": "refund"} for n in range(3)]},
        **copy.deepcopy(changes),
    }


UNITS = {"ReasoningTrace": trace, "ToolCallPattern": pattern, "ExpertSOP": procedure}
