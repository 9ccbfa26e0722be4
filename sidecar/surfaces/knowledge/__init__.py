"""Surface `knowledge`: skills and knowledge units that clients of this computer share."""

from sidecar.contract import Surface, Tool
from sidecar.surfaces.knowledge.shapes import (
    Contributed,
    ContributeKnowledge,
    ContributeSkill,
    Reputation,
    ReputationQuery,
    Scored,
    SearchKnowledge,
    SearchSkill,
    SkillHits,
    UnitHits,
    Validated,
    ValidateUnit,
)
from sidecar.surfaces.knowledge.tools import (
    contribute_knowledge,
    contribute_skill,
    reputation_query,
    search_knowledge,
    search_skill,
    validate_unit,
)

SURFACE = Surface(
    name="knowledge",
    instructions=(
        "Registry of reusable skills and knowledge units on this computer. Search before solving a known kind of task;"
        " contribute what worked. Secrets are removed on contribution."
    ),
    tools=(
        Tool("kp_search_skill", "Find reusable skills (SKILL.md) for a task.", SearchSkill, SkillHits, search_skill),
        Tool(
            "kp_search_knowledge",
            "Find knowledge units: reasoning traces, tool call patterns and expert procedures.",
            SearchKnowledge,
            UnitHits,
            search_knowledge,
        ),
        Tool(
            "kp_contribute_skill",
            "Add a SKILL.md to the registry; contributing the same again changes nothing.",
            ContributeSkill,
            Contributed,
            contribute_skill,
            read_only=False,
        ),
        Tool(
            "kp_contribute_knowledge",
            "Add a knowledge unit to the registry; its quality is computed.",
            ContributeKnowledge,
            Scored,
            contribute_knowledge,
            read_only=False,
        ),
        Tool(
            "kp_validate_unit",
            "Say whether a knowledge unit holds; a later judgment replaces yours.",
            ValidateUnit,
            Validated,
            validate_unit,
            read_only=False,
        ),
        Tool(
            "kp_reputation_query",
            "An agent's reputation score and number of contributions.",
            ReputationQuery,
            Reputation,
            reputation_query,
        ),
    ),
    nulls="absent",
)
