from __future__ import annotations

import pytest

from sidecar.vault.markdown import MAX_LINKS, MAX_TAGS, Link, clean_tag, marks, unique_tags
from sidecar.vault.paths import VaultPath

ROOT = VaultPath.root()


def tags(body: str) -> list[str]:
    return marks(body, ROOT).tags


def links(body: str, folder: str = "") -> list[tuple[str, str]]:
    return [(link.target, link.kind) for link in marks(body, VaultPath(folder)).links]


def wiki(body: str) -> list[str]:
    return [target for target, kind in links(body) if kind == "wikilink"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("#a", ["a"]),
        ("x #a, #b. (#c) #d/e-f_g #h/\n#i\t#j", ["a", "b", "c", "d/e-f_g", "h", "i", "j"]),
        ("#Größe #日本語タグ、続き #emoji😀 #2026a #2026-04", ["Größe", "日本語タグ", "emoji😀", "2026a", "2026-04"]),
        ("#می\u200cخواهم #👨\u200d💻", ["می\u200cخواهم", "👨\u200d💻"]),
        ("#One #one #ONE #two", ["One", "two"]),
        ("# heading\n## two\n###### six\n#\n#7\n#12/34 #/ ##x a#b x/#c \\#d #", []),
        ("a `#b` ``c ` #d`` #e ` #f", ["e", "f"]),
        ("```css\n#a { }\n```\n#b\n~~~\n#c\n~~~\n#d\n```\n#e", ["b", "d"]),
        ("- item\n    ```\n    #a\n    ```\n  #b", ["b"]),
        ("> ```\n> #a\n> ```\n> #b", ["b"]),
        ("[[Note#Heading]] [[Note #Heading]] [x](y#frag) [a #tag](b) [x](#frag) #real", ["real"]),
        ("https://e.org/#frag <https://e.org/ #x> #real", ["real"]),
        ("<a href=\"#x\" title='a #b'>#c</a> <img\n alt=\"x #d\">", []),
        ("<a> #b </a> <!-- #c\n #d --> #e", ["b", "e"]),
        ("<style>\n #a {}\n</style> <script> #b </SCRIPT> <pre> #c</pre> <code> #d </code> #e", ["e"]),
        ("<!-- never closed #a", ["a"]),
        ("`never closed #a\n\n`#b", ["a"]),
        ("1 < 2 #a", ["a"]),
        ("text ^block-1 #a", ["a"]),
        ("#a\u2028#b #c…d", ["a", "b", "c"]),
        ("x\r\n#a\r\ny", ["a"]),
    ],
)  # fmt: skip
def test_inline_tags(body: str, found: list[str]) -> None:
    assert tags(body) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("[[a]] ![[b]] [[c|shown]] [[d#h]] [[e#^block|x]] [[ f ]]", ["a", "b", "c", "d", "e", "f"]),
        ("| [[setext\\|shown]] | [[b\\|c]] |", ["setext", "b"]),
        ("[[Folder/Note.md]] [[/Rooted]] [[SHOUT.MD]]", ["Folder/Note", "Rooted", "SHOUT"]),
        ("[[v1.2]] [[a.b.md]] [[a.md.md]]", ["v1.2", "a.b", "a.md"]),
        ("[[a]] [[a|x]] [[A]]", ["a", "A"]),
        ("![[x.png]] [[y.PDF]] [[z.canvas]] [[data.json]] [[#self]] [[#^block]] [[]] [[ ]] [[|x]] [[folder/]]", []),
        ("[[https://e.org]] [[//e.org]] [[a\nb]] [[a[b]] \\[[c]]", []),
        ("`[[a]]` ``[[b]]``\n\n```toml\n[[c.d]]\n```\n<!-- [[e]] --> [[f]]", ["f"]),
        ("[[Größe 50%]] [[?]] [[a+b]]", ["Größe 50%", "?", "a+b"]),
        ("[[.md]]", []),
    ],
)  # fmt: skip
def test_wikilinks(body: str, found: list[str]) -> None:
    assert wiki(body) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("[x](a.md) [y](b/c.md#h) ![z](d.md) [e](f)", ["a", "b/c", "d", "f"]),
        ("[x](a%20b.md) [y](<c d.md>) [z](e%2520f.md)", ["a b", "c d", "e%20f"]),
        ("[w](50%.md) [v](%E4.md)", ["50%", "\ufffd"]),
        ('[x](a.md "title") [y](b.md \'t\') [z](c.md (t)) [w]( d.md )', ["a", "b", "c", "d"]),
        ("[x](a_(b).md) [y](c\\)d.md) [z](e%23f.md#g)", ["a_(b)", "c)d", "e#f"]),
        ("[![img](x.png)](a.md) [*b* `c`](d.md) [e [f]](g.md)", ["a", "d", "g"]),
        ("[x]: a.md\n[y]: <b c.md> 'title'\n[^1]: d.md\n text [z]: e.md", ["a", "b c"]),
        ("[x](http://e.org/a.md) [m](mailto:a@b.md) [o](obsidian://open?x) [s](#h) [p](//e.org/a.md) [i](a.png)", []),
        ("[x](folder/) [y]() [z](<>) [w](a b.md) \\[v](c.md) [u](d%0Ae.md)", []),
        ("`[x](a.md)` [y](b.md)", ["b"]),
        ("- [ ] (a.md) [x] (b.md)", []),
    ],
)  # fmt: skip
def test_markdown_links(body: str, found: list[str]) -> None:
    assert links(body) == [(target, "markdown") for target in found]


def test_relative_targets_are_joined_with_the_folder_and_never_leave_the_vault() -> None:
    body = "[a](./x.md) [b](../y.md) [c](../../../z.md) [d](w.md) [[../v]] [e](../..) [f](../../a/../b.md)"
    assert links(body, "One/Two") == [
        ("One/Two/x", "markdown"),
        ("One/y", "markdown"),
        ("w", "markdown"),
        ("One/v", "wikilink"),
        ("b", "markdown"),
    ]


def test_both_kinds_of_one_target_are_two_links() -> None:
    assert links("[[a]] [x](a.md) [[a]]") == [("a", "wikilink"), ("a", "markdown")]


def test_what_is_kept_is_bounded_and_says_so() -> None:
    many = marks("".join(f"#t{i} [[n{i}]] " for i in range(MAX_TAGS + 5)) + "#t1 [[n1]]", ROOT)
    assert (len(many.tags), len(many.links)) == (MAX_TAGS, MAX_LINKS)
    assert (many.tags[-1], many.links[-1]) == (f"t{MAX_TAGS - 1}", Link(f"n{MAX_LINKS - 1}", "wikilink"))
    assert many.warnings == [
        "more than 10,000 tags; the first ones are kept",
        "more than 10,000 links; the first ones are kept",
    ]
    assert tags("#" + "x" * 200) == ["x" * 200]
    assert tags("#" + "x" * 201) == []
    assert wiki(f"[[{'x' * 1000}]] [[{'y' * 1001}]]") == ["x" * 1000]


@pytest.mark.parametrize(
    ("raw", "tag"),
    [
        ("a", "a"),
        (" #a ", "a"),
        ("##a/b/", "a/b"),
        ("machine learning", "machine learning"),
        ("1a", "1a"),
        ("v1.2", "v1.2"),
    ],
)
def test_a_tag_loses_its_marks(raw: str, tag: str) -> None:
    assert clean_tag(raw) == tag


@pytest.mark.parametrize("raw", ["", " ", "#", "2024", "12/34", "/", "x" * 201, "a\nb", "a\x1bb"])
def test_what_is_no_tag_is_dropped(raw: str) -> None:
    assert clean_tag(raw) is None


def test_tags_are_unique_without_case() -> None:
    assert unique_tags(["Straße", "a", "STRASSE", "A", "b"]) == ["Straße", "a", "b"]
