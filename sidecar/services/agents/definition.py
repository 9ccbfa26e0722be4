"""One agent file: what its text says, and what is wrong with it.

The format is that of Claude Code's agent files, with keys of our own. A file
with a mistake is an agent with a problem: it is listed, and can't be run.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Final

from sidecar.services.agents import ceiling
from sidecar.services.agents.emoji import is_one_grapheme
from sidecar.vault import frontmatter
from sidecar.vault.frontmatter import Frontmatter
from sidecar.vault.notes import checksum_of, decode
from sidecar.vault.paths import VaultPath, printable

MOST_TURNS: Final = 20
MOST_PERSONA_BYTES: Final = 64 * 1024
_MOST_NAME: Final = 64
_MOST_WORD: Final = 200
_INHERIT: Final = "inherit"
_FENCE: Final = re.compile(r"---[ \t]*+(?:\r?\n|\Z)")
_KEY_LINE: Final = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?", re.ASCII)
# what can't begin a text without quotes
_MARKED: Final = frozenset("[]{}\"'&*!|>%@`#")


@dataclass(frozen=True, slots=True)
class Definition:
    """An agent as its file has it. What the file leaves open is None."""

    path: str
    name: str
    checksum: str
    emoji: str | None = None
    description: str = ""
    """On one line; the persona where the file has none."""
    model: str | None = None
    provider: str | None = None
    tools: frozenset[str] | None = None
    """Names of our tools, the ceiling not yet applied; None: all of it."""
    max_turns: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    persona: str = ""
    problem: str | None = None
    """Why it can't be run; small letters, no full stop."""
    hints: tuple[str, ...] = ()
    """What was not taken as it stands in the file."""


def broken(path: VaultPath, problem: str, data: bytes = b"") -> Definition:
    """A file that could not be read as an agent."""
    name = printable(path.stem)[:_MOST_NAME]
    return Definition(path.text, name, checksum_of(data), problem=problem)


def parse(path: VaultPath, data: bytes) -> Definition:
    """Read a file's bytes. Never fails: what is wrong stands in `problem`."""
    text, _ = decode(data)
    block, body_start = frontmatter.split(text)
    if block is None and _FENCE.match(text):  # its limits would be taken for words of the persona
        return broken(path, "the frontmatter has no end", data)
    properties = frontmatter.read(block) if block is not None else Frontmatter()
    if block is not None and properties.warnings and not properties.values:
        problem = properties.warnings[0]
        properties = frontmatter.read(_tolerated(block) or block)
        if not properties.values:
            return broken(path, next(iter(properties.warnings), problem), data)
    return _Reader(path, properties).read(text[body_start:].replace("\0", "").strip(), data)


def _tolerated(block: str) -> str | None:
    """The block with quotes around plain texts that YAML stumbles over, such as `description: Use: when asked`.

    Such files are common, since the program they were written for reads line by
    line. None where a line is not `key: text`, or where there are too many to look at one by one.
    """
    lines: list[str] = []
    if len(block) > frontmatter.MAX_BYTES:
        return None
    for line in block.splitlines():
        found = _KEY_LINE.fullmatch(line.rstrip())
        if found is None and line.strip():
            return None
        if found is not None and found[2] and frontmatter.read(line).warnings:
            if found[2][0] in _MARKED:
                return None
            quoted = found[2].replace("'", "''")
            line = f"{found[1]}: '{quoted}'"
        lines.append(line)
    return "\n".join(lines) + "\n"


class _Reader:
    """Takes the properties one by one, and collects what is wrong."""

    def __init__(self, path: VaultPath, properties: Frontmatter) -> None:
        self._path = path
        self._properties = properties
        self._problem: str | None = None
        self._hints = list(properties.warnings)

    def read(self, persona: str, data: bytes) -> Definition:
        """The agent whose persona this is."""
        definition = Definition(
            self._path.text,
            self._name(),
            checksum_of(data),
            emoji=self._emoji(),
            description=flat(self._text("description") or persona[:1000]),
            model=self._word("model"),
            provider=self._word("provider"),
            tools=self._tools(),
            max_turns=self._turns(),
            temperature=self._temperature(),
            max_tokens=self._max_tokens(),
            persona=persona,
        )
        if not persona:
            self._problem = self._problem or "no persona"
        elif len(persona.encode("utf-8", "replace")) > MOST_PERSONA_BYTES:
            self._problem = self._problem or "the persona is longer than 64 KiB"
        return replace(definition, problem=self._problem, hints=tuple(self._hints))

    def _text(self, key: str) -> str:
        """A single value as written, without blanks around it; empty if there is none."""
        return next(self._properties.written(key), "").strip()

    def _name(self) -> str:
        name = self._text("name")
        if not name and self._properties.value("name") is None:
            name = self._path.stem.strip()
        if 1 <= len(name) <= _MOST_NAME and printable(name) == name:
            return name
        self._problem = "name must be one line of 1 to 64 characters"
        return printable(name or self._path.stem)[:_MOST_NAME]

    def _emoji(self) -> str | None:
        emoji = self._text("emoji")
        if not emoji and self._properties.value("emoji") is None:
            return None
        if is_one_grapheme(emoji):
            return emoji
        self._hints.append("emoji must be one character")
        return None

    def _word(self, key: str) -> str | None:
        """Name of a model or a provider."""
        word = self._text(key)
        if word == _INHERIT or (not word and self._properties.value(key) is None):
            return None
        if word and len(word) <= _MOST_WORD and printable(word) == word:
            return word
        self._problem = self._problem or f"{key} must be a text on one line"
        return None

    def _tools(self) -> frozenset[str] | None:
        if "tools" not in self._properties:
            return None
        value = self._properties.value("tools")
        listed = value if isinstance(value, list) else self._text("tools").split(",")
        wanted = [name for each in listed if (name := str(each).strip())]
        known, unknown = ceiling.ours(wanted)
        if unknown:
            shown = ", ".join(printable(name[:_MOST_NAME]) for name in unknown[:20])
            self._hints.append(f"unknown tools are ignored: {shown}")
        return known

    def _turns(self) -> int | None:
        turns = self._number("max_turns")
        return None if turns is None else min(MOST_TURNS, max(1, int(turns)))

    def _temperature(self) -> float | None:
        return self._number("temperature")

    def _max_tokens(self) -> int | None:
        tokens = self._number("max_tokens")
        if tokens is None or tokens >= 1:
            return None if tokens is None else int(tokens)
        self._hints.append("max_tokens must be a number of at least 1")
        return None

    def _number(self, key: str) -> float | None:
        value = self._properties.value(key)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        self._hints.append(f"{key} must be a number")
        return None


def flat(text: str) -> str:
    """On one line, without marks that command a terminal."""
    return printable(" ".join(text.split()))


def same_name(name: str) -> str:
    """Equal for names that differ in case or Unicode form alone."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
