"""A document with its words counted: what a reader gives to the index."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from sidecar.index.counted import Counted, Counting, highest
from sidecar.index.documents.document import MOST_CHUNKS, Document
from sidecar.index.tokens import Tokenizer

_LANGUAGE_SHOWN_BY: Final = 20_000  # characters

Passage = tuple[int, str]
"""Its number, from 0, and its text, which is not empty."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A document, read.

    language  what its words were cut by; "" if it shows none
    words     of the passages, in their order
    warning   as in `Document`
    """

    language: str
    passages: Sequence[Passage]
    words: Counted
    warning: str | None


def reading(document: Document, tokenizer: Tokenizer, on_passage: Callable[[Passage], None] | None = None) -> Reading:
    """Count a document's words; `on_passage` is told of each passage when its words are counted. Blocks."""
    language = tokenizer.language(_beginning(document))
    passages: list[Passage] = []
    words = Counting()
    for passage in enumerate(document.chunks):
        if passage[1]:
            words.add(tokenizer.counts(passage[1], language))
            passages.append(passage)
            if on_passage:
                on_passage(passage)
    return Reading(language, passages, words.counted(), document.warning)


def _beginning(document: Document) -> str:
    shown: list[str] = []
    size = 0
    for chunk in document.chunks:
        shown.append(chunk)
        size += len(chunk)
        if size >= _LANGUAGE_SHOWN_BY:
            break
    return "\n".join(shown)[:_LANGUAGE_SHOWN_BY]


def is_sound(reading: Reading) -> bool:
    """Whether the parts fit together: a reader may have been taken over by the file it read. Blocks."""
    ordinals = [-1, *(ordinal for ordinal, _ in reading.passages), MOST_CHUNKS]
    if any(before >= after for before, after in pairwise(ordinals)):
        return False
    try:
        for _, text in reading.passages:
            text.encode()  # half of a UTF-16 pair could not be stored
        sizes, places = array("I", reading.words.sizes), array("I", reading.words.places)
        count = len(array("H", reading.words.counts))
        vocabulary = reading.words.vocabulary
    except ValueError:  # no whole number of numbers, or no UTF-8
        return False
    return (
        len(sizes) == len(reading.passages)
        and sum(sizes) == len(places) == count
        and highest(places) < len(vocabulary) == len(set(vocabulary))
    )
