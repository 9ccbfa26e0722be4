"""Text that tries to steer the model that will read it, instead of telling it something.

A list of phrases stops nobody who knows it; it keeps the usual ones from
looking like good advice. What is found is a mark on the record: most of it may
stand in an honest text about such attacks, so it costs quality only. What has
no other use holds an item back until a person has looked at it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class Finding(IntEnum):
    """How a text looks; the greater is the worse."""

    NOTHING = 0
    SUSPICIOUS = 1
    """It costs a skill quality."""
    HELD = 2
    """It is not found by searches until a person lets it go."""


_GAP: Final = r"[\s\W_]{1,8}"
_ALL: Final = rf"(?:(?:all|any|every|the|of|these|those|your|my|our){_GAP}){{0,3}}"
_BEFORE: Final = r"(?:previous|prior|earlier|above|preceding|foregoing|existing|system|former|other)"
_ORDERS: Final = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directions?|messages?|context|commands?|policies|restrictions)"
)

_SUSPICIOUS: Final = re.compile(
    "|".join(
        (
            rf"\b(?:ignore|disregard|forget|override|bypass|neglect){_GAP}{_ALL}{_BEFORE}{_GAP}(?:\w{{1,20}}{_GAP})?{_ORDERS}",
            rf"\b(?:ignore|disregard|forget){_GAP}(?:everything|all|anything){_GAP}(?:above|before|you)",
            rf"\byou{_GAP}are{_GAP}(?:now{_GAP})?(?:in{_GAP})?(?:developer|dan|jailbreak|god|unrestricted){_GAP}mode",
            rf"\byou{_GAP}are{_GAP}(?:no{_GAP}longer|not{_GAP}bound)",
            rf"\b(?:new|updated|real|true){_GAP}(?:system{_GAP})?(?:instructions|prompt){_GAP}(?:are|is|follow)",
            rf"\b(?:reveal|print|repeat|show|output|leak|send){_GAP}{_ALL}(?:system|hidden|initial){_GAP}(?:prompt|instructions|message)",
            rf"\b(?:do{_GAP}not|don.?t|never|without){_GAP}(?:tell|telling|inform|informing|mention|ask|asking|alert|alerting)"
            rf"(?:{_GAP}(?:this|it|that))?(?:{_GAP}to)?{_GAP}(?:the{_GAP}|your{_GAP})?(?:user|human|owner|operator)",
            rf"\bignorier\w{{0,4}}{_GAP}(?:\w{{1,12}}{_GAP}){{0,2}}(?:vorherig|bisherig|obig|früher)\w{{0,4}}{_GAP}(?:an)?weisungen",
            rf"\bignore[zr]?{_GAP}(?:\w{{1,12}}{_GAP}){{0,2}}(?:instructions|consignes){_GAP}(?:précédentes|antérieures)",
            rf"\bignora\w{{0,3}}{_GAP}(?:\w{{1,12}}{_GAP}){{0,3}}(?:instrucciones|istruzioni|instruções){_GAP}(?:anteriores|previas|precedenti)",
            rf"игнорируй\w{{0,3}}{_GAP}(?:\w{{1,12}}{_GAP}){{0,2}}(?:предыдущие|прежние){_GAP}инструкции",
            r"(?:忽略|无视|無視).{0,6}(?:之前|以前|以上|先前|上述|前).{0,6}(?:指令|指示|说明|提示|命令)",
        )
    )
)
_HELD: Final = re.compile(
    "|".join(
        (
            # the signs by which models' own conversations are marked; a text holds them only to forge one
            r"<\|(?:im_start|im_end|start_header_id|end_header_id|eot_id|system|endoftext|channel|message)\|>",
            r"\[/?inst\]|<</?sys>>|<start_of_turn>|<end_of_turn>",
            rf"\b(?:send|post|upload|exfiltrate|email|forward|transmit|leak){_GAP}{_ALL}(?:\w{{1,20}}{_GAP}){{0,2}}"
            rf"(?:passwords?|credentials?|tokens?|secrets?|ssh{_GAP}keys?|private{_GAP}keys?|api{_GAP}keys?"
            rf"|environment{_GAP}variables?|\.env|cookies){_GAP}(?:\w{{1,20}}{_GAP}){{0,3}}to{_GAP}(?:\w{{1,20}}{_GAP}){{0,2}}https?",
        )
    )
)
_TAGS: Final = re.compile("[\U000e0000-\U000e007f]{2}")
"""Letters that are shown by nobody and read by some models; two of them begin to say something."""
_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,10}\U000e007f")


def look(texts: Iterable[str]) -> Finding:
    """The worst that is found in one of the texts."""
    worst = Finding.NOTHING
    for text in texts:
        worst = max(worst, _look(text))
        if worst is Finding.HELD:
            break
    return worst


def _look(text: str) -> Finding:
    if len(text) < 6:
        return Finding.NOTHING
    if not text.isascii():
        if _TAGS.search(_FLAG.sub("", text)):
            return Finding.HELD
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold()
    if _HELD.search(text):
        return Finding.HELD
    return Finding.SUSPICIOUS if _SUSPICIOUS.search(text) else Finding.NOTHING
