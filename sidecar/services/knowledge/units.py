"""Prepares a knowledge unit for the store: its canonical form, what is filled in, and the words it is found by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from sidecar.bridge.token import Caller
from sidecar.errors import BadArguments
from sidecar.services.knowledge import json_limits, unit_schema
from sidecar.services.knowledge.scrub import Scrubber

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 100
CONTEXT: Final = "https://vault-sidecar.invalid/knowledge/v1"
"""Names the schema version where a unit names none."""
SCHEMA_VERSION: Final = "1"

_NOT_CANONICAL: Final = ("created_at", "quality_score", "visibility", "validated_by")

# what is the same in every unit, or is no language: it would hit in all of them
_NO_WORDS: Final = frozenset(("@context", "@type", "id"))
_NO_WORDS_IN: Final = {
    "metadata": frozenset(("created_at", "visibility", "privacy_level", "validated_by", "quality_score")),
    "steps": frozenset(("type",)),
    "tool_sequence": frozenset(("execution",)),
    "source": frozenset(("type",)),
}


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that may be stored. `content` has everything filled in but what the store computes."""

    kind: str
    given_id: str | None
    """The unit's own id as the contributor gave it."""
    domain: str
    credited: str
    content: dict[str, Any]
    checksum: bytes
    """Of the canonical form without the id."""
    success: bool


def read(raw: Mapping[str, Any], scrubber: Scrubber, caller: Caller, now: str) -> Unit:
    """The unit in an argument, scrubbed and checked. Blocks for some tenths of a second where it is large.

    Raises:
        TooLarge: more than 1 MiB.
        BadArguments: it does not fit its schema; one line per mistake.
    """
    json_limits.check("unit", raw, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH)
    given = raw.get("metadata")
    is_private = isinstance(given, dict) and cast("dict[str, Any]", given).get("privacy_level") == "private"
    unit = cast("dict[str, Any]", scrubber.json(dict(raw), personal=not is_private))
    unit_schema.check(unit)
    kind: str = unit["@type"]
    metadata: dict[str, Any] = unit["metadata"]
    if not metadata["task_domain"].strip():
        raise BadArguments("unit.metadata.task_domain: must not be empty.")
    filled = {"created_at": now, "agent_id": caller.agent_id, "privacy_level": "aggregated"}
    content: dict[str, Any] = {
        "@context": unit.get("@context", CONTEXT),
        "@type": kind,
        "id": unit.get("id", ""),
        "metadata": {**filled, **metadata},
        **{key: value for key, value in unit.items() if key not in ("@context", "@type", "id", "metadata")},
    }
    return Unit(
        kind,
        unit.get("id"),
        metadata["task_domain"].strip(),
        content["metadata"]["agent_id"],
        content,
        _checksum(content),
        metadata["success"],
    )


def _checksum(content: Mapping[str, Any]) -> bytes:
    """SHA-256 of the canonical JSON, without what the store fills in or computes, and without the id."""
    metadata = {key: value for key, value in content["metadata"].items() if key not in _NOT_CANONICAL}
    canonical = {**content, "metadata": metadata}
    del canonical["id"]
    text = json.dumps(canonical, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def words(content: Mapping[str, Any]) -> str:
    """The texts of a unit by which it is found, each once, a line each; the first line says what it is about."""
    about: str = content["name"] if "name" in content else content["task"]["objective"]
    domain = content["metadata"]["task_domain"].strip()
    lines = dict.fromkeys((f"{domain}: {about}", *_texts(content)))
    lines.pop(about, None)
    lines.pop(domain, None)
    return "\n".join(lines)


def _texts(content: Mapping[str, Any]) -> Iterator[str]:
    # facts about the unit come last: a model reads the beginning only
    for key, value in sorted(content.items(), key=lambda item: item[0] == "metadata"):
        if key in _NO_WORDS:
            continue
        entries = cast("list[Any]", value) if isinstance(value, list) else [value]
        left_out = _NO_WORDS_IN.get(key, frozenset())
        for entry in entries:
            if left_out and isinstance(entry, dict):
                known = cast("dict[str, Any]", entry)
                entry = {name: held for name, held in known.items() if name not in left_out}
            yield from _strings(entry, free=False)


def _strings(value: Any, *, free: bool) -> Iterator[str]:
    """Every text in a value; keys too where they are the contributor's own words (`free`)."""
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(item, free=free)
    elif isinstance(value, dict):
        for key, held in cast("dict[str, Any]", value).items():
            if free:
                yield key
            yield from _strings(held, free=key in ("criteria", "conditions"))


def version_of(text: str) -> str:
    """`1`, `1.0`, `v1` and `v1.0` are one version; others are what they are."""
    bare = text.strip().lower().removeprefix("v").removesuffix(".0")
    return bare or text.strip()
