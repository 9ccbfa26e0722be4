"""The shapes that params are checked by are those of the protocol's schema."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sidecar.arguments import Shape
from sidecar.editor import shapes
from sidecar.editor.session import OF_A_RUNNING_DAEMON
from tests.editor import law

SHAPES: dict[str, type[Shape]] = {
    "start": shapes.Start,
    "settings/set": shapes.SettingsGiven,
    "connect/get": shapes.ConnectGet,
    "agents/setRemote": shapes.SetRemote,
    "agents/run": shapes.RunAgent,
    "runs/list": shapes.RunsList,
    "runs/cancel": shapes.OfId,
    "provider/setKey": shapes.SetKey,
    "proposals/list": shapes.ProposalsList,
    "proposals/show": shapes.OfId,
    "proposals/apply": shapes.Apply,
    "proposals/reject": shapes.Reject,
    "log/tail": shapes.LogTail,
} | {
    name: shapes.Nothing
    for name in law.METHODS
    if not law.DEFS[f"{name}.params"].get("properties") and "$ref" not in law.DEFS[f"{name}.params"]
}

VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        80,
        500,
        501,
        1000,
        1001,
        1024,
        24783,
        65536,
        -1,
        1.5,
        "",
        "x",
        "http",
        "openai",
        [],
        {},
    ),
    *(
        "x" * 6,
        "x" * 64,
        "x" * 65,
        "x" * 200,
        "x" * 201,
        "x" * 2000,
        "x" * 2001,
        "x" * 4097,
        {"notes": False},
        {"notes": 1},
        {"x": 1},
    ),
]


def test_every_method_has_a_shape() -> None:
    assert set(SHAPES) == set(law.METHODS) - {"hello"}
    assert set(law.METHODS) - {"hello", "start", "status", "log/tail", "diagnostics", "shutdown"} == OF_A_RUNNING_DAEMON
    used = set(SHAPES.values()) | {shapes.SurfacesGiven}
    assert used == {kind for _, kind in inspect.getmembers(shapes, inspect.isclass) if issubclass(kind, Shape)} - {
        Shape
    }


def names(method: str) -> list[str]:
    spec = law.DEFS[f"{method}.params"]
    if "$ref" in spec:
        spec = law.DEFS[spec["$ref"].removeprefix("#/$defs/")]
    return [*spec["properties"], "plum"]


@st.composite
def params(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    method = draw(st.sampled_from(sorted(SHAPES)))
    return method, draw(st.dictionaries(st.sampled_from(names(method)), st.sampled_from(VALUES), max_size=3))


def fits(method: str, value: dict[str, Any]) -> bool:
    try:
        SHAPES[method].model_validate(value)
    except ValidationError:
        return False
    return True


PORTS_ARE_CHECKED_LATER = [0, 1, 80, 500, 501, 1000, 1001, 65536, -1]


@given(params())
def test_a_shape_takes_what_the_schema_takes(case: tuple[str, dict[str, Any]]) -> None:
    method, value = case
    settings = value.get("settings", value)
    if isinstance(settings, dict) and settings.get("port") in PORTS_ARE_CHECKED_LATER:
        return  # by the settings' own rule, which has the better words; see test_settings
    assert fits(method, value) == law.fits(f"{method}.params", value)


@pytest.mark.parametrize("method", sorted(SHAPES))
def test_a_shape_has_the_names_of_the_schema(method: str) -> None:
    assert [*SHAPES[method].model_fields, "plum"] == names(method)
