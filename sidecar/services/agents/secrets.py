"""Cuts secrets out of texts that are kept or shown: the keys this program knows, and what has the form of one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "***"

# The forms of our own keys and of the services' that agents ask. Every repetition is possessive: the time is linear.
_FORMS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:vs[cl]_[A-Za-z0-9_-]{20,}+|sk-[A-Za-z0-9_-]{16,}+)|(?i:bearer) [!-~]{8,}+"
)


_TOLD_BY: Final = 8  # so much of a key's beginning gives it away; what follows it is hidden as well
_LEAST: Final = 12


def scrub(text: str, known: Iterable[str] = ()) -> str:
    """The text without them. `known` are secrets whatever their form, and also where only their beginning is there."""
    for secret in known:
        if len(secret) >= _LEAST:
            text = re.sub(re.escape(secret[:_TOLD_BY]) + r"[!-~]*+", HIDDEN, text)
        elif secret:
            text = text.replace(secret, HIDDEN)
    return _FORMS.sub(HIDDEN, text)
