"""The protocol's schema, as tests hold lines against it."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA: dict[str, Any] = json.loads(
    resources.files("sidecar.bridge").joinpath("pipe-protocol.schema.json").read_text("utf-8")
)
DEFS: dict[str, Any] = SCHEMA["$defs"]
METHODS: list[str] = DEFS["request"]["properties"]["method"]["enum"]
EVENTS: list[str] = DEFS["event"]["properties"]["method"]["enum"]


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    pointer = name.replace("~", "~0").replace("/", "~1")
    return Draft202012Validator({"$ref": f"#/$defs/{pointer}", "$defs": DEFS})


def check(name: str, value: Any) -> None:
    """`value` is what the definition of that name says, or the test fails."""
    _validator(name).validate(value)


def fits(name: str, value: Any) -> bool:
    """Whether `value` is what the definition of that name says."""
    return _validator(name).is_valid(value)
