from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.vault.ignore import IgnoreRules
from sidecar.vault.paths import VaultPath


def ignores(rules: str, path: str) -> bool:
    is_folder = path.endswith("/")
    return IgnoreRules.parse(rules).ignores(VaultPath(path.removesuffix("/")), is_folder)


@pytest.mark.parametrize(
    ("rules", "ignored", "kept"),
    [
        pytest.param("", [], ["a.md", "a/b.md", "a/"], id="nothing"),
        pytest.param("# a.md\n\n   \n", [], ["a.md", "# a.md"], id="comments"),
        pytest.param(
            "a.md", ["a.md", "x/a.md", "x/y/a.md", "a.md/", "a.md/b.md"], ["ba.md", "a.mdx", "A.md"], id="name"
        ),
        pytest.param(
            "Templates/",
            ["Templates/", "x/Templates/", "x/Templates/y/a.md"],
            ["Templates", "xTemplates/"],
            id="folder",
        ),
        pytest.param("/a.md", ["a.md"], ["x/a.md"], id="anchored"),
        pytest.param("x/a.md", ["x/a.md"], ["y/x/a.md", "a.md"], id="slash-inside-anchors"),
        pytest.param("x/y/", ["x/y/", "x/y/z.md"], ["x/y", "z/x/y/", "x/"], id="anchored-folder"),
        pytest.param("*.tmp.md", ["a.tmp.md", "x/.tmp.md", "x/b.tmp.md"], ["tmp.md", "a.tmp.md.x"], id="star"),
        pytest.param("x/*", ["x/a.md", "x/y/", "x/y/b.md"], ["x/", "y/x/a.md"], id="star-stays-in-a-name"),
        pytest.param("x/*/a.md", ["x/y/a.md"], ["x/a.md", "x/y/z/a.md"], id="star-is-one-segment"),
        pytest.param("2?.md", ["21.md", "x/2é.md"], ["2.md", "212.md", "2/.md"], id="question-mark"),
        pytest.param(
            "x/**/a.md", ["x/a.md", "x/y/a.md", "x/y/z/a.md"], ["a.md", "x/a.mdx", "w/x/a.md"], id="two-stars-inside"
        ),
        pytest.param("**/a.md", ["a.md", "x/a.md", "x/y/a.md"], ["ba.md"], id="two-stars-first"),
        pytest.param("x/**", ["x/a.md", "x/y/", "x/y/b.md"], ["x/", "y/x/a.md"], id="two-stars-last"),
        pytest.param("**", ["a.md", "x/", "x/y.md"], [], id="everything"),
        pytest.param("a/**/b/**/c.md", ["a/b/c.md", "a/x/b/y/z/c.md", "a/b/b/c.md"], ["a/c.md", "b/c.md"], id="runs"),
        pytest.param("**/b*/c", ["a/b/c", "b1/c", "x/b/b2/c/"], ["b/c1", "c"], id="run-with-star"),
        pytest.param("a**b.md", ["ab.md", "axxb.md"], ["a/b.md"], id="two-stars-in-a-name"),
        pytest.param("!a.md", ["!a.md"], ["a.md"], id="no-negation"),
        pytest.param("a[b]+(c).md", ["a[b]+(c).md"], ["ab+c.md", "abbc.md"], id="no-other-specials"),
        pytest.param("a.md  \r\n b/ \r\n", ["a.md", "b/"], ["b"], id="crlf-and-blanks"),
        pytest.param("\ufeffa.md", ["a.md"], [], id="bom"),
        pytest.param("/\n//\n", [], ["a.md", "a/"], id="slashes-alone"),
        pytest.param("a//b.md", ["a/b.md"], [], id="two-slashes"),
        pytest.param("u\u0308.md", ["ü.md", "u\u0308.md"], ["u.md"], id="unicode-form"),
        pytest.param("ü/", ["u\u0308/x.md"], [], id="unicode-form-folder"),
    ],
)
def test_what_a_rule_names(rules: str, ignored: list[str], kept: list[str]) -> None:
    assert [path for path in ignored if not ignores(rules, path)] == []
    assert [path for path in kept if ignores(rules, path)] == []


def test_the_vault_itself_is_never_ignored() -> None:
    assert not IgnoreRules.parse("**\n*\n/\n").ignores(VaultPath.root(), is_folder=True)


def test_too_many_and_too_long_rules_are_counted() -> None:
    rules = IgnoreRules.parse("".join(f"n{i}.md\n" for i in range(505)))
    assert rules.left_out == 5
    assert rules.ignores(VaultPath("n499.md"), is_folder=False)
    assert not rules.ignores(VaultPath("n500.md"), is_folder=False)
    assert IgnoreRules.parse("a.md\n" + "x" * 20_000 + "\n").left_out == 1


@pytest.mark.parametrize(
    "rule",
    [
        "*a" * 400 + "b",
        "?*" * 400 + "b",
        "**/" * 300 + "b",
        "a/**/" * 190 + "b",
        "/**/*a*a*a*a*b/**/*a*a*b" * 20,
        "*" * 900,
    ],
)
def test_a_hostile_rule_takes_no_long_time(rule: str) -> None:
    rules = IgnoreRules.parse(rule)
    texts = ["a" * 250, "/".join(["a"] * 200), "/".join(["a" * 250] * 15), "b" * 250 + "a"]
    started = time.thread_time()
    for text in texts:
        rules.ignores(VaultPath(text), is_folder=False)
    assert time.thread_time() - started < 5  # about 10 ms


def matches_slowly(rule: str, text: str) -> bool:
    """The meaning of a rule, told by trying everything; for one path, folders above it left out."""
    rule = re.sub("/+", "/", rule).removesuffix("/")
    segments = rule.removeprefix("/").split("/") if "/" in rule else ["**", rule]

    def name(glob: str, word: str) -> bool:
        if not glob:
            return not word
        if glob[0] == "*":
            return name(glob[1:], word) or (bool(word) and name(glob, word[1:]))
        return bool(word) and glob[0] in ("?", word[0]) and name(glob[1:], word[1:])

    def path(globs: list[str], words: list[str]) -> bool:
        if not globs:
            return not words
        if globs[0] == "**":
            if len(globs) == 1:
                return bool(words)
            return path(globs[1:], words) or (bool(words) and path(globs, words[1:]))
        return bool(words) and name(globs[0], words[0]) and path(globs[1:], words[1:])

    return path(segments, text.split("/"))


@given(
    rule=st.text("ab*?/", min_size=1, max_size=12).filter(lambda rule: rule.strip("/")),
    path=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5).map("/".join),
)
def test_settled_matches_are_the_ones_that_trying_everything_finds(rule: str, path: str) -> None:
    assert IgnoreRules.parse(rule).names(path, is_folder=True) == matches_slowly(rule, path)
