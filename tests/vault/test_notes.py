from __future__ import annotations

import codecs
import hashlib
import json
import unicodedata

import pytest

from sidecar.vault.markdown import Link
from sidecar.vault.notes import Note, parse_note
from sidecar.vault.paths import VaultPath

PATH = VaultPath("Projects/Plan.md")
UTF_16 = ("the file is UTF-16, not UTF-8",)
KP = "kp:0190a5c4-7f3b-7d11-8a52-3f1f6f0a9b21"


def note(text: str | bytes, path: VaultPath = PATH) -> Note:
    return parse_note(path, text.encode() if isinstance(text, str) else text)


def block(yaml: str, body: str = "body\n") -> Note:
    return note(f"---\n{yaml}\n---\n{body}")


def test_everything_that_an_ordinary_note_says() -> None:
    text = (
        '---\ntitle: The Plan\ntags: [alpha, "#beta/sub"]\naliases: [Plan B]\ncreated: 2026-04-05\n'
        "updated: 2026-04-06T10:00:00+02:00\nsource: https://example.org/plan\nmine: {a: 1.10}\n---\n"
        "# One #gamma\n\n[[Other|x]] and [y](../Z.md) #Alpha\n"
    )
    found = note(text)
    assert found == Note(
        path=PATH,
        checksum="sha256:" + hashlib.sha256(text.encode()).hexdigest(),
        text=text,
        body="# One #gamma\n\n[[Other|x]] and [y](../Z.md) #Alpha\n",
        body_line=10,
        note_id="path:Projects/Plan.md",
        title="The Plan",
        tags=("alpha", "beta/sub", "gamma"),
        aliases=("Plan B",),
        source="https://example.org/plan",
        created="2026-04-05T00:00:00Z",
        updated="2026-04-06T08:00:00Z",
        links=(Link("Other", "wikilink"), Link("Z", "markdown")),
        warnings=(),
        frontmatter={
            "title": "The Plan",
            "tags": ["alpha", "#beta/sub"],
            "aliases": ["Plan B"],
            "created": "2026-04-05",
            "updated": "2026-04-06T10:00:00+02:00",
            "source": "https://example.org/plan",
            "mine": {"a": "1.10"},
        },
    )
    json.dumps(found.frontmatter, allow_nan=False)


# identity


@pytest.mark.parametrize(
    ("yaml", "note_id"),
    [
        pytest.param(f'kp_id: "{KP}"\nkp_schema: kp-note/v1\ntitle: x', KP, id="kp"),
        pytest.param(f"kp_id: {KP}", KP, id="kp-without-schema"),
        pytest.param("kp_id: curio:1f0a", "curio:1f0a", id="any-rest-of-a-known-namespace"),
        pytest.param("KP_ID: zotero:ABCD2345", "zotero:ABCD2345", id="zotero-in-capitals"),
        pytest.param("schema: curio.frontmatter.v1\ncurio_id: 1f0a-b", "curio:1f0a-b", id="curio-block"),
        pytest.param("schema: curio.frontmatter.v1\ncurio_id: 17", "curio:17", id="curio-number"),
        pytest.param("schema: curio.frontmatter.v1\ncurio_id: curio:1f0a", "curio:1f0a", id="curio-prefixed"),
        pytest.param(f"kp_id: {KP}\nschema: curio.frontmatter.v1\ncurio_id: 1", KP, id="kp-before-curio"),
        pytest.param("schema: curio.frontmatter.v2\ncurio_id: 1", "path:Projects/Plan.md", id="other-schema"),
        pytest.param("curio_id: 1", "path:Projects/Plan.md", id="curio-without-schema"),
        pytest.param("kp_id: path:Projects/Plan.md", "path:Projects/Plan.md", id="own-path"),
        pytest.param("status: open", "path:Projects/Plan.md", id="status-of-an-ordinary-note"),
    ],
)
def test_identity(yaml: str, note_id: str) -> None:
    found = block(yaml)
    assert found.note_id == note_id
    assert found.warnings == ()


@pytest.mark.parametrize(
    "yaml",
    [
        "kp_id: 'kp:'",
        "kp_id: 'kp: '",
        "kp_id: foo:1",
        "kp_id: 17",
        "kp_id:",
        "kp_id: [kp:1]",
        "kp_id: path:Other.md",
        'kp_id: "kp:a\\nb"',
        "kp_id: kp:" + "x" * 400,
        f"kp_id: {KP}\nstatus: done",
        "kp_id: foo:1\nschema: curio.frontmatter.v1\ncurio_id: 1",
        "schema: curio.frontmatter.v1\ncurio_id:",
        'schema: curio.frontmatter.v1\ncurio_id: "a\\tb"',
    ],
)
def test_an_unusable_identity_costs_a_warning_and_falls_back_to_the_path(yaml: str) -> None:
    found = block(yaml + "\ntitle: kept")
    assert found.note_id == "path:Projects/Plan.md"
    assert len(found.warnings) == 1
    assert found.title == "kept"


def test_a_curio_block_carries_its_own_facts() -> None:
    yaml = (
        "schema: curio.frontmatter.v1\ncurio_id: 1\nsaved: 2026-04-05T10:00:00Z\ncreated: 2020-01-01\n"
        "source: https://e.org\ntags: [web clip]\n"
    )
    found = block(yaml)
    assert (found.created, found.source, found.tags) == ("2026-04-05T10:00:00Z", "https://e.org", ("web clip",))
    assert block("saved: 2026-04-05").created is None
    assert block(yaml.replace("saved: 2026-04-05T10:00:00Z", "saved: soon")).created == "2020-01-01T00:00:00Z"


# properties


@pytest.mark.parametrize(
    ("yaml", "title"),
    [
        ("title: 2026-05-26", "2026-05-26"),
        ("title: 20240425", "20240425"),
        ("title: 1.10", "1.10"),
        ("title: no\nlang: on", "no"),
        ("title: True", "True"),
        ("Title: Capital", "Capital"),
        ("title: one\ntitle: two", "two"),
        ("title: '  two\n\n  lines '", "two lines"),
        ('title: "a\\x1bb"', "a\\u001bb"),
        ("title: " + "x" * 1000, "x" * 500),
        ("title:", "Plan"),
        ("title: null", "Plan"),
        ("title: ''", "Plan"),
        ("title: [a]", "Plan"),
        ("title: {a: b}", "Plan"),
        ("other: x", "Plan"),
    ],
)
def test_a_title_is_always_text(yaml: str, title: str) -> None:
    assert block(yaml).title == title


@pytest.mark.parametrize(
    ("yaml", "tags"),
    [
        ("tags: alpha, beta", ("alpha", "beta")),
        ("tags: 'alpha beta,, #gamma '", ("alpha", "beta", "gamma")),
        ('tags: ["#alpha", "#beta/sub"]', ("alpha", "beta/sub")),
        ("tags:\n-", ()),
        ("tags:\n- a\n-\n- [b]\n- {c: d}\n- null\n- ''\n", ("a",)),
        ("tags: [2024, true, ok, 1.10, v2]", ("ok", "1.10", "v2")),
        ("tags: 2024", ()),
        ("tags: true", ()),
        ("tags:", ()),
        ("tags: {a: b}", ()),
        ("TAG: [x]", ("x",)),
        ("Tags: [A, a, B]", ("A", "B")),
        ("tags: [two words]", ("two words",)),
    ],
)
def test_tags_of_the_block(yaml: str, tags: tuple[str, ...]) -> None:
    assert block(yaml).tags == tags


def test_inline_tags_follow_those_of_the_block() -> None:
    assert block("tags: [b, A]", "#a #c\n").tags == ("b", "A", "c")


@pytest.mark.parametrize(
    ("yaml", "aliases"),
    [
        ("aliases: [One, ' Two  words ', One]", ("One", "Two words")),
        ("aliases: One, Two", ("One", "Two")),
        ("Aliases:\n- 2026\n- no\n- true\n-\n", ("2026", "no")),
        ("ALIAS: x", ("x",)),
        ("aliases: 2026", ("2026",)),
        ("aliases: null", ()),
        ("aliases: true", ()),
        ('aliases: ["a\\nb"]', ("a b",)),
    ],
)
def test_aliases(yaml: str, aliases: tuple[str, ...]) -> None:
    assert block(yaml).aliases == aliases


def test_times_are_read_from_the_first_key_that_holds_one() -> None:
    assert block("created: soon\npublished: 2026-01-02\ndate: 2026-01-03").created == "2026-01-02T00:00:00Z"
    assert block("date: 2026-01-03\nmodified: 2026-01-04").updated == "2026-01-04T00:00:00Z"
    assert block("created: 2026-13-45\nupdated: [2026-01-01]").created is None
    assert block("created: 2026-13-45\nupdated: [2026-01-01]").updated is None
    assert block("created: 1598648640000").created == "2020-08-28T21:04:00Z"


def test_the_source_is_the_first_text_there_is() -> None:
    assert block("url: https://e.org").source == "https://e.org"
    assert block("source: ''\nurl: https://e.org").source == "https://e.org"
    assert block("source: [[Book]]").source is None
    assert block("source: null").source is None


# bytes


@pytest.mark.parametrize(
    ("data", "text", "warnings"),
    [
        pytest.param(b"", "", (), id="empty"),
        pytest.param(b" \n\t\n", " \n\t\n", (), id="blank"),
        pytest.param(codecs.BOM_UTF8 + b"a", "a", (), id="bom"),
        pytest.param(codecs.BOM_UTF8, "", (), id="only-bom"),
        pytest.param(b"a\nb\xe9\n", "a\nb\ufffd\n", ("line 2: bytes that are not UTF-8 are replaced",), id="latin1"),
        pytest.param(
            b"\xed\xa0\x80", "\ufffd\ufffd\ufffd", ("line 1: bytes that are not UTF-8 are replaced",), id="surrogate"
        ),
        pytest.param("ä".encode("utf-16"), "ä", ("the file is UTF-16, not UTF-8",), id="utf16"),
        pytest.param(
            codecs.BOM_UTF16_BE + b"\0a\xd8", "a\ufffd", ("the file is UTF-16, not UTF-8",), id="utf16-be-cut"
        ),
        pytest.param(codecs.BOM_UTF32_LE + b"a\0\0\0", "a", ("the file is UTF-32, not UTF-8",), id="utf32"),
        pytest.param(b"# one\rtwo\rthree\r", "# one\rtwo\rthree\r", (), id="lone-cr"),
    ],
)
def test_any_bytes_are_a_text(data: bytes, text: str, warnings: tuple[str, ...]) -> None:
    found = note(data)
    assert (found.text, found.body, found.warnings, found.body_line) == (text, text, warnings, 1)
    assert found.checksum == "sha256:" + hashlib.sha256(data).hexdigest()
    found.text.encode()


def test_nuls_stay_in_the_text_and_are_counted_out_of_the_body() -> None:
    found = note(b"---\ntitle: x\n---\nbefore\x00after\n" + b"\x00" * 64)
    assert found.body == "beforeafter\n"
    assert found.text.count("\0") == 65
    assert found.warnings == ("NUL characters are left out: 65",)


def test_the_byte_order_mark_is_in_neither_title_nor_text() -> None:
    found = note(codecs.BOM_UTF8 + b"---\ntitle: BOM\n---\n# Heading\n")
    assert (found.title, found.body, found.text[0], found.body_line) == ("BOM", "# Heading\n", "-", 4)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\na: 1\n---\nx", 4),
        ("---\r\na: 1\r\n---\r\nx", 4),
        ("---\n---\n", 3),
        ("---\na: 1\n---", 3),
        ("---\n# a\rb\n---\nx", 5),
        ("x\n", 1),
    ],
)
def test_the_line_of_the_body_counts_from_the_first_of_the_file(text: str, line: int) -> None:
    assert note(text).body_line == line


def test_the_title_falls_back_to_the_stem_of_the_file() -> None:
    for name, stem in (("SHOUT.MD", "SHOUT"), ("v1.2.md", "v1.2"), (unicodedata.normalize("NFD", "é.md"), "e\u0301")):
        assert note("x", VaultPath(name)).title == stem


def test_a_block_that_can_not_be_read_leaves_the_body() -> None:
    found = block("created: {{date}}\ntitle: lost", "#tag [[Link]]\n")
    assert (found.title, found.frontmatter, found.note_id) == ("Plan", {}, "path:Projects/Plan.md")
    assert (found.body, found.tags, found.links) == ("#tag [[Link]]\n", ("tag",), (Link("Link", "wikilink"),))
    assert len(found.warnings) == 1


def test_an_unclosed_block_is_body() -> None:
    text = "---\ntitle: never closed\n\nbody goes on\n"
    assert (note(text).body, note(text).title, note(text).body_line) == (text, "Plan", 1)
