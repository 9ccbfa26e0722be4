"""Handlers of the knowledge tools: they turn arguments into calls of the registry, and its items into results."""

from __future__ import annotations

from sidecar.contract import Call
from sidecar.services.core import Core
from sidecar.services.knowledge.unit_schema import TYPES
from sidecar.surfaces.knowledge.shapes import (
    Contributed,
    ContributeKnowledge,
    ContributeSkill,
    Reputation,
    ReputationQuery,
    Scored,
    SearchKnowledge,
    SearchSkill,
    SkillHit,
    SkillHits,
    UnitHit,
    UnitHits,
    Validated,
    ValidateUnit,
)


async def search_skill(core: Core, args: SearchSkill, call: Call) -> SkillHits:
    """Relevant skills."""
    found = await core.knowledge.search_skills(
        args.query, args.domain, args.tags or (), args.min_quality, args.limit, call.caller
    )
    return SkillHits(
        result=[
            SkillHit(
                id=one.item.id,
                name=one.item.name,
                domain=one.item.domain,
                tags=list(one.item.tags),
                quality_score=one.item.quality,
                content=one.content,
            )
            for one in found
        ]
    )


async def search_knowledge(core: Core, args: SearchKnowledge, call: Call) -> UnitHits:
    """Relevant units."""
    found = await core.knowledge.search_units(
        args.query, args.types or TYPES, args.domain, args.min_quality, args.limit, args.schema_version, call.caller
    )
    return UnitHits(
        result=[
            UnitHit(
                id=one.item.id,
                type=one.item.kind,
                domain=one.item.domain,
                quality_score=one.item.quality,
                content=one.content,
            )
            for one in found
        ]
    )


async def contribute_skill(core: Core, args: ContributeSkill, call: Call) -> Contributed:
    """Store a SKILL.md. What it says itself about its visibility counts where the argument is left out."""
    said = args.visibility if "visibility" in args.model_fields_set else None
    return Contributed(id=await core.knowledge.contribute_skill(args.skill_md_content, said, call.caller))


async def contribute_knowledge(core: Core, args: ContributeKnowledge, call: Call) -> Scored:
    """Store a unit."""
    unit_id, score = await core.knowledge.contribute_unit(args.unit, args.visibility, call.caller)
    return Scored(id=unit_id, quality_score=score)


async def validate_unit(core: Core, args: ValidateUnit, call: Call) -> Validated:
    """Record a judgment."""
    await core.knowledge.judge(args.unit_id, args.valid, args.feedback, call.caller)
    return Validated(validated=True)


async def reputation_query(core: Core, args: ReputationQuery, call: Call) -> Reputation:
    """Look an agent up."""
    score, contributions = await core.knowledge.reputation(args.agent_id, call.caller)
    return Reputation(score=score, contributions=contributions)
