"""Reads a SKILL.md: the frontmatter that names and describes a skill, and the instructions below it.

Wider than the Agent Skills specification, whose stricter rules are warnings
here: a skill may be called as people call it, and may have keys of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, cast

from sidecar.errors import BadArguments, TooLarge
from sidecar.services.knowledge import invisible
from sidecar.services.knowledge.scrub import MARK, Scrubber
from sidecar.vault import frontmatter
from sidecar.vault.frontmatter import Frontmatter, Json

Visibility = Literal["private", "org", "network"]

MAX_BYTES: Final = 256 * 1024
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
NO_DOMAIN: Final = "general"

_ARGUMENT: Final = "skill_md_content"
_VISIBILITIES: Final = ("private", "org", "network")
_PRIVACY: Final = ("aggregated", "federated", "private")
_STRICT_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_COMPATIBILITY: Final = 500
_MAX_DOMAIN: Final = 200
_KNOWN: Final = re.compile(
    "name|description|license|compatibility|metadata|allowed-tools|tags|kp"  # the specification's, and ours
    "|version|model|argument-hint|disable-model-invocation|user-invocable|context|agent|hooks|author",
    re.IGNORECASE,
)
_KNOWN_KP: Final = frozenset(
    ("domain", "visibility", "quality_threshold", "privacy_level", "knowledge_capture", "reward_eligible")
)
_TAG: Final = re.compile(r"[^,]++")
_TOOL: Final = re.compile(r"[^\s,(]++(?:\([^)]{0,200}\))?")  # `Bash(git add:*)` is one
_BARE: Final = re.compile(r"([ ]{0,40}(?:- )?(?:[\w.-]{1,80}:[ ]+)?)(?![\"'|>])(.*)")


@dataclass(frozen=True, slots=True)
class Skill:
    """A SKILL.md that may be stored. `content` is all of it; `visibility` is None where it says nothing."""

    name: str
    description: str
    tags: tuple[str, ...]
    allowed_tools: tuple[str, ...]
    domain: str
    visibility: Visibility | None
    body: str
    content: str
    warnings: tuple[str, ...]


def read(raw: str, scrubber: Scrubber) -> Skill:
    """The skill in a text, scrubbed. Blocks for some hundredths of a second where it is large.

    Raises:
        BadArguments: it is no SKILL.md, or holds what nobody can see; one line, with what is right.
        TooLarge: more than 256 KiB.
    """
    try:
        size = len(raw.encode())
    except UnicodeEncodeError:
        raise BadArguments(f"{_ARGUMENT}: holds half of a character (a lone surrogate).") from None
    if size > MAX_BYTES:
        raise TooLarge(f"{_ARGUMENT}: at most {MAX_BYTES >> 10} KiB.")
    raw = raw.removeprefix("\ufeff")
    text = _scrubbed(raw, scrubber)
    block, start = frontmatter.split(text)
    if block is None:
        raise BadArguments(
            f"{_ARGUMENT}: must start with a frontmatter block between --- lines, with name and description."
        )
    if line := invisible.line_of_first(text):
        raise BadArguments(f"{_ARGUMENT}: holds invisible or text-direction characters (line {line}); remove them.")
    properties = _properties(block)
    name = _text(properties, "name").strip()
    if not 1 <= len(name) <= MAX_NAME or len(name.splitlines()) > 1:
        raise BadArguments(f"{_ARGUMENT}: name must be one line of 1 to {MAX_NAME} characters.")
    description = _text(properties, "description").strip()
    if not 1 <= len(description) <= MAX_DESCRIPTION:
        raise BadArguments(f"{_ARGUMENT}: description must be text of 1 to {MAX_DESCRIPTION:,} characters.")
    kp = _map(properties, "kp")
    visibility = _choice(kp, "visibility", _VISIBILITIES)
    _choice(kp, "privacy_level", _PRIVACY)
    body = text[start:]
    return Skill(
        name,
        description,
        _words(properties, "tags", _TAG),
        _words(properties, "allowed-tools", _TOOL),
        _domain(kp, _metadata(properties)),
        cast("Visibility | None", visibility),
        body,
        text,
        (*properties.warnings, *_strict(name, description, body, properties, kp)),
    )


def _scrubbed(raw: str, scrubber: Scrubber) -> str:
    """The text without secrets, and without personal data unless it is marked as private; its YAML still reads."""
    block, _ = frontmatter.split(raw)
    kp = frontmatter.read(block).value("kp") if block else None
    personal = not (isinstance(kp, dict) and kp.get("privacy_level") == "private")
    if block is None:
        return scrubber.text(raw, personal=personal)
    at = raw.index("\n") + 1
    head, cleaned, rest = raw[:at], scrubber.text(block, personal=personal), raw[at + len(block) :]
    if cleaned != block:
        cleaned = "".join(map(_quoted, cleaned.splitlines(keepends=True)))
    return head + cleaned + scrubber.text(rest, personal=personal)


def _quoted(line: str) -> str:
    """A line of YAML whose bare value holds a mark, with the value in quotes: the mark itself would be read as YAML."""
    found = _BARE.match(line)
    if MARK not in line or found is None or not found[1].strip():
        return line
    return found[1] + json.dumps(found[2].rstrip(), ensure_ascii=False) + line[len(line.rstrip()) :]


def _properties(block: str) -> Frontmatter:
    properties = frontmatter.read(block)
    if not properties.values:
        reason = properties.warnings[0] if properties.warnings else ""
        if not reason:
            raise BadArguments(f"{_ARGUMENT}: name is required in the frontmatter.")
        marked = " It was read after secrets and personal data were removed; take them out." if MARK in block else ""
        raise BadArguments(f"{_ARGUMENT}: {reason}.{marked}")
    return properties


def _text(properties: Frontmatter, key: str) -> str:
    written = next(properties.written(key), None)  # as written: a name may look like a number
    if written is None or not written.strip():
        if isinstance(properties.value(key), dict | list):
            raise BadArguments(f"{_ARGUMENT}: {key} must be text.")
        raise BadArguments(f"{_ARGUMENT}: {key} is required in the frontmatter.")
    return written


def _map(properties: Frontmatter, key: str) -> dict[str, Json]:
    value = properties.value(key)
    if value is None or isinstance(value, dict):
        return value or {}
    raise BadArguments(f"{_ARGUMENT}: {key} must be a map.")


def _metadata(properties: Frontmatter) -> dict[str, Json]:
    value = properties.value("metadata")
    return value if isinstance(value, dict) else {}  # what else it is, is a warning


def _words(properties: Frontmatter, key: str, word: re.Pattern[str]) -> tuple[str, ...]:
    """A list of text, or one text that is taken apart; each once."""
    value = properties.value(key)
    if value is None:
        return ()
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        items = [str(item) for item in value if item is not None]
    elif not isinstance(value, dict | list):
        items = word.findall(str(next(properties.written(key), value)))
    else:
        apart = "with commas" if word is _TAG else "with blanks"
        raise BadArguments(f"{_ARGUMENT}: {key} must be a list of text, or text {apart}.")
    return tuple(dict.fromkeys(item.strip() for item in items if item.strip()))


def _choice(kp: dict[str, Json], key: str, choices: tuple[str, ...]) -> str | None:
    value = kp.get(key)
    if value is None or value in choices:
        return value if isinstance(value, str) else None
    raise BadArguments(f"{_ARGUMENT}: kp.{key} must be one of {', '.join(choices)}.")


def _domain(kp: dict[str, Json], metadata: dict[str, Json]) -> str:
    for value in (kp.get("domain"), metadata.get("kp-domain"), metadata.get("domain")):
        if isinstance(value, str) and value.strip():
            return value.strip()[:_MAX_DOMAIN]
    return NO_DOMAIN


def _strict(name: str, description: str, body: str, properties: Frontmatter, kp: dict[str, Json]) -> Iterator[str]:
    """What the Agent Skills specification would not have, and what nobody reads."""
    if not _STRICT_NAME.fullmatch(name):
        yield "name: agents' skill folders want lower case letters, digits and single hyphens"
    if "<" in description and ">" in description:
        yield "description: holds what looks like a tag"
    compatibility = properties.value("compatibility")
    if compatibility is not None and not (
        isinstance(compatibility, str) and 1 <= len(compatibility) <= _MAX_COMPATIBILITY
    ):
        yield f"compatibility: the specification wants text of 1 to {_MAX_COMPATIBILITY} characters"
    metadata = properties.value("metadata")
    if metadata is not None and not (isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())):
        yield "metadata: the specification wants a map of text"
    if isinstance(properties.value("allowed-tools"), list):
        yield "allowed-tools: the specification wants text separated by blanks"
    if not body.strip():
        yield "there are no instructions below the frontmatter"
    for key in properties.values:
        if not _KNOWN.fullmatch(key):
            yield f"{key[:80]}: is not a key of the specification; it is kept"
    for key in kp:
        if key not in _KNOWN_KP:
            yield f"kp.{key[:80]}: is not a known key; it is kept"
