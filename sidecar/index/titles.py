"""Puts the note first that is called just like the query.

Who types the title of a note wants that note. BM25 alone ranks it first in 3
of 4 cases: a long note on a like subject has the words more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.naming import fold_title

# Added to a note's own score, in parts of the best score there is: one by its title stays above one by its file's name
# or an alias, and that one above all others, however each of them is ranked by itself.
_BY_TITLE: Final = 2.2
_BY_NAME: Final = 1.1
HIGHEST: Final = 1 + _BY_TITLE
"""What the best score may become, in parts of what it was."""

_MOST: Final = 300
"""Notes of one name that are put first; a vault may have a README in every folder."""


def called_first(
    reader: ManifestReader, query: str, ranked: Sequence[tuple[int, float]], notes: dict[int, int]
) -> tuple[Sequence[tuple[int, float]], bool]:
    """The ranking of (chunk id, score), best first, with what is called like `query` in front; and whether any is.

    `notes` is the note of each chunk; chunks that are added to the ranking are added to it as well. Blocks.
    """
    called = reader.called(fold_title(query), _MOST)
    if not called:
        return ranked, False
    best = ranked[0][1] if ranked else 1.0
    own: dict[int, tuple[int, float]] = {}
    for chunk_id, score in ranked:
        own.setdefault(notes[chunk_id], (chunk_id, score))
    first: list[tuple[int, float]] = []
    for note_key, chunk_id, by_title in called:
        notes[chunk_id] = note_key
        chunk, score = own.get(note_key, (chunk_id, 0.0))
        first.append((chunk, score + best * (_BY_TITLE if by_title else _BY_NAME)))
    first.sort(key=lambda hit: -hit[1])
    lifted = {note_key for note_key, _, _ in called}
    return [*first, *(hit for hit in ranked if notes[hit[0]] not in lifted)], True
