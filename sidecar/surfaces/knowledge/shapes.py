"""Arguments and results of the knowledge tools: contracts of names, types and limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, WithJsonSchema

from sidecar.arguments import Query, Shape
from sidecar.contract import Listing

UnitType = Literal["ReasoningTrace", "ToolCallPattern", "ExpertSOP"]
Visibility = Literal["private", "org", "network"]


def _left_out(schema: dict[str, Any]) -> None:
    """An argument without a default: it may be missing, and that is all the schema says."""
    schema.pop("default", None)


# pydantic would show `null` as a further type; it counts as absent before any of these is looked at
OptionalText = Annotated[str | None, WithJsonSchema({"type": "string"})]
OptionalTexts = Annotated[list[str] | None, WithJsonSchema({"type": "array", "items": {"type": "string"}})]
OptionalTypes = Annotated[
    list[UnitType] | None,
    WithJsonSchema({"type": "array", "items": {"type": "string", "enum": list(UnitType.__args__)}}),
]
AgentId = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class SearchSkill(Shape):
    """kp_search_skill"""

    query: Query = Field(description="What the skill should help with.")
    domain: OptionalText = Field(None, description="Skills of this domain alone.", json_schema_extra=_left_out)
    tags: OptionalTexts = Field(None, description="Skills with any of these tags alone.", json_schema_extra=_left_out)
    min_quality: float = Field(0.7, ge=0, le=1, description="The least quality score.")
    limit: int = Field(5, ge=1, le=20, description="How many skills at most.")


class SearchKnowledge(Shape):
    """kp_search_knowledge"""

    query: Query = Field(description="A task, a problem or a topic.")
    types: OptionalTypes = Field(None, description="Units of these types alone.", json_schema_extra=_left_out)
    domain: OptionalText = Field(None, description="Units of this domain alone.", json_schema_extra=_left_out)
    min_quality: float = Field(0.75, ge=0, le=1, description="The least quality score.")
    limit: int = Field(5, ge=1, le=10, description="How many units at most.")
    schema_version: OptionalText = Field(
        None, description="Units of this schema version alone, like 1.0.", json_schema_extra=_left_out
    )


class ContributeSkill(Shape):
    """kp_contribute_skill"""

    skill_md_content: str = Field(description="The whole SKILL.md, at most 256 KiB.")
    visibility: Visibility = Field("network", description="Who on this computer may find it.")


class ContributeKnowledge(Shape):
    """kp_contribute_knowledge"""

    unit: dict[str, Any] = Field(
        description="A whole unit with @type ReasoningTrace, ToolCallPattern or ExpertSOP, at most 1 MiB."
    )
    visibility: Visibility = Field(description="Who on this computer may find it.")


class ValidateUnit(Shape):
    """kp_validate_unit"""

    unit_id: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] = Field(
        description="The id of the unit."
    )
    valid: bool = Field(description="Whether the unit holds.")
    feedback: Annotated[
        str | None, StringConstraints(max_length=4000), WithJsonSchema({"type": "string", "maxLength": 4000})
    ] = Field(None, description="Why.", json_schema_extra=_left_out)


class ReputationQuery(Shape):
    """kp_reputation_query"""

    agent_id: AgentId = Field(description="The agent's id, taken literally.")


class SkillHit(Shape):
    """A skill as a search returns it."""

    id: str
    name: str
    domain: str
    tags: list[str]
    quality_score: float
    content: str


class SkillHits(Listing):
    """Result of kp_search_skill."""

    result: list[SkillHit]


class UnitHit(Shape):
    """A unit as a search returns it."""

    id: str
    type: str
    domain: str
    quality_score: float
    content: dict[str, Any]


class UnitHits(Listing):
    """Result of kp_search_knowledge."""

    result: list[UnitHit]


class Contributed(Shape):
    """Result of kp_contribute_skill."""

    id: str


class Scored(Shape):
    """Result of kp_contribute_knowledge."""

    id: str
    quality_score: float


class Validated(Shape):
    """Result of kp_validate_unit."""

    validated: bool


class Reputation(Shape):
    """Result of kp_reputation_query."""

    score: float
    contributions: int
