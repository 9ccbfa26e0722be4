from __future__ import annotations

import json

import pytest

from sidecar.vault import frontmatter
from sidecar.vault.frontmatter import Json


@pytest.mark.parametrize(
    ("text", "block", "body"),
    [
        pytest.param("---\na: 1\n---\nbody\n", "a: 1\n", "body\n", id="plain"),
        pytest.param("---\r\na: 1\r\n---\r\nbody\r\n", "a: 1\r\n", "body\r\n", id="crlf"),
        pytest.param("---\na: 1\n---", "a: 1\n", "", id="closed-at-the-end"),
        pytest.param("---\na: 1\r\n---\r", "a: 1\r\n", "", id="closed-by-cr-at-the-end"),
        pytest.param("--- \t\na: 1\n---  \nbody", "a: 1\n", "body", id="blanks-behind-the-fences"),
        pytest.param("---\na: 1\n...\nbody", "a: 1\n", "body", id="dots"),
        pytest.param("---\n---\nbody", "", "body", id="empty"),
        pytest.param("---\n\n---\n", "\n", "", id="blank"),
        pytest.param("---\na: b\n---\n---\nc: d\n---\n", "a: b\n", "---\nc: d\n---\n", id="second-block-is-body"),
        pytest.param("---\na: ---\n ---\n----\n--- x\n---\nb", "a: ---\n ---\n----\n--- x\n", "b", id="lookalikes"),
        pytest.param("---\ntitle: never closed\n\nbody\n", None, None, id="unclosed"),
        pytest.param("---", None, None, id="opening-alone"),
        pytest.param("---\n", None, None, id="opening-line-alone"),
        pytest.param("\n---\na: 1\n---\n", None, None, id="not-on-the-first-line"),
        pytest.param(" ---\na: 1\n---\n", None, None, id="indented"),
        pytest.param("----\na: 1\n----\n", None, None, id="four-dashes"),
        pytest.param("--- a\na: 1\n---\n", None, None, id="text-behind"),
        pytest.param("---\ra: 1\r---\r", None, None, id="lone-cr"),
        pytest.param("", None, None, id="nothing"),
    ],
)
def test_only_a_closed_block_at_the_very_start_is_frontmatter(text: str, block: str | None, body: str | None) -> None:
    found = frontmatter.split(text)
    assert found.block == block
    assert text[found.body_start :] == (text if body is None else body)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *((word, word) for word in ("no", "NO", "yes", "on", "off", "y", "n", "tRUE", "2026-04-05", "1:59:59", "0o17")),
        *(
            (word, word)
            for word in ("2026-04-05T10:00:00Z", "1.10", "007", "-0", "+1", "1e5", ".5", "5.", ".inf", ".nan")
        ),
        *((word, word) for word in ("1" * 16, "1_000", "0x1F", "0b1", "=", "<<", "１２", "1.0000000000000001")),
        ("1" * 5000, "1" * 5000),
        ("0", 0),
        ("12", 12),
        ("-5", -5),
        ("123456789012345", 123456789012345),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'12'", "12"),
        ('"true"', "true"),
        ("''", ""),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 12", 12),
        ("[a, 1, null, [b]]", ["a", 1, None, ["b"]]),
        ("{b: {c: 1}}", {"b": {"c": 1}}),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_values_are_what_stands_there_and_safe_for_json(written: str, value: Json) -> None:
    properties = frontmatter.read(f"a: {written}\n")
    assert properties.values == {"a": value}
    assert type(properties.value("a")) is type(value)
    assert properties.warnings == ()
    assert json.loads(json.dumps(properties.values, allow_nan=False)) == properties.values


@pytest.mark.parametrize(
    ("written", "text"), [("no", "no"), ("1.10", "1.10"), ("20240425", "20240425"), ("True", "True"), ("'x'", "x")]
)
def test_the_text_of_a_single_value_is_kept_as_written(written: str, text: str) -> None:
    assert list(frontmatter.read(f"Title: {written}").written("title")) == [text]


def test_lists_and_nulls_have_no_single_text() -> None:
    properties = frontmatter.read("a: [x]\nb: null\nc:\nd: {e: f}\ng: ''\nh: yes\n")
    assert list(properties.written(*"abcdgh")) == ["", "yes"]


def test_keys_become_text() -> None:
    assert frontmatter.read("1: a\n2026-04-05: b\ntrue: c\nnull: d\n'': e\n").values == {
        "1": "a", "2026-04-05": "b", "true": "c", "null": "d", "": "e",
    }  # fmt: skip


def test_keys_are_found_without_case_and_the_small_letters_win() -> None:
    properties = frontmatter.read("TAG: [x]\ntitle: b\nTitle: a\nALIASES: c\n")
    assert properties.value("tags", "tag") == ["x"]
    assert properties.value("title") == "b"
    assert list(properties.written("title", "aliases")) == ["b", "c"]
    assert "aliases" in properties
    assert "Aliases" not in properties
    assert list(properties.values) == ["TAG", "title", "Title", "ALIASES"]
    shadowed = frontmatter.read("Title: a\ntitle: [b]\n")
    assert (shadowed.value("title"), list(shadowed.written("title"))) == (["b"], [])


def test_a_key_given_twice_counts_last_and_costs_a_warning() -> None:
    properties = frontmatter.read("title: one\nx: {a: 1, a: 2}\ntitle: [two]\n")
    assert properties.values == {"title": ["two"], "x": {"a": 2}}
    assert list(properties.written("title")) == []
    assert properties.warnings == (
        "frontmatter line 3: the key was given before; the last value counts",
        "frontmatter line 4: the key was given before; the last value counts",
    )


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        pytest.param("title:\tTabbed\n\tbad: 1", "line 3: no valid YAML", id="tab"),
        pytest.param("aliases:\n- @someone", "line 3: no valid YAML", id="at"),
        pytest.param("created: {{date}}\n", "line 2: a key is a list or a map", id="template"),
        pytest.param("x: 1\n? [a]\n: b\n", "line 3: a key is a list or a map", id="list-key"),
        pytest.param("title: <% tp.file.title %>\nx: %y\n", "line 3: no valid YAML", id="percent"),
        pytest.param("a: &a [x]\nb: *a", "line 2: anchors are not read", id="N02"),
        pytest.param("&a [*a]", "line 2: anchors are not read", id="N03"),
        pytest.param("a: 1\nb: *a\n", "line 3: aliases are not read", id="alias"),
        pytest.param("a: !!python/object/apply:os.system [echo]", "line 2: an unknown tag", id="N04"),
        pytest.param("a: !foo x", "line 2: an unknown tag", id="N05"),
        pytest.param("a: !!binary aGk=", "line 2: an unknown tag", id="binary"),
        pytest.param("!!set {a, b}", "line 2: an unknown tag", id="set"),
        pytest.param("a:\n  - " + "[" * 25 + "]" * 25, "line 3: nested too deep", id="deep"),
        pytest.param("--- x\n--- y\n", "line 3: more than one YAML document", id="documents"),
        pytest.param("a: \x07", "no valid YAML", id="control"),
        pytest.param('a: "\\ud800"', "line 2: no valid YAML", id="surrogate"),
        pytest.param("a: \ud800", "no valid YAML", id="raw-surrogate"),
        pytest.param("- a\n- b\n", "it is not a list of properties", id="N10-list"),
        pytest.param("only text\n", "it is not a list of properties", id="N10-text"),
    ],
)
def test_a_block_that_can_not_be_used_is_empty_and_says_why(block: str, reason: str) -> None:
    properties = frontmatter.read(block)
    assert properties.values == {}
    assert properties.warnings == (f"the frontmatter is not read: {reason}",)


def test_an_empty_block_costs_no_warning() -> None:
    for block in ("", "\n\n", "# only a comment\n", "null\n", "{}"):
        assert frontmatter.read(block) == frontmatter.Frontmatter()


def test_a_block_of_64_kib_is_read_and_a_larger_one_is_not() -> None:
    block = "a: " + "x" * (frontmatter.MAX_BYTES - 3)
    assert frontmatter.read(block).warnings == ()
    for larger in (block + "x", "a: " + "é" * (frontmatter.MAX_BYTES // 2)):
        properties = frontmatter.read(larger)
        assert properties.values == {}
        assert properties.warnings == ("the frontmatter has more than 64 KiB and is not read",)


def test_no_warning_tells_content() -> None:
    secret = "pomegranate"
    for block in (f"- {secret}", f"{secret}: *{secret}", f"a: !{secret} x", f"{secret}: 1\n{secret}: 2", f"@{secret}"):
        warnings = frontmatter.read(block).warnings
        assert warnings
        assert not any(secret in warning for warning in warnings)
