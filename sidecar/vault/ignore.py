"""The rules of `.kpignore`: which parts of the vault are left out.

One pattern a line, `#` begins a comment. `*` and `?` stay within a name, `**`
spans folders, a final `/` names folders only, a pattern with a `/` elsewhere
is anchored at the vault, any other matches a name at every depth. There is no
negation. What lies in an ignored folder is ignored.

The file is part of the vault and may come from somebody else, so every
pattern takes time linear in the path: where a piece of text behind a `*` is
found first, the match is settled (atomic groups), and nothing is tried again.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from sidecar.vault.paths import VaultPath

IGNORE_FILE: Final = ".kpignore"
_MAX_RULES: Final = 500
_MAX_CHARACTERS: Final = 20_000  # of all rules together; compiling them takes at most about 0.2 s


@dataclass(frozen=True, slots=True)
class _Rules:
    """Rules of one kind. Those without wildcards are only looked up."""

    names: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, rules: list[str]) -> _Rules:
        """Sort them; none ends in a slash."""
        plain = [rule for rule in rules if "*" not in rule and "?" not in rule]
        regexes = [f"(?:{_regex(rule)})" for rule in rules if rule not in plain]
        return cls(
            frozenset(rule for rule in plain if "/" not in rule),
            frozenset(rule.removeprefix("/") for rule in plain if "/" in rule),
            re.compile("|".join(regexes), re.DOTALL) if regexes else None,
        )

    def match(self, text: str) -> bool:
        return (
            text[text.rfind("/") + 1 :] in self.names
            or text in self.paths
            or (self.pattern is not None and self.pattern.fullmatch(text) is not None)
        )


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Compiled rules. Without any, nothing is ignored."""

    _anything: _Rules | None = None
    _folders: _Rules | None = None
    left_out: int = 0
    """Rules that were not taken: there is room for 500, of 20,000 characters in all."""

    @classmethod
    def parse(cls, text: str) -> IgnoreRules:
        """The rules in the text of a `.kpignore`. Every text is accepted."""
        anything: list[str] = []
        folders: list[str] = []
        left_out = size = 0
        for line in text.removeprefix("\ufeff").split("\n"):
            rule = re.sub("/+", "/", line.strip())
            if rule in ("", "/") or rule.startswith("#"):
                continue
            size += len(rule)
            if size > _MAX_CHARACTERS or len(anything) + len(folders) == _MAX_RULES:
                left_out += 1
                continue
            rule = unicodedata.normalize("NFC", rule)
            (folders if rule.endswith("/") else anything).append(rule.removesuffix("/"))
        return cls(_Rules.of(anything) if anything else None, _Rules.of(folders) if folders else None, left_out)

    def ignores(self, path: VaultPath, is_folder: bool) -> bool:
        """Whether `path` or a folder it lies in is named by a rule. Never true for the vault itself."""
        if self._anything is None and self._folders is None:
            return False
        text = path.text
        slash = text.find("/")
        while slash != -1:
            if self.names(text[:slash], is_folder=True):
                return True
            slash = text.find("/", slash + 1)
        return self.names(text, is_folder)

    def names(self, text: str, is_folder: bool) -> bool:
        """Whether a rule names just this path; the folders above it are not looked at."""
        if not text or (self._anything is None and self._folders is None):
            return False
        text = text if text.isascii() else unicodedata.normalize("NFC", text)
        if self._anything is not None and self._anything.match(text):
            return True
        return is_folder and self._folders is not None and self._folders.match(text)


def _regex(rule: str) -> str:
    """A regular expression for the whole text of a path."""
    anchored = "/" in rule
    segments = rule.removeprefix("/").split("/") if anchored else ["**", rule]
    runs: list[list[str]] = [[]]  # of segments, where the rule has `**` between them
    for segment in segments:
        if segment == "**":
            if runs[-1] or len(runs) == 1:
                runs.append([])
        else:
            runs[-1].append(_segment(segment))
    first, *rest = ["/".join(run) for run in runs]
    if not rest:
        return first
    *middle, last = rest
    found = first + "/" if first else ""
    # the earliest place for a run leaves most of the path for the next, so it need never be given up
    found += "".join(f"(?>(?:[^/]++/)*?{run}/)" for run in middle)
    return found + (f"(?:[^/]++/)*{last}" if last else ".+")


def _segment(glob: str) -> str:
    """A regular expression for one whole segment."""
    first, *rest = [re.escape(piece).replace(r"\?", "[^/]") for piece in re.split(r"\*+", glob)]
    if not rest:
        return first
    *middle, last = rest
    found = first + "".join(f"(?>[^/]*?{piece})" for piece in middle)
    # the last piece has to end the segment, so it is looked for from the end
    return found + (f"[^/]*{last}(?![^/])" if last else "[^/]*")
