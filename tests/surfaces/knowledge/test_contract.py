"""The page's tables: every parameter with its type, limits and default, and the keys of every response."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sidecar.arguments import schema_of
from sidecar.surfaces.knowledge import SURFACE
from tests.services.knowledge.examples import SKILL, UNITS, skill, trace
from tests.surfaces.knowledge.conftest import Hub

TOOLS = {tool.name: tool for tool in SURFACE.tools}
TYPES = ["ReasoningTrace", "ToolCallPattern", "ExpertSOP"]
LEVELS = ["private", "org", "network"]

# name: (type, required, default, further rules)
PAGE: dict[str, dict[str, tuple[str, bool, Any, dict[str, Any]]]] = {
    "kp_search_skill": {
        "query": ("string", True, None, {}),
        "domain": ("string", False, None, {}),
        "tags": ("array", False, None, {"items": {"type": "string"}}),
        "min_quality": ("number", False, 0.7, {"minimum": 0, "maximum": 1}),
        "limit": ("integer", False, 5, {"minimum": 1, "maximum": 20}),
    },
    "kp_search_knowledge": {
        "query": ("string", True, None, {}),
        "types": ("array", False, None, {"items": {"type": "string", "enum": TYPES}}),
        "domain": ("string", False, None, {}),
        "min_quality": ("number", False, 0.75, {"minimum": 0, "maximum": 1}),
        "limit": ("integer", False, 5, {"minimum": 1, "maximum": 10}),
        "schema_version": ("string", False, None, {}),
    },
    "kp_contribute_skill": {
        "skill_md_content": ("string", True, None, {}),
        "visibility": ("string", False, "network", {"enum": LEVELS}),
    },
    "kp_contribute_knowledge": {
        "unit": ("object", True, None, {}),
        "visibility": ("string", True, None, {"enum": LEVELS}),
    },
    "kp_validate_unit": {
        "unit_id": ("string", True, None, {}),
        "valid": ("boolean", True, None, {}),
        "feedback": ("string", False, None, {}),
    },
    "kp_reputation_query": {"agent_id": ("string", True, None, {})},
}


def test_the_tools_are_those_of_the_page_in_its_order() -> None:
    assert list(TOOLS) == list(PAGE)


@pytest.mark.parametrize("name", PAGE)
def test_parameters_types_bounds_and_defaults_are_those_of_the_page(name: str) -> None:
    schema = schema_of(TOOLS[name].args)
    assert list(schema["properties"]) == list(PAGE[name])
    assert schema["required"] == [argument for argument, row in PAGE[name].items() if row[1]]
    for argument, (kind, _, default, rules) in PAGE[name].items():
        spec = schema["properties"][argument]
        assert spec["type"] == kind
        assert spec.get("default") == default
        assert ("default" in spec) is (default is not None)
        assert {rule: spec.get(rule) for rule in rules} == rules


RESPONSES = {
    "kp_search_skill": ["id", "name", "domain", "tags", "quality_score", "content"],
    "kp_search_knowledge": ["id", "type", "domain", "quality_score", "content"],
    "kp_contribute_skill": ["id"],
    "kp_contribute_knowledge": ["id", "quality_score"],
    "kp_validate_unit": ["validated"],
    "kp_reputation_query": ["score", "contributions"],
}


@pytest.fixture(scope="module")
def filled(hub: Hub) -> dict[str, dict[str, Any]]:
    """Good arguments for each tool, over a registry with something in it."""
    unit_id = hub.call("kp_contribute_knowledge", unit=trace(), visibility="network")["id"]
    return {
        "kp_contribute_skill": {"skill_md_content": SKILL},
        "kp_contribute_knowledge": {"unit": trace(), "visibility": "network"},
        "kp_validate_unit": {"unit_id": unit_id, "valid": True, "feedback": "Good."},
        "kp_search_skill": {"query": "review a pull request"},
        "kp_search_knowledge": {"query": "nightly import"},
        "kp_reputation_query": {"agent_id": "local"},
    }


@pytest.mark.parametrize("name", RESPONSES)
def test_responses_hold_exactly_the_keys_of_the_page(hub: Hub, filled: dict[str, Any], name: str) -> None:
    hub.call("kp_contribute_skill", skill_md_content=SKILL)
    result = hub.result(name, **filled[name])
    [block] = result["content"]
    shown, structured = json.loads(block["text"]), result["structuredContent"]
    Draft202012Validator(schema_of(TOOLS[name].result)).validate(structured)  # type: ignore[arg-type]
    if name.startswith("kp_search"):
        assert structured == {"result": shown}
        assert isinstance(shown, list)
        assert block["text"].startswith("[{")
        rows = shown
    else:
        assert structured == shown
        rows = [shown]
    assert rows
    for row in rows:
        assert list(row) == RESPONSES[name]
    if name == "kp_validate_unit":
        assert shown == {"validated": True}


def test_no_match_is_an_empty_array(hub: Hub) -> None:
    result = hub.result("kp_search_skill", query="qqqzzz")
    assert result["content"][0]["text"] == "[]"
    assert result["structuredContent"] == {"result": []}


def bounds(tool: str) -> list[Any]:
    most = 20 if tool == "kp_search_skill" else 10
    whole = f"limit: must be a whole number from 1 to {most}."
    share = "min_quality: must be a number from 0 to 1."
    rows: list[tuple[dict[str, Any], str | None]] = [
        ({"limit": 0}, whole), ({"limit": 1}, None), ({"limit": most}, None), ({"limit": most + 1}, whole),
        ({"limit": 5.0}, None), ({"limit": 1.5}, whole), ({"limit": True}, whole), ({"limit": "5"}, whole),
        ({"limit": None}, None), ({"min_quality": -0.01}, share), ({"min_quality": 0}, None),
        ({"min_quality": 1}, None), ({"min_quality": 1.01}, share), ({"min_quality": None}, None),
        ({"min_quality": "0.5"}, share), ({"min_quality": True}, share), ({"domain": None}, None),
        ({"domain": 5}, "domain: must be text."), ({"query": None}, "query: must be text."),
        ({"query": " "}, "query: is required."), ({"query": "x" * 2001}, "query: at most 2,000 characters."),
        ({"colour": 1}, f"colour: is not an argument of {tool}."),
    ]  # fmt: skip
    return [pytest.param(tool, given, sentence, id=f"{tool}-{given}"[:60]) for given, sentence in rows]


@pytest.mark.parametrize("tool, given, sentence", [*bounds("kp_search_skill"), *bounds("kp_search_knowledge")])
def test_bounds_of_searches(hub: Hub, tool: str, given: dict[str, Any], sentence: str | None) -> None:
    arguments = {"query": "review", **given}
    if sentence is None:
        hub.call(tool, **arguments)
    else:
        assert hub.refusal(tool, **arguments) == sentence


@pytest.mark.parametrize(
    "tool, given, sentence",
    [
        ("kp_search_knowledge", {"query": "x", "types": ["Bogus"]}, f"types: must be one of {', '.join(TYPES)}."),
        ("kp_search_knowledge", {"query": "x", "types": "ReasoningTrace"}, "types: must be a list."),
        ("kp_search_skill", {"query": "x", "tags": [1]}, "tags: must be text."),
        ("kp_contribute_knowledge", {"unit": trace()}, "visibility: is required."),
        ("kp_contribute_knowledge", {"unit": "x", "visibility": "org"}, "unit: must be an object."),
        ("kp_validate_unit", {"unit_id": "x"}, "valid: is required."),
        ("kp_validate_unit", {"unit_id": "x", "valid": "yes"}, "valid: must be true or false."),
        (
            "kp_validate_unit",
            {"unit_id": "x", "valid": True, "feedback": "x" * 4001},
            "feedback: at most 4,000 characters.",
        ),
        ("kp_reputation_query", {"agent_id": ""}, "agent_id: is required."),
        ("kp_reputation_query", {"agent_id": "x" * 201}, "agent_id: at most 200 characters."),
        ("kp_contribute_skill", {}, "skill_md_content: is required."),
    ],
)
def test_wrong_arguments_are_told_by_name(hub: Hub, tool: str, given: dict[str, Any], sentence: str) -> None:
    assert hub.refusal(tool, **given) == sentence


@pytest.mark.parametrize("tool", ["kp_contribute_skill", "kp_contribute_knowledge"])
def test_p14_public_is_no_visibility(hub: Hub, tool: str) -> None:
    content = {"skill_md_content": SKILL} if tool == "kp_contribute_skill" else {"unit": trace()}
    assert hub.refusal(tool, **content, visibility="public") == "visibility: must be one of private, org, network."


def test_without_a_word_about_it_a_skill_is_for_all(hub: Hub) -> None:
    skill_id = hub.call("kp_contribute_skill", "anna", skill_md_content=skill("for-all"))["id"]
    assert skill_id in hub.ids("kp_search_skill", "bert", query="review a pull request", limit=20)
    hidden = hub.call("kp_contribute_skill", "anna", skill_md_content=skill("mine"), visibility="private")["id"]
    assert hidden not in hub.ids("kp_search_skill", "bert", query="review a pull request", limit=20)


# --- the schemas ---


@pytest.mark.parametrize("kind", UNITS)
def test_the_examples_are_taken(hub: Hub, kind: str) -> None:
    unit = UNITS[kind]()
    unit["metadata"]["agent_id"] = f"maker of a {kind}"
    answer = hub.call("kp_contribute_knowledge", unit=unit, visibility="network")
    assert answer["quality_score"] >= 0.75


def change(path: str, value: Any = ...) -> Any:
    """A unit with something else at `path`, or without it."""

    def apply(unit: dict[str, Any]) -> dict[str, Any]:
        changed: Any = copy.deepcopy(unit)
        *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
        place = changed
        for part in way:
            place = place[part]
        if value is ...:
            del place[last]
        else:
            place[last] = value
        return changed

    return apply


TRACE_RULES = [
    ("metadata", ..., "unit.metadata: is required."),
    ("task", ..., "unit.task: is required."),
    ("steps", ..., "unit.steps: is required."),
    ("outcome", ..., "unit.outcome: is required."),
    ("colour", 1, "unit.colour: is not a key of the schema."),
    ("metadata", [], "unit.metadata: must be an object."),
    ("metadata/colour", 1, "unit.metadata.colour: is not a key of the schema."),
    ("metadata/task_domain", ..., "unit.metadata.task_domain: is required."),
    ("metadata/task_domain", "", "unit.metadata.task_domain: must not be empty."),
    ("metadata/task_domain", "x" * 201, "unit.metadata.task_domain: at most 200 characters."),
    ("metadata/success", "yes", "unit.metadata.success: must be true or false."),
    ("metadata/success", 1, "unit.metadata.success: must be true or false."),
    ("metadata/visibility", "public", "unit.metadata.visibility: must be one of private, org, network."),
    (
        "metadata/privacy_level",
        "x",
        "unit.metadata.privacy_level: must be one of aggregated, federated, private.",
    ),
    ("metadata/quality_score", 1.1, "unit.metadata.quality_score: must be a number from 0 to 1."),
    ("metadata/validated_by", [""], "unit.metadata.validated_by[0]: must not be empty."),
    ("metadata/agent_id", "", "unit.metadata.agent_id: must not be empty."),
    (
        "metadata/created_at",
        "yesterday",
        "unit.metadata.created_at: must be a point in time such as 2026-11-30T11:12:00Z.",
    ),
    (
        "metadata/created_at",
        "2026-13-45T00:00:00Z",
        "unit.metadata.created_at: must be a point in time such as 2026-11-30T11:12:00Z.",
    ),
    ("@context", "https://x/v2", "unit.@context: must name schema version 1, such as https://example.com/kp/v1."),
    ("id", "kp:sop:x", "unit.id: must begin with kp:trace: and hold no blanks."),
    ("id", "kp:trace:a b", "unit.id: must begin with kp:trace: and hold no blanks."),
    ("id", "kp:trace:a\n", "unit.id: must begin with kp:trace: and hold no blanks."),
    ("id", 5, "unit.id: must be text."),
    ("task/objective", "", "unit.task.objective: must not be empty."),
    ("task/input_schema", "x", "unit.task.input_schema: must be an object."),
    ("steps", [], "unit.steps: must have at least one entry."),
    ("steps", {}, "unit.steps: must be a list."),
    ("steps/0", "x", "unit.steps[0]: must be an object."),
    ("steps/0/step_id", ..., "unit.steps[0].step_id: is required."),
    ("steps/0/step_id", -1, "unit.steps[0].step_id: must be a whole number of 0 or more."),
    ("steps/0/step_id", 1.5, "unit.steps[0].step_id: must be a whole number of 0 or more."),
    (
        "steps/0/type",
        "idea",
        "unit.steps[0].type: must be one of thought, tool_call, observation, error_recovery.",
    ),
    ("steps/1/tool/name", "", "unit.steps[1].tool.name: must not be empty."),
    ("steps/1/tool/version", "1", "unit.steps[1].tool.version: is not a key of the schema."),
    ("steps/5/latency_ms", -0.5, "unit.steps[5].latency_ms: must be a number of 0 or more."),
    ("outcome/confidence", 1.01, "unit.outcome.confidence: must be a number from 0 to 1."),
    ("outcome/confidence", "high", "unit.outcome.confidence: must be a number from 0 to 1."),
    ("outcome/result_summary", ..., "unit.outcome.result_summary: is required."),
    ("knowledge_graph_delta", [], "unit.knowledge_graph_delta: must be an object."),
]
PATTERN_RULES = [
    ("name", "", "unit.name: must not be empty."),
    ("description", ..., "unit.description: is required."),
    ("trigger_conditions/task_types", [], "unit.trigger_conditions.task_types: must have at least one entry."),
    ("trigger_conditions/required_tools", [""], "unit.trigger_conditions.required_tools[0]: must not be empty."),
    ("tool_sequence", [], "unit.tool_sequence: must have at least one entry."),
    ("tool_sequence/0/execution", "x", "unit.tool_sequence[0].execution: must be one of parallel, sequential."),
    ("tool_sequence/0/tools", [], "unit.tool_sequence[0].tools: must have at least one entry."),
    ("tool_sequence/0/tools/0/name", ..., "unit.tool_sequence[0].tools[0].name: is required."),
    ("tool_sequence/1/condition", 5, "unit.tool_sequence[1].condition: must be text."),
    ("performance/uses", 1.5, "unit.performance.uses: must be a whole number of 0 or more."),
    ("performance/success_rate", 2, "unit.performance.success_rate: must be a number from 0 to 1."),
    ("performance/avg_ms", ..., "unit.performance.avg_ms: is required."),
    ("id", "kp:trace:x", "unit.id: must begin with kp:pattern: and hold no blanks."),
]
SOP_RULES = [
    ("source/type", "model", "unit.source.type: must be human_expert."),
    ("source/credentials", "x", "unit.source.credentials: must be a list."),
    ("source/credentials/0", "", "unit.source.credentials[0]: must not be empty."),
    ("decision_tree/0/step", -1, "unit.decision_tree[0].step: must be a whole number of 0 or more or text."),
    ("decision_tree/0/instruction", "", "unit.decision_tree[0].instruction: must not be empty."),
    (
        "decision_tree/0/criteria",
        5,
        "unit.decision_tree[0].criteria: must be text or a list of text or an object of text.",
    ),
    (
        "decision_tree/2/conditions/older than ten days/action",
        "",
        "unit.decision_tree[2].conditions.older than ten days.action: must not be empty.",
    ),
    (
        "decision_tree/2/conditions/older than ten days/sla_min",
        -1,
        "unit.decision_tree[2].conditions.older than ten days.sla_min: must be a number of 0 or more.",
    ),
    ("decision_tree/1/tool_suggestions/0", {}, "unit.decision_tree[1].tool_suggestions[0].name: is required."),
    ("validation/test_cases/0", {}, "unit.validation.test_cases[0].input: is required."),
    ("validation", {}, "unit.validation.test_cases: is required."),
    ("domain", "", "unit.domain: must not be empty."),
    ("id", "kp:trace:x", "unit.id: must begin with kp:sop: and hold no blanks."),
]
RULES = [
    pytest.param(kind, path, value, sentence, id=f"{kind}-{path}-{str(value)[:12]}")
    for kind, rules in zip(UNITS, (TRACE_RULES, PATTERN_RULES, SOP_RULES), strict=True)
    for path, value, sentence in rules
]


@pytest.mark.parametrize("kind, path, value, sentence", RULES)
def test_a_broken_rule_is_told_with_its_place(hub: Hub, kind: str, path: str, value: Any, sentence: str) -> None:
    broken = change(path, value)(UNITS[kind]())
    said = hub.refusal("kp_contribute_knowledge", unit=broken, visibility="network")
    assert said.splitlines()[0] == sentence


@pytest.mark.parametrize("kind", ["Skill", "", 5, None, ["ReasoningTrace"]])
def test_an_unknown_type_is_told_alone(hub: Hub, kind: Any) -> None:
    sentence = f"unit.@type: must be one of {', '.join(TYPES)}."
    assert hub.refusal("kp_contribute_knowledge", unit={"@type": kind, "x": 1}, visibility="org") == sentence
    assert hub.refusal("kp_contribute_knowledge", unit={}, visibility="org") == sentence


def test_at_most_ten_mistakes_are_told(hub: Hub) -> None:
    unit = trace(steps=[{"step_id": -n, "type": "x", "colour": n} for n in range(1, 30)])
    assert len(hub.refusal("kp_contribute_knowledge", unit=unit, visibility="org").splitlines()) == 10


@pytest.mark.parametrize("when", ["2026-11-30T11:12:00Z", "2026-11-30t11:12:00.5+01:00", "2026-12-31T23:59:60Z"])
def test_points_in_time_that_are_right(hub: Hub, when: str) -> None:
    unit = change("metadata/created_at", when)(trace())
    hub.call("kp_contribute_knowledge", unit=unit, visibility="network")
