from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.protocol.json_body import MAX_DEPTH, MAX_VALUES, BadJson, parse
from tests.effort import growth

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_what_json_can_say_comes_back_the_same(value: Any) -> None:
    assert parse(json.dumps(value).encode()) == value
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("opener, closer", [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
def test_a_thousand_levels_are_read_and_one_more_is_not(opener: bytes, closer: bytes) -> None:
    inner = b"1"
    value = parse(opener * MAX_DEPTH + inner + closer * MAX_DEPTH)
    assert value
    with pytest.raises(BadJson, match="1,000"):
        parse(opener * (MAX_DEPTH + 1) + inner + closer * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    "body", [b"[" * 10_000, b'{"a":' * 10_000, b"[" * 10_000 + b"]" * 10_000], ids=["open", "objects", "closed"]
)
def test_ten_thousand_levels_are_refused(body: bytes) -> None:
    with pytest.raises(BadJson):
        parse(body)


def test_brackets_in_text_are_no_levels() -> None:
    text = '[{"\\' * 2000
    assert parse(json.dumps({"text": text}).encode()) == {"text": text}


def test_many_brackets_side_by_side_are_no_levels() -> None:
    assert len(parse(b"[" + b"[]," * 5000 + b"[]]")) == 5001


@pytest.mark.parametrize("unit", [b"[],", b"1,", b"1.5,", b'"",', b'"\\\\",', b"{},"], ids=lambda unit: unit.decode())
def test_half_a_million_values_are_read_and_more_are_not(unit: bytes) -> None:
    per_unit = 2 if unit[0] in b"[{" else 1
    fits = (MAX_VALUES - 3) // per_unit
    assert len(parse(b"[" + unit * fits + b"1]")) == fits + 1
    for too_many in (fits + 3, 3 * fits):
        with pytest.raises(BadJson, match="500,000 values"):
            parse(b"[" + unit * too_many + b"1]")


@pytest.mark.parametrize(
    "text",
    ['["' * 1_000_000, "{,\\" * 500_000, "\\" * 999_999, '\\"' * 500_000],
    ids=["brackets", "commas", "backslashes", "quotes"],
)
def test_a_long_text_is_one_value_whatever_it_holds(text: str) -> None:
    assert parse(json.dumps([text]).encode()) == [text]


@pytest.mark.parametrize(
    "unit", [b'\\"', b'"', b'"\\', b"[", b"]", b"[]", b'"[', b"\\u"], ids=lambda unit: unit.decode()
)
def test_the_time_grows_no_faster_than_the_body(unit: bytes) -> None:
    def refused(count: int) -> None:
        with pytest.raises(BadJson):
            parse(b'"' + b"[" * (MAX_DEPTH + 1) + unit * count)

    # a retry per character would be sixty-four
    assert growth(refused, 50_000, 8, enough=25) <= 25


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"nul", id="nul"),
        pytest.param(b"NaN", id="nan"),
        pytest.param(b'{"a":Infinity}', id="infinity"),
        pytest.param(b"[-Infinity]", id="minus infinity"),
        pytest.param(b"1e999", id="float out of range"),
        pytest.param(b"1" * 5000, id="long integer"),
        pytest.param(b'"\xff"', id="not UTF-8"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', id="BOM"),
        pytest.param('{"a":1}'.encode("utf-16"), id="UTF-16"),
        pytest.param('{"a":1}'.encode("utf-16-le"), id="UTF-16 without BOM"),
        pytest.param('{"a":1}'.encode("utf-32"), id="UTF-32"),
        pytest.param(b'"\\ud800"', id="half a pair"),
        pytest.param(b'{"\\udfff":1}', id="half a pair in a key"),
        pytest.param(b"[1] [2]", id="two values"),
        pytest.param(b'{"a":1,}', id="trailing comma"),
        pytest.param(b"'a'", id="single quotes"),
        pytest.param(b'"\x00"', id="NUL"),
    ],
)
def test_what_is_no_json_is_refused_without_quoting_it(body: bytes) -> None:
    with pytest.raises(BadJson) as refused:
        parse(body)
    assert len(str(refused.value)) < 80


def test_a_whole_pair_of_surrogates_is_one_character() -> None:
    assert parse(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


def test_of_equal_keys_the_last_one_counts() -> None:
    assert parse(b'{"method":"a","method":"b"}') == {"method": "b"}
