"""The JSON editor: whatever it is given, all that isn't the entry keeps its bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.cli.clients import jsonc
from sidecar.cli.clients.broken import Broken

PATH = ("servers", "ours")
ENTRY = {"url": "http://127.0.0.1:1/mcp", "headers": {"A": "é"}, "args": ["a", "b"]}

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/|[{}\[\]:]|[^\s{}\[\]:,"/]+', re.DOTALL)


def signs(text: str) -> list[str]:
    """All that a text says, comments included; blanks and commas left out."""
    return _TOKEN.findall(text)


def is_kept(before: str, after: str) -> bool:
    """Is all of `before` in `after`, in its order?"""
    rest = iter(signs(after))
    return all(sign in rest for sign in signs(before))


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
keys = st.text(max_size=8).filter(lambda key: key not in PATH)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)


@st.composite
def texts(draw: st.DrawFn, value: Any) -> str:
    """`value` as a person might have typed it."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    comment = st.text("ab{}\"',:[]* ", max_size=6)

    def gap() -> str:
        kind = draw(st.integers(0, 9))
        if kind == 0:
            return f" //{draw(comment)}{newline}"
        if kind == 1:
            return f"/*{draw(comment).replace('*/', '')}*/ "
        return draw(st.sampled_from(["", "", " ", newline, newline + "\t", newline + "    "]))

    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + joined([f"{json.dumps(k)}{gap()}:{gap()}{write(v)}" for k, v in value.items()]) + "}"
        if isinstance(value, list):
            return "[" + joined([write(item) for item in value]) + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def joined(parts: list[str]) -> str:
        text = gap() + f"{gap()},{gap()}".join(parts) + gap()
        return text + "," + gap() if parts and draw(st.booleans()) else text

    return gap() + write(value) + gap()


@st.composite
def files(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A file's content as a value and as a text; with servers or without, never with our entry."""
    value = draw(st.dictionaries(keys, values, max_size=4))
    if draw(st.booleans()):
        value["servers"] = draw(st.dictionaries(keys, values, max_size=3))
        value = dict(draw(st.permutations(list(value.items()))))
    return value, draw(texts(value))


@given(files())
def test_a_new_entry_leaves_everything_else_as_it_is(file: tuple[dict[str, Any], str]) -> None:
    value, before = file
    assert jsonc.read(before) == value
    after = jsonc.put(before, PATH, ENTRY)
    expected = value | {"servers": value.get("servers", {}) | {"ours": ENTRY}}
    found = jsonc.read(after)
    assert found == expected
    assert list(found) == list(expected)
    assert is_kept(before, after)
    assert jsonc.put(after, PATH, ENTRY) == after


@given(files(), values)
def test_a_changed_member_leaves_everything_else_as_it_is(file: tuple[dict[str, Any], str], new: Any) -> None:
    before = jsonc.put(file[1], PATH, ENTRY)
    after = jsonc.put(before, PATH, ENTRY | {"url": new, "more": new})
    assert jsonc.read(after)["servers"]["ours"] == ENTRY | {"url": new, "more": new}
    assert is_kept(before.replace(json.dumps(ENTRY["url"]), ""), after)


@given(files())
def test_a_member_that_goes_leaves_everything_else_as_it_is(file: tuple[dict[str, Any], str]) -> None:
    with_entry = jsonc.put(file[1], PATH, ENTRY)
    after = jsonc.put(with_entry, PATH, {"command": "x"})
    assert jsonc.read(after)["servers"]["ours"] == {"command": "x"}
    assert is_kept(file[1], after)


def test_writing_the_whole_file_anew_would_be_noticed() -> None:
    """The control: what most programs do fails the property above."""
    before = '{ /* mine */ "a": 1 }'
    anew = json.dumps(jsonc.read(before) | {"servers": {"ours": ENTRY}})
    assert not is_kept(before, anew)
    assert is_kept(before, jsonc.put(before, PATH, ENTRY))


@given(st.text('{}[]":,/*\\ \n\rtrue1-.eE', max_size=30))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    try:
        value = jsonc.read(text)
    except Broken as broken:
        assert re.match(r"line \d+, column \d+: ", str(broken))
        with pytest.raises(Broken):
            jsonc.put(text, PATH, ENTRY)
    else:
        assert isinstance(value, dict)


@given(values)
def test_strict_json_is_read_as_the_library_reads_it(value: Any) -> None:
    assert jsonc.read(json.dumps({"a": value}, indent=1)) == {"a": value}


def cases() -> Iterator[Any]:
    """What stays readable for people: text before and text after."""
    yield pytest.param('{"a": 1}', '{"a": 1, "s": {"x": 1}}', id="one line")
    yield pytest.param('{"a": 1,}', '{"a": 1, "s": {"x": 1},}', id="one line, comma")
    yield pytest.param('{\n\t"a": 1 // c\n}', '{\n\t"a": 1, // c\n\t"s": {\n\t\t"x": 1\n\t}\n}', id="comment behind")
    yield pytest.param("{\n  // c\n}\n", '{\n  // c\n  "s": {\n    "x": 1\n  }\n}\n', id="a comment alone")
    yield pytest.param("{ /* c */ }", '{ /* c */\n  "s": {\n    "x": 1\n  }\n}', id="a comment in one line")
    yield pytest.param('{\n "a": 1}', '{\n "a": 1,\n "s": {\n  "x": 1\n }}', id="brace on the last line")
    yield pytest.param("// c", '// c\n{\n  "s": {\n    "x": 1\n  }\n}\n', id="no object yet")
    yield pytest.param('{"s": {"y": 2}}', '{"s": {"y": 2, "x": 1}}', id="beside another")
    yield pytest.param('{"s":\n{\n"y":2\n}\n}', '{"s":\n{\n"y":2,\n"x": 1\n}\n}', id="no indentation")


@pytest.mark.parametrize(("before", "after"), list(cases()))
def test_what_is_put_in_looks_like_what_is_there(before: str, after: str) -> None:
    wanted = {"y": 2, "x": 1} if "y" in before else {"x": 1}
    assert jsonc.put(before, ("s",), wanted) == after


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1,\n  "b" 2}', "line 2, column 7: a colon is expected"),
        ('{"a": 1\n"b": 2}', "line 2, column 1: a comma or a closing brace is expected"),
        ("{\n'a': 1}", "line 2, column 1: a name in double quotes is expected"),
        ('{"a": [1 2]}', "line 1, column 10: a comma or a closing bracket is expected"),
        ('{"a": }', "line 1, column 7: a value is expected"),
        ('{"a": "b\n"}', "line 1, column 7: a text has no end"),
        ('{"a": NaN}', "line 1, column 7: a value is expected"),
        ("{} x", "line 1, column 4: something follows the end of the object"),
        ("[]", "line 1, column 1: an object in braces is expected"),
        ("{,}", "line 1, column 2: a name in double quotes is expected"),
        ("{} /* x", "line 1, column 4: a comment has no end"),
        ('{"a": 01}', "line 1, column 8: a comma or a closing brace is expected"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, place: str) -> None:
    with pytest.raises(Broken) as broken:
        jsonc.read(text)
    assert str(broken.value) == place


def test_a_name_that_stands_twice_on_the_way_is_refused() -> None:
    for text in ('{"servers": {}, "servers": {}}', '{"servers": {"ours": {}, "ours": {}}}'):
        with pytest.raises(Broken, match="stands there twice"):
            jsonc.put(text, PATH, ENTRY)
    assert jsonc.read(jsonc.put('{"a": 1, "a": 2}', PATH, ENTRY))["servers"] == {"ours": ENTRY}


def test_a_large_file_takes_no_time_that_grows_faster_than_it() -> None:
    history = [{"text": 'x"\\' * 2000, "n": n} for n in range(500)]
    text = json.dumps({"history": history, "servers": {}}, indent=2)
    assert jsonc.read(jsonc.put(text, PATH, ENTRY))["history"] == history
    for endless in ('"' + "a" * 200_000, "/*" + "*" * 200_000, "{" + " " * 200_000, '{"a": "' + "\\" * 200_001):
        with pytest.raises(Broken):
            jsonc.read(endless)
