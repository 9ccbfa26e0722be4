"""Checks a caller's arguments against the schema the caller was shown.

The pydantic model of a tool is the one source: its JSON schema is advertised,
and the sentences about mistakes are made from that same schema. Tool handlers
and REST routes go through `check`, so both answer alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from sidecar.errors import BadArguments

Numbers = Literal["refuse", "clamp"]
"""What becomes of a number out of range: a mistake, or the nearest allowed one (and its default if it is no number)."""

Nulls = Literal["refuse", "absent"]
"""What becomes of `null` for an argument that may be left out: a mistake, or as if it were."""

Query = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
"""Plain text to look for: 1 to 2,000 characters after trimming. Never a pattern, a path or SQL."""


class Shape(BaseModel):
    """A tool's arguments or result: strict, frozen, extra fields refused."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


ShapeT = TypeVar("ShapeT", bound=Shape)


@functools.cache
def schema_of(shape: type[Shape]) -> dict[str, Any]:
    """The JSON schema of a shape, self-contained: no `$ref`, no generated titles. Do not change the returned value."""
    raw = shape.model_json_schema()
    raw.pop("description", None)  # the docstring is for us; a tool has a description of its own
    return cast("dict[str, Any]", _inline(raw, raw.get("$defs", {})))


def _inline(node: Any, defs: dict[str, Any], *, names: bool = False) -> Any:
    """Replace references by what they point to; `names` says that the keys of `node` are property names."""
    if isinstance(node, list):
        return [_inline(item, defs) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    found = cast("dict[str, Any]", node)
    if not names and "$ref" in found:
        target = {**defs[str(found["$ref"]).rsplit("/", 1)[-1]]}
        target.pop("description", None)
        found = {**target, **{k: v for k, v in found.items() if k != "$ref"}}
    inlined = {
        key: _inline(value, defs, names=not names and key == "properties")
        for key, value in found.items()
        if names or (key not in ("$defs", "title") and not (key == "description" and value == ""))
    }
    return inlined if names else _nullable(inlined)


def _nullable(found: dict[str, Any]) -> dict[str, Any]:
    """What is of one type or null, with both as its type: many clients read that, and not all of them `anyOf`."""
    options = cast("list[dict[str, Any]]", found.get("anyOf", []))
    others = [option for option in options if option != {"type": "null"}]
    if len(options) != 2 or len(others) != 1 or not isinstance(others[0].get("type"), str):
        return found
    one = {**others[0], "type": [others[0]["type"], "null"]}
    if "enum" in one:
        one["enum"] = [*one["enum"], None]
    return {**{key: value for key, value in found.items() if key != "anyOf"}, **one}


def check(
    shape: type[ShapeT], raw: Mapping[str, Any], *, owner: str, numbers: Numbers = "refuse", nulls: Nulls = "refuse"
) -> ShapeT:
    """The arguments of `owner` (a tool's or route's name) as a `shape`.

    Raises:
        BadArguments: one line per mistake, in the order of the schema, unknown arguments last.
    """
    properties = cast("dict[str, dict[str, Any]]", schema_of(shape).get("properties", {}))
    needed = schema_of(shape).get("required", ())
    prepared: dict[str, Any] = {}
    for name, value in raw.items():
        if value is None and nulls == "absent" and name in properties and name not in needed:
            continue
        spec = properties.get(name, {})
        kept = _prepared(value, spec, numbers)
        if kept is not _LEFT_OUT:
            prepared[name] = kept
    try:
        return shape.model_validate(prepared)
    except ValidationError as bad:
        order = {name: place for place, name in enumerate(properties)}
        lines: dict[str, int] = {}
        for error in bad.errors(include_url=False, include_context=True, include_input=False):
            place = [str(part) for part in error["loc"]]
            known = order.get(place[0], len(order)) if place else len(order)
            lines.setdefault(_sentence(owner, place, error["type"], properties), known)
        raise BadArguments("\n".join(sorted(lines, key=lambda line: lines[line]))) from None


_LEFT_OUT = object()


def _prepared(value: Any, spec: dict[str, Any], numbers: Numbers) -> Any:
    """An integral JSON number is a whole number however it is written; on clamping surfaces no number is a mistake."""
    if spec.get("type") != "integer":
        return value
    # only a float can be infinite, and a very large whole number can't be made one to find out
    is_number = math.isfinite(value) if isinstance(value, float) else type(value) is int
    if numbers == "refuse":
        return int(value) if is_number and isinstance(value, float) and value.is_integer() else value
    if not is_number:
        return _LEFT_OUT  # the default takes its place
    cut = int(value)
    return max(spec.get("minimum", cut), min(cut, spec.get("maximum", cut)))


def _sentence(owner: str, place: list[str], kind: str, properties: dict[str, dict[str, Any]]) -> str:
    name = ".".join(place[:1] + [part for part in place[1:] if not part.isdigit()]) or "arguments"
    if kind == "extra_forbidden" and len(place) == 1:
        return f"{_echo(name)}: is not an argument of {owner}."
    if kind == "extra_forbidden":
        return f"{place[0]}: has a key that is not allowed."
    spec = _spec(place, properties)
    least = {"string_too_short": "minLength", "too_short": "minItems"}.get(kind, "")
    if kind == "missing" or spec.get(least) == 1:
        return f"{name}: is required."
    if kind == "string_too_long":
        return f"{name}: at most {spec.get('maxLength', 0):,} characters."
    return f"{name}: must be {_wanted(spec)}."


def _spec(place: list[str], properties: dict[str, dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = properties.get(place[0], {}) if place else {}
    for part in place[1:]:
        spec = spec.get("items", {}) if part.isdigit() else spec.get("properties", {}).get(part, {})
    return spec


def _wanted(spec: dict[str, Any]) -> str:
    """What is right, in words, from a property's schema."""
    if "enum" in spec:
        return "one of " + ", ".join(str(value) for value in spec["enum"] if value is not None)
    options = [option for option in spec.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        return " or ".join(_wanted(option) for option in options)
    low, high = spec.get("minimum"), spec.get("maximum")
    span = f" from {low:,} to {high:,}" if low is not None and high is not None else ""
    kind: str | list[str] = spec.get("type", "")
    match kind if isinstance(kind, str) else kind[0]:
        case "integer":
            return "a whole number" + span
        case "number":
            return "a number" + span
        case "boolean":
            return "true or false"
        case "array":
            least, most = spec.get("minItems"), spec.get("maxItems")
            return f"a list of {least or 0:,} to {most:,} entries" if most is not None else "a list"
        case "object":
            return "an object"
        case _:
            return "text"


def _echo(name: str) -> str:
    """A caller's own word, cut and without control characters, safe to print back."""
    return "".join(c if c.isprintable() else "�" for c in name[:80])
