"""Checks a knowledge unit against the schemas that this package carries, and says what is wrong at which place.

The type picks the one schema that counts, so that the mistakes of the others
are not told. Nothing is fetched: each schema stands alone. Blocks, for some
tenths of a second where a unit is large.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, cast

from sidecar.errors import BadArguments
from sidecar.vault.paths import echo

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

TYPES: Final = ("ReasoningTrace", "ToolCallPattern", "ExpertSOP")
MOST_LINES: Final = 10

_FILES: Final[Mapping[str, str]] = {
    "ReasoningTrace": "reasoning-trace",
    "ToolCallPattern": "tool-call-pattern",
    "ExpertSOP": "expert-sop",
}
_LISTS: Final[Mapping[str, str]] = {
    "ReasoningTrace": "steps",
    "ToolCallPattern": "tool_sequence",
    "ExpertSOP": "decision_tree",
}
OWN_IDS: Final[Mapping[str, str]] = {
    "ReasoningTrace": "kp:trace:",
    "ToolCallPattern": "kp:pattern:",
    "ExpertSOP": "kp:sop:",
}
"""What a unit's own id begins with."""

_MOST_ENTRIES: Final = 1000
_INSTANT: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.\d{1,12})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_PATTERNS: Final = {
    "id": "must begin with {} and hold no blanks",
    "@context": "must name schema version 1, such as https://example.com/kp/v1",
}


def check(unit: Mapping[str, Any]) -> None:
    """Does the unit fit the schema of its type?

    Raises:
        BadArguments: no; a line for each mistake with its place, ten at most.
    """
    kind = unit.get("@type")
    if not isinstance(kind, str) or kind not in TYPES:
        raise BadArguments(f"unit.@type: must be one of {', '.join(TYPES)}.")
    entries = unit.get(_LISTS[kind])
    if isinstance(entries, list) and len(cast("list[Any]", entries)) > _MOST_ENTRIES:  # not each of them is looked at
        raise BadArguments(f"unit.{_LISTS[kind]}: at most {_MOST_ENTRIES:,} entries.")
    lines: dict[str, None] = {}
    for error in _validator(kind).iter_errors(unit):
        lines.update(dict.fromkeys(_lines(error, kind)))
        if len(lines) >= MOST_LINES:
            break
    if lines:
        raise BadArguments("\n".join(itertools.islice(lines, MOST_LINES)))


@functools.cache
def _validator(kind: str) -> Validator:
    # importing it takes longer than all else that a start does
    from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators

    formats = FormatChecker(formats=())
    formats.checks("date-time")(_is_instant)

    def pattern(_: Any, regex: str, instance: Any, __: Any) -> Iterator[ValidationError]:
        # in JSON Schema `$` is the end of the text, in Python also a place before a last line end
        if isinstance(instance, str) and not re.search(regex.removesuffix("$") + r"\Z", instance):
            yield ValidationError("pattern")

    extended = cast("Any", validators).extend(Draft202012Validator, {"pattern": pattern})
    path = resources.files(__package__ or "") / "schemas" / f"{_FILES[kind]}.json"
    return cast("Validator", extended(json.loads(path.read_text("utf-8")), format_checker=formats))


def _is_instant(value: object) -> bool:
    if not isinstance(value, str):
        return True
    found = _INSTANT.fullmatch(value)
    if found is None:
        return False
    try:
        datetime.fromisoformat(f"{found[1]}T{found[2].replace(':60', ':59')}{found[3].upper()}")
    except ValueError:
        return False
    return True


def _lines(error: ValidationError, kind: str) -> Iterator[str]:
    schema = cast("Mapping[str, Any]", error.schema)
    rule, wanted = str(error.validator), cast("Any", error.validator_value)
    path = list(error.absolute_path)
    place = _place(path)
    match rule:
        case "required":
            missing = [name for name in wanted if name not in cast("Mapping[str, Any]", error.instance)]
            yield from (f"{_place([*path, name])}: is required." for name in missing)
        case "additionalProperties":
            known = cast("Mapping[str, Any]", schema.get("properties", {}))
            extra = (name for name in cast("Mapping[str, Any]", error.instance) if name not in known)
            for name in itertools.islice(extra, MOST_LINES):
                yield f"{_place([*path, name])}: is not a key of the schema."
        case "type" | "anyOf":
            yield f"{place}: must be {_described(schema)}."
        case "enum":
            yield f"{place}: must be one of {', '.join(map(str, wanted))}."
        case "const":
            yield f"{place}: must be {wanted}."
        case "minLength":
            yield f"{place}: must not be empty."
        case "maxLength":
            yield f"{place}: at most {wanted:,} characters."
        case "minItems":
            yield f"{place}: must have at least one entry."
        case "maxItems":
            yield f"{place}: at most {wanted:,} entries."
        case "minimum" | "maximum":
            yield f"{place}: must be {_described(schema)}."
        case "pattern":
            yield f"{place}: {_PATTERNS[str(path[-1])].format(OWN_IDS[kind])}."
        case "format":
            yield f"{place}: must be a point in time such as 2026-11-30T11:12:00Z."
        case _:
            raise AssertionError(f"no sentence for the rule {rule}")


def _place(path: Sequence[str | int]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{echo(part)}" for part in path)
    return "unit" + "".join(parts)


def _described(schema: Mapping[str, Any]) -> str:
    """What is right, in words."""
    if "anyOf" in schema:
        return " or ".join(_described(option) for option in schema["anyOf"])
    low, high = schema.get("minimum"), schema.get("maximum")
    span = f" from {low} to {high}" if high is not None else f" of {low} or more" if low is not None else ""
    match schema["type"]:
        case "integer":
            return f"a whole number{span}"
        case "number":
            return f"a number{span}"
        case "boolean":
            return "true or false"
        case "string":
            return "text"
        case "array":
            return "a list of text" if schema.get("items") == {"type": "string"} else "a list"
        case _:
            is_map = schema.get("additionalProperties") == {"type": "string"}
            return "an object of text" if is_map else "an object"
