"""Finds the notes that a note's links mean.

A link is read without regard to case: as a path from the vault or from the
note's folder, then as a stem, with as much of its path as it gives, or an alias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sidecar.index.naming import fold, folded_path
from sidecar.vault.kp_block import path_id
from sidecar.vault.markdown import LinkKind
from sidecar.vault.paths import NOTE_SUFFIX

MOST_OF_ONE_NAME = 300
"""Notes of one name that are looked at, the shortest paths of them: a vault may have an `index` in every folder."""

Called = Callable[[str], Sequence[tuple[str, str]]]
"""A folded name to (path, id) of the notes of that name, shortest path first, then by code point order."""


class Target(NamedTuple):
    """What a link leads to, by its id, and how it is written."""

    to: str
    kind: LinkKind


def resolve(path: str, links: Iterable[tuple[str, LinkKind]], called: Called) -> list[Target]:
    """Where the links (target, kind) of the note at `path` lead, each once, by (`to`, `kind`); not to itself.

    A target that no note answers to is taken for a path from the vault.
    """
    folder = path[: path.rfind("/") + 1]
    known: dict[str, Sequence[tuple[str, str]]] = {}

    def notes(name: str) -> Sequence[tuple[str, str]]:
        if name not in known:
            known[name] = called(name)
        return known[name]

    found: set[Target] = set()
    for target, kind in links:
        # a link of Markdown is relative to its file; one of the editor to the vault
        places = dict.fromkeys((folder + target, target) if kind == "markdown" else (target, folder + target))
        note = next(filter(None, (_by_path(place, notes) for place in places)), None) or _by_name(target, folder, notes)
        if note is None:
            found.add(Target(path_id(target + NOTE_SUFFIX), kind))
        elif note[0] != path:
            found.add(Target(note[1], kind))
    return sorted(found)


def _by_path(place: str, notes: Called) -> tuple[str, str] | None:
    folded = fold(place)
    same = [note for note in notes(folded) if folded_path(note[0]) == folded]
    # of several that differ by case only, the one that is written like this
    return next((note for note in same if note[0] == place + NOTE_SUFFIX), same[0] if same else None)


def _by_name(target: str, folder: str, notes: Called) -> tuple[str, str] | None:
    folded = fold(target)
    stem, end = folded[folded.rfind("/") + 1 :], f"/{folded}"
    found = dict.fromkeys(notes(folded))  # those with such a stem or alias
    if stem != folded:
        found |= dict.fromkeys(note for note in notes(stem) if folded_path(note[0]).endswith(end))
    order = sorted(found, key=lambda note: (note[0][: note[0].rfind("/") + 1] != folder, len(note[0]), note[0]))
    return order[0] if order else None
