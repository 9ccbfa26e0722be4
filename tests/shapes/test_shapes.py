"""Names, descriptions, schemas and instructions are contracts; each is held by a golden file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from sidecar.arguments import schema_of
from sidecar.contract import Catalogue, Surface, Tool, composite, single
from sidecar.errors import BadConfig
from sidecar.services.core import Core
from sidecar.surfaces import SURFACES

HERE = Path(__file__).parent
CATALOGUES = {"composite": composite(SURFACES), **{surface.name: single(surface) for surface in SURFACES}}


def gates(*, writes: bool, rag: bool = True) -> Core:
    """What the gates of the tools ask, and nothing else."""
    return cast("Core", SimpleNamespace(rag=rag, switches=SimpleNamespace(allow_writes=writes)))


EVERYTHING = gates(writes=True)


def shape(catalogue: Catalogue, core: Core = EVERYTHING) -> dict[str, Any]:
    return {
        "instructions": catalogue.instructions,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input": schema_of(tool.args),
                "output": schema_of(tool.result) if tool.result else None,
            }
            for tool in (offer.tool for offer in catalogue.offers(core))
        ],
    }


@pytest.mark.parametrize("writes", [False, True], ids=["writes off", "writes on"])
@pytest.mark.parametrize("name", CATALOGUES)
def test_the_shape_is_the_golden_one(name: str, writes: bool) -> None:
    golden = HERE / (f"{name}-writes.json" if writes else f"{name}.json")
    text = json.dumps(shape(CATALOGUES[name], gates(writes=writes)), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_SHAPES"):
        golden.write_text(text)
    assert text == golden.read_text(), "a contract changed; UPDATE_SHAPES=1 writes the golden file anew"


def test_a_gate_takes_its_own_tool_away_and_no_other() -> None:
    names = {tool["name"] for tool in shape(composite(SURFACES))["tools"]}
    for core, gated in ((gates(writes=False), "write_note"), (gates(writes=True, rag=False), "semantic_search")):
        assert names - {tool["name"] for tool in shape(composite(SURFACES), core)["tools"]} == {gated}


def test_the_library_is_the_same_whatever_is_switched_on() -> None:
    catalogue = CATALOGUES["library"]
    shapes = [shape(catalogue, gates(writes=writes, rag=rag)) for writes in (False, True) for rag in (False, True)]
    assert all(one == shapes[0] for one in shapes)
    names = [tool["name"] for tool in shapes[0]["tools"]]
    assert names == ["kp_search", "kp_get_note", "kp_related", "kp_recent", "kp_propose", "kp_digest_latest"]


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
def test_results_are_self_contained_closed_and_typed(tool: Tool) -> None:
    if tool.result is None:
        return
    schema = schema_of(tool.result)
    assert schema["type"] == "object"
    assert not [node for node in walk(schema) if "$ref" in node or "$defs" in node]
    Draft202012Validator.check_schema(schema)
    objects = [node for node in walk(schema) if "properties" in node]
    for node in objects:
        assert node["additionalProperties"] is False
        # what may be null is there all the same; only a branch of a search that did not run has no key
        may_miss = {"keyword", "semantic"} if tool.name == "search_rag" else set[str]()
        assert set(node["properties"]) - set(node.get("required", ())) <= may_miss
        assert all("type" in spec or "enum" in spec for spec in node["properties"].values())


@pytest.mark.parametrize("tool", [tool for surface in SURFACES for tool in surface.tools], ids=lambda tool: tool.name)
def test_schemas_are_self_contained_and_closed(tool: Tool) -> None:
    schema = schema_of(tool.args)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert not [node for node in walk(schema) if "$ref" in node]
    assert all("type" in spec or "enum" in spec for spec in schema.get("properties", {}).values())
    assert all(spec.get("description") for spec in schema.get("properties", {}).values())
