"""The TOML editor: other tables keep their bytes."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.cli.clients import toml_text
from sidecar.cli.clients.broken import Broken

PATH = ("servers", "ours")
ENTRY = {"url": "http://127.0.0.1:1/mcp", "http_headers": {"A": 'é "quoted"'}, "args": ["a", "b"]}

names = st.text("abc-_1", min_size=1, max_size=5)
scalars = st.sampled_from(
    ["1", "0x10", "true", "1979-05-27", '"x # no comment"', "'\\\\'", "[1, 2, # c\n 3]", '"""a\nb"""']
)
lines = st.builds(lambda value, comment: f"{value}{comment}", scalars, st.sampled_from(["", " # mine", "\t#"]))


@st.composite
def files(draw: st.DrawFn) -> str:
    """A file with tables, other servers among them, comments and blank lines."""
    parts = [f"{key} = {draw(lines)}" for key in draw(st.lists(names, unique=True, max_size=3))]
    heads = [f"t{name}" for name in draw(st.lists(names, unique=True, max_size=3))]
    heads += [f"servers.{name}" for name in draw(st.lists(names, unique=True, max_size=3))]
    for head in draw(st.permutations(heads)):
        parts += [*draw(st.sampled_from([[], [""], ["# above", ""]])), f"[{head}]"]
        parts += [f"{key} = {draw(lines)}" for key in draw(st.lists(names, unique=True, max_size=3))]
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return "\n".join(parts).replace("\n", newline) + draw(st.sampled_from(["", newline]))


def with_entry(text: str, entry: Any) -> dict[str, Any]:
    value = tomllib.loads(text)
    value.setdefault("servers", {})["ours"] = entry
    return value


@given(files())
def test_a_new_table_goes_to_the_end(before: str) -> None:
    after = toml_text.put(before, PATH, ENTRY)
    assert after.startswith(before)
    assert tomllib.loads(after) == with_entry(before, ENTRY)
    assert toml_text.put(after, PATH, ENTRY) == after
    if before.count("\r\n"):
        assert after.count("\n") == after.count("\r\n")


@given(files(), st.booleans())
def test_a_changed_table_leaves_everything_else_as_it_is(before: str, goes: bool) -> None:
    newline = "\r\n" if "\r\n" in before else "\n"
    own = "[servers.ours] # ours\nurl = 'old' # mine\nold = 1\nargs = ['a', 'b']\n".replace("\n", newline)
    head = before + newline + own
    tail = newline + "[after]" + newline + "# last" + newline
    wanted = ENTRY if goes else ENTRY | {"old": 1}
    after = toml_text.put(head + tail, PATH, wanted)
    assert after.startswith(before + newline + "[servers.ours] # ours" + newline)
    assert after.endswith(tail)
    assert tomllib.loads(after) == with_entry(head + tail, wanted)
    assert "args = ['a', 'b']" in after, "what is equal keeps its spelling"
    if newline == "\r\n":
        assert after.count("\n") == after.count("\r\n")


@pytest.mark.parametrize(
    "text", ["servers = {o = {a = 1}}", "servers = 1", "servers.ours = 1", "[[servers]]\na = 1"], ids=str
)
def test_what_can_not_be_entered_without_touching_others_is_refused(text: str) -> None:
    with pytest.raises(Broken):
        toml_text.put(text, PATH, ENTRY)


def test_a_mistake_is_named_with_its_place() -> None:
    with pytest.raises(Broken, match=r"at line 2, column"):
        toml_text.read("a = 1\nb = \n")
