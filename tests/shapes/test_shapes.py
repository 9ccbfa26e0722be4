"""Names, descriptions, schemas and instructions are contracts; each is held by a golden file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sidecar.arguments import schema_of
from sidecar.contract import Catalogue, Surface, Tool, composite, single
from sidecar.errors import BadConfig
from sidecar.surfaces import SURFACES

HERE = Path(__file__).parent
CATALOGUES = {"composite": composite(SURFACES), **{surface.name: single(surface) for surface in SURFACES}}


def shape(catalogue: Catalogue) -> dict[str, Any]:
    return {
        "instructions": catalogue.instructions,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input": schema_of(tool.args),
                "output": schema_of(tool.result) if tool.result else None,
            }
            for surface in catalogue.surfaces
            for tool in surface.tools
        ],
    }


@pytest.mark.parametrize("name", CATALOGUES)
def test_the_shape_is_the_golden_one(name: str) -> None:
    golden = HERE / f"{name}.json"
    text = json.dumps(shape(CATALOGUES[name]), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_SHAPES"):
        golden.write_text(text)
    assert text == golden.read_text(), "a contract changed; UPDATE_SHAPES=1 writes the golden file anew"


def test_the_composite_is_the_union_of_its_surfaces() -> None:
    parts = [tool for surface in SURFACES for tool in shape(single(surface))["tools"]]
    assert shape(composite(SURFACES))["tools"] == parts


def test_one_tool_name_on_two_surfaces_is_refused() -> None:
    surface = SURFACES[0]
    twin = Surface("twin", "", (surface.tools[0],))
    with pytest.raises(BadConfig, match=surface.tools[0].name):
        composite([surface, twin])


def test_the_composite_list_is_small_enough_for_every_client() -> None:
    assert len(json.dumps(shape(composite(SURFACES))["tools"])) < 20_000


def walk(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, dict):
        return [node, *(found for value in node.values() for found in walk(value))]
    return [found for value in node for found in walk(value)] if isinstance(node, list) else []


@pytest.mark.parametrize("tool", [tool for surface in SURFACES for tool in surface.tools], ids=lambda tool: tool.name)
def test_schemas_are_self_contained_and_closed(tool: Tool) -> None:
    schema = schema_of(tool.args)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert not [node for node in walk(schema) if "$ref" in node]
    assert all("type" in spec or "enum" in spec for spec in schema.get("properties", {}).values())
    assert all(spec.get("description") for spec in schema.get("properties", {}).values())
