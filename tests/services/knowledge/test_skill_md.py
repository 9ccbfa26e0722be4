"""SKILL.md files: every shape of the specification, keys of our own, and what is refused."""

from __future__ import annotations

import pytest

from sidecar.errors import SidecarError, TooLarge
from sidecar.services.knowledge import skill_md
from sidecar.services.knowledge.scrub import EMAIL, SECRET, Scrubber
from sidecar.services.knowledge.skill_md import Skill

MINIMAL = """---
name: skill-name
description: A description of what this skill does and when to use it.
---
"""
FULL = """---
name: pdf-processing
description: Extracts text and tables from PDF files, fills forms, and merges documents.
license: Apache-2.0
compatibility: Requires git, docker, jq, and access to the internet
metadata:
  author: example-org
  version: "1.0"
allowed-tools: Bash(git add:*) Bash(jq:*) Read
---
# PDF Processing

## When to use this skill
"""


def read(text: str) -> Skill:
    return skill_md.read(text, Scrubber())


def refusal(text: str) -> str:
    with pytest.raises(SidecarError) as refused:
        read(text)
    return str(refused.value).removeprefix("skill_md_content: ")


def block(*lines: str, body: str = "Do it.\n") -> str:
    return "\n".join(("---", "name: x", "description: d", *lines, "---", body))


@pytest.mark.parametrize("text", [MINIMAL + "Do it.\n", FULL], ids=["minimal", "full"])
def test_the_examples_of_the_specification_are_read_without_a_warning(text: str) -> None:
    skill = read(text)
    assert skill.warnings == ()
    assert skill.content == text


def test_all_keys_of_the_specification() -> None:
    skill = read(FULL)
    assert skill.name == "pdf-processing"
    assert skill.description.startswith("Extracts text")
    assert skill.allowed_tools == ("Bash(git add:*)", "Bash(jq:*)", "Read")
    assert (skill.domain, skill.tags, skill.visibility) == ("general", (), None)
    assert skill.body == "# PDF Processing\n\n## When to use this skill\n"


def test_keys_of_our_own() -> None:
    skill = read(
        block(
            "tags: [Code-Review, best practices]",
            "allowed-tools: [Read, Grep]",
            "kp:",
            "  domain: software-engineering",
            "  visibility: org",
            "  quality_threshold: 0.5",
            "  privacy_level: federated",
            "  knowledge_capture: true",
            "  reward_eligible: false",
        )
    )
    assert skill.tags == ("Code-Review", "best practices")
    assert skill.allowed_tools == ("Read", "Grep")
    assert (skill.domain, skill.visibility) == ("software-engineering", "org")
    assert skill.warnings == ("allowed-tools: the specification wants text separated by blanks",)


@pytest.mark.parametrize(
    "line, tags",
    [
        ("tags: a, b ,, c", ("a", "b", "c")),
        ("tags: [a, 2024, 1.10, no]", ("a", "2024", "1.10", "no")),
        ("tags: one", ("one",)),
        ("tags: 2024", ("2024",)),
        ("tags:\n- a\n- a", ("a",)),
        ("tags:", ()),
        ("tags: []", ()),
    ],
)
def test_tags_are_a_list_or_text_with_commas(line: str, tags: tuple[str, ...]) -> None:
    assert read(block(line)).tags == tags


@pytest.mark.parametrize(
    "lines, domain",
    [
        (["kp: {domain: a}", "metadata: {kp-domain: b, domain: c}"], "a"),
        (["metadata: {kp-domain: b, domain: c}"], "b"),
        (["metadata: {domain: ' c '}"], "c"),
        (["kp: {domain: ''}"], "general"),
        ([], "general"),
    ],
)
def test_the_domain_is_looked_for_in_three_places(lines: list[str], domain: str) -> None:
    assert read(block(*lines)).domain == domain


def test_line_ends_marks_and_long_forms_are_read() -> None:
    skill = read(
        "\ufeff---\r\nname: |\r\n  Code Review Checklist\r\ndescription: >\r\n  long\r\n  text\r\n---\r\nBody\r\n"
    )
    assert (skill.name, skill.description, skill.body) == ("Code Review Checklist", "long text", "Body\r\n")
    assert skill.warnings == ("name: agents' skill folders want lower case letters, digits and single hyphens",)


@pytest.mark.parametrize("name", ["../../x", "Über uns", "a--b", "-a", "a-", "a_b", "2024", "no", "x" * 64])
def test_p12_any_name_is_taken_and_an_unusual_one_noted(name: str) -> None:
    skill = read(block().replace("name: x", f"name: {name}"))
    assert skill.name == name
    usual = name in ("2024", "no", "x" * 64)
    assert bool(skill.warnings) is not usual


@pytest.mark.parametrize(
    "line, warning",
    [
        ("compatibility: " + "x" * 501, "compatibility: the specification wants text of 1 to 500 characters"),
        ("metadata: {version: [1]}", "metadata: the specification wants a map of text"),
        ("metadata: text", "metadata: the specification wants a map of text"),
        ("colour: red", "colour: is not a key of the specification; it is kept"),
        ("kp: {colour: red}", "kp.colour: is not a known key; it is kept"),
    ],
)
def test_findings_of_the_strict_rules_are_warnings(line: str, warning: str) -> None:
    assert read(block(line)).warnings == (warning,)


def test_an_empty_body_and_a_tag_in_the_description_are_warnings() -> None:
    text = block(body="").replace("description: d", "description: a <b>c</b>")
    assert read(text).warnings == (
        "description: holds what looks like a tag",
        "there are no instructions below the frontmatter",
    )


NO_BLOCK = "must start with a frontmatter block between --- lines, with name and description."


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", NO_BLOCK),
        ("# A title\n", NO_BLOCK),
        ("\n---\nname: x\ndescription: d\n---\n", NO_BLOCK),
        ("---\nname: x\ndescription: d\n", NO_BLOCK),
        ("---\n---\nx", "name is required in the frontmatter."),
        ("---\ndescription: d\n---\n", "name is required in the frontmatter."),
        ("---\nname: x\n---\n", "description is required in the frontmatter."),
        ("---\nname: x\ndescription: ' '\n---\n", "description is required in the frontmatter."),
        ("---\nname: [x]\ndescription: d\n---\n", "name must be text."),
        (f"---\nname: {'x' * 65}\ndescription: d\n---\n", "name must be one line of 1 to 64 characters."),
        ('---\nname: "a\\nb"\ndescription: d\n---\n', "name must be one line of 1 to 64 characters."),
        (f"---\nname: x\ndescription: {'d' * 1025}\n---\n", "description must be text of 1 to 1,024 characters."),
        (block("tags: {a: b}"), "tags must be a list of text, or text with commas."),
        (block("tags: [[a]]"), "tags must be a list of text, or text with commas."),
        (block("allowed-tools: {a: b}"), "allowed-tools must be a list of text, or text with blanks."),
        (block("kp: text"), "kp must be a map."),
        (block("kp: {visibility: public}"), "kp.visibility must be one of private, org, network."),
        (block("kp: {privacy_level: 5}"), "kp.privacy_level must be one of aggregated, federated, private."),
        (block("x: &a 1"), "the frontmatter is not read: line 4: anchors are not read."),
        (block("x: !!python/object:os.system 1"), "the frontmatter is not read: line 4: an unknown tag."),
        (block("x: [1"), "the frontmatter is not read: line 5: no valid YAML."),
        ("---\n- a\n---\n", "the frontmatter is not read: it is not a list of properties."),
        (block(body="a\nb\u200bc"), "holds invisible or text-direction characters (line 6); remove them."),
        (block("x: a\u202eb"), "holds invisible or text-direction characters (line 4); remove them."),
        (block(body="\ud800"), "holds half of a character (a lone surrogate)."),
    ],
)
def test_what_is_no_skill_is_refused_with_what_is_right(text: str, sentence: str) -> None:
    assert refusal(text) == sentence


def test_a_skill_of_256_kib_is_taken_and_a_larger_one_is_not() -> None:
    head = MINIMAL
    assert read(head + "x" * ((256 << 10) - len(head)))
    with pytest.raises(TooLarge, match=r"^skill_md_content: at most 256 KiB\.$"):
        read(head + "x" * ((256 << 10) - len(head) + 1))


def test_secrets_and_personal_data_are_taken_out_of_block_and_body() -> None:
    skill = read(block("author: bob@mail.example", "- x", body="").replace("- x", "list:\n- password=hunter2"))
    assert "bob@mail" not in skill.content
    assert "hunter2" not in skill.content
    skill = read(
        block("author: bob@mail.example", "x: mail bob@mail.example now", body="api_key: abc123\n").replace(
            "description: d", "description: ask bob@mail.example"
        )
    )
    assert skill.description == f"ask {EMAIL}"
    assert skill.body == f"api_key: {SECRET}\n"


def test_personal_data_stays_where_the_skill_is_private_and_secrets_go() -> None:
    skill = read(block("kp: {privacy_level: private}", body="bob@mail.example has password=hunter2\n"))
    assert skill.body == f"bob@mail.example has password={SECRET}\n"
