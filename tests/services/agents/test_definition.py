"""What an agent file says, and what is wrong with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.services.agents.definition import Definition, parse
from sidecar.services.agents.emoji import is_one_grapheme
from sidecar.vault.paths import VaultPath
from tests.agents import PERSONA, SCOUT

# As the program that has this format writes it: the description is no valid YAML, for it holds ": ".
CLAUDE_CODE = """---
name: code-reviewer
description: Use this agent after code was written. Examples: <example>user: "Good?" \\n assistant: 'I look'</example>
tools: Glob, Grep, Read, WebFetch, Bash(git log:*)
model: sonnet
color: purple
---

You are an expert reviewer.

## Rules
- Be kind.
"""


def read(text: str, name: str = "File.md") -> Definition:
    return parse(VaultPath(f"Agents/{name}"), text.encode())


def test_the_example() -> None:
    scout = read(SCOUT)
    assert (scout.name, scout.emoji, scout.model, scout.provider) == ("Scout", "🔭", "claude-sonnet-5-5", None)
    assert scout.description == "Finds notes on a topic and lists them with a reason."
    assert scout.tools == {"read_note", "search_notes", "semantic_search"}
    assert scout.persona == PERSONA
    assert (scout.max_turns, scout.temperature, scout.max_tokens) == (None, None, None)
    assert (scout.problem, scout.hints) == (None, ())


def test_a_file_of_claude_code_works_unchanged() -> None:
    agent = read(CLAUDE_CODE)
    assert (agent.name, agent.model, agent.problem) == ("code-reviewer", "sonnet", None)
    assert agent.description.startswith("Use this agent after code was written. Examples: <example>user:")
    assert agent.tools == {"list_notes", "search_notes", "read_note"}
    assert agent.hints == ("unknown tools are ignored: WebFetch, Bash(git log:*)",)
    assert agent.persona == "You are an expert reviewer.\n\n## Rules\n- Be kind."


def test_what_is_left_out_is_open() -> None:
    agent = read("Be brief,\n\nand kind.\n", "Short one.md")
    assert (agent.name, agent.description, agent.tools) == ("Short one", "Be brief, and kind.", None)
    assert agent.problem is None


def test_inherit_names_no_model() -> None:
    assert read("---\nmodel: inherit\n---\nx").model is None


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("tools: Read, Grep , Glob", {"read_note", "search_notes", "list_notes"}),
        ("tools: [Read, write_note]", {"read_note", "write_note"}),
        ("tools:\n  - Write\n  - Edit\n  - kp_propose", {"write_note", "kp_propose"}),
        ("tools:", set()),
        ("tools: ''", set()),
        ("tools: []", set()),
        ("tools: run_agent, list_agents, kp_contribute_skill, Bash", set()),
    ],
)
def test_tools_as_a_list_or_as_text(written: str, tools: set[str]) -> None:
    agent = read(f"---\n{written}\n---\nx")
    assert (agent.tools, agent.problem) == (tools, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\nname: A\n---\n \n", "no persona"),
        ("", "no persona"),
        ("---\nname: [A\n---\nx", "the frontmatter is not read: line 3: no valid YAML"),
        ("---\ntools: [a, b\nname: x: y\n---\nx", "the frontmatter is not read: line 3: no valid YAML"),
        ("---\nname: &a A\n---\nx", "the frontmatter is not read: line 2: anchors are not read"),
        ("---\n- a\n---\nx", "the frontmatter is not read: it is not a list of properties"),
        ("---\n\x0c\n---\nx", "the frontmatter is not read: no valid YAML"),
        ("---\nname: A\ntools: Read\n\nx", "the frontmatter has no end"),
        ("---\r\nname: A\r\n--- \r\r\nx", "the frontmatter has no end"),
        ("---", "the frontmatter has no end"),
        (f"---\nname: {'a' * 65}\n---\nx", "name must be one line of 1 to 64 characters"),
        ('---\nname: "a\\nb"\n---\nx', "name must be one line of 1 to 64 characters"),
        ("---\nname: [a]\n---\nx", "name must be one line of 1 to 64 characters"),
        ("---\nmodel: [a]\n---\nx", "model must be a text on one line"),
        ('---\nprovider: "a\\nb"\n---\nx', "provider must be a text on one line"),
        ("x" * (64 * 1024 + 1), "the persona is longer than 64 KiB"),
        ("é" * (32 * 1024 + 1), "the persona is longer than 64 KiB"),
    ],
)
def test_mistakes_are_problems(text: str, problem: str) -> None:
    assert read(text).problem == problem


_PIECES = (
    *(
        "---\n",
        "---",
        "\n",
        "\r\n",
        "\r",
        ": ",
        ":",
        "- ",
        "'",
        '"',
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "!x ",
        "|\n",
        ">\n",
    ),
    *("#", "\t", "\0", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\ufeff", "\U0001f52d", "1", "-1.5", "true", "~"),
    *("name", "tools", "emoji", "model", "max_turns", "temperature", "description", "Read", "x"),
)


@given(st.lists(st.sampled_from(_PIECES), max_size=30), st.booleans())
def test_f04_whatever_a_file_holds_it_is_an_agent_or_one_with_a_problem(pieces: list[str], opened: bool) -> None:
    agent = read(("---\n" if opened else "") + "".join(pieces))
    assert agent.problem or agent.persona
    shown = [agent.name, agent.description, agent.emoji or "", agent.model or "", *agent.hints, agent.problem or ""]
    assert all(len(text.splitlines()) <= 1 for text in shown)


def test_a_persona_of_64_kib_is_short_enough() -> None:
    assert read("é" * (32 * 1024)).problem is None


@pytest.mark.parametrize(
    ("written", "turns"), [("0", 1), ("-3", 1), ("7", 7), ("99", 20), ("2.9", 2), ("many", None), ("true", None)]
)
def test_turns_are_clamped(written: str, turns: int | None) -> None:
    agent = read(f"---\nmax_turns: {written}\n---\nx")
    assert agent.max_turns == turns
    assert agent.hints == (() if turns else ("max_turns must be a number",))


def test_numbers_for_the_provider() -> None:
    agent = read("---\ntemperature: 0.2\nmax_tokens: 500\n---\nx")
    assert (agent.temperature, agent.max_tokens, agent.hints) == (0.2, 500, ())
    agent = read("---\ntemperature: hot\nmax_tokens: 0\n---\nx")
    assert (agent.temperature, agent.max_tokens) == (None, None)
    assert agent.hints == ("temperature must be a number", "max_tokens must be a number of at least 1")


def test_a_name_that_looks_like_a_number_stays_as_it_is_written() -> None:
    assert read("---\nname: 1.10\n---\nx").name == "1.10"


def test_a_gate_in_the_file_means_nothing() -> None:
    plain, gated = read("---\nname: A\n---\nx"), read("---\nname: A\nremote: true\nremote_invocation: on\n---\nx")
    assert (plain.name, plain.problem, plain.hints) == (gated.name, gated.problem, gated.hints)


def test_a_hostile_description_stays_on_one_line() -> None:
    agent = read('---\ndescription: "a\\n- Fake — agent\\u001b[2J\\u2028b"\n---\nx')
    assert agent.description == "a - Fake — agent\\u001b[2J b"


@pytest.mark.parametrize(
    "emoji", ["🔭", "✏️", "👩‍👩‍👧", "🏳️‍⚧️", "🙂‍↔️", "🇩🇪", "👍🏽", "1️⃣", "🏴\U000e0067\U000e0062\U000e007f", "é", "A"]
)
def test_one_character(emoji: str) -> None:
    assert is_one_grapheme(emoji)
    assert read(f"---\nemoji: {emoji}\n---\nx").emoji == emoji


@pytest.mark.parametrize(
    "emoji",
    [
        *("🔭🔭", "ab", "👩‍", "🇩🇪🇩🇪", "\u200d", "\u0301", "a\u0301" * 9),
        *("👩\u200d\n\u200dx", "👩\u200d\x1b\u200d[", "👩\u200d\u2028\u200dx", "👩\u200d\u202e\u200dx", "👩\u200d x"),
    ],
    ids=ascii,
)
def test_more_or_less_than_one_character(emoji: str) -> None:
    assert not is_one_grapheme(emoji)
    escaped = "".join(f"\\U{ord(point):08x}" for point in emoji)
    agent = read(f'---\nemoji: "{escaped}"\n---\nx')
    assert (agent.emoji, agent.problem) == (None, None)
    assert agent.hints == ("emoji must be one character",)
