"""What the index knows of single notes: by their ids, by their age, by what they link to.

Everything reads from the manifest and blocks; `Corpus.ask` runs it in a lane.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidecar.index.linking import MOST_OF_ONE_NAME, Target, resolve
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.manifest_rows import NoteRow
from sidecar.index.naming import folded_path
from sidecar.index.wire import Float32
from sidecar.vault.kp_block import Namespace, NoteId
from sidecar.vault.markdown import LinkKind


@dataclass(frozen=True, slots=True)
class Card:
    """A note as it was indexed. `note_id` is the id that is its own; times are RFC 3339 in UTC, or None."""

    path: str
    note_id: str
    title: str
    tags: tuple[str, ...]
    source: str | None
    created: str | None
    updated: str | None
    checksum: str
    ingested_at: int
    """Seconds since 1970."""


def card_of(reader: ManifestReader, note_id: NoteId) -> Card | None:
    """The note of an id; every note has its path for one as well. None: no note has it."""
    row = _at_path(reader, note_id.path.text) if note_id.path else _named(reader, note_id.text)
    return _card(row) if row else None


def _at_path(reader: ManifestReader, path: str) -> NoteRow | None:
    """The note at a path; another Unicode form of it is accepted if exactly one note has it."""
    if row := reader.note(path):
        return row
    form = unicodedata.normalize("NFC", path)
    named = reader.notes_called(folded_path(path), MOST_OF_ONE_NAME)
    same = [found for found, _ in named if unicodedata.normalize("NFC", found) == form]
    return reader.note(same[0]) if len(same) == 1 else None


def _named(reader: ManifestReader, note_id: str) -> NoteRow | None:
    # no note can claim another one, and the database takes no text that can't be encoded
    return reader.note_named(note_id) if note_id.isprintable() else None


def links_of(reader: ManifestReader, path: str) -> list[Target]:
    """Where the links of a note lead; see `linking`."""
    row = reader.note(path)
    links: list[tuple[str, LinkKind]] = [(target, kind) for target, kind in json.loads(row.links)] if row else []
    return resolve(path, links, lambda name: reader.notes_called(name, MOST_OF_ONE_NAME))


def recent(reader: ManifestReader, since: int, now: int, namespace: Namespace | None, most: int) -> list[Card]:
    """The `most` notes that were indexed last, after `since`: newest first, then by id. All times in seconds.

    A time after `now` counts as `now`: a clock that was set back loses no notes.
    """
    found: list[tuple[int, str, int]] = []
    if since < now:
        for ingested_at, note_id, note_key in reader.indexed_after(since, namespace):
            age = now - min(ingested_at, now)
            if len(found) >= most and age > found[most - 1][0]:
                break
            found.append((age, note_id, note_key))
    return cards_of(reader, [note_key for _, _, note_key in sorted(found)[:most]])


def last_of_folder(reader: ManifestReader, folder: str, namespace: Namespace) -> Card | None:
    """The last note under a folder, by code point order, whose id is of a namespace."""
    row = reader.last_below(folder, namespace)
    return _card(row) if row else None


def cards_of(reader: ManifestReader, note_keys: Sequence[int]) -> list[Card]:
    """Those of the notes that exist, in the given order."""
    return [_card(row) for row in reader.note_rows(note_keys)]


def mean_vector(reader: ManifestReader, path: str, embedder: str) -> Float32 | None:
    """float32[dim] of length 1: the direction of a note by all its stored vectors. None: there are none."""
    _, vectors = reader.vectors_of(reader.chunks_of([path]), embedder)
    return mean_of(vectors.astype(np.float32)) if vectors.size else None


def mean_vectors(reader: ManifestReader, paths: Sequence[str], embedder: str) -> dict[str, Float32]:
    """`mean_vector` of several notes by their paths; those without vectors are left out."""
    ids, vectors = reader.vectors_of(reader.chunks_of(paths), embedder)
    notes = reader.paths_of(ids.tolist())
    places: dict[str, list[int]] = {}
    for place, chunk_id in enumerate(ids.tolist()):
        if chunk_id in notes:
            places.setdefault(notes[chunk_id], []).append(place)
    means = {path: mean_of(vectors[own].astype(np.float32)) for path, own in places.items()}
    return {path: mean for path, mean in means.items() if mean is not None}


def mean_of(vectors: Float32) -> Float32 | None:
    """float32[dim] of length 1 from vectors[n, dim]; None where they say nothing, such as zeros."""
    mean = vectors.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return mean / length if length > 0 else None


def _card(row: NoteRow) -> Card:
    return Card(
        row.path,
        row.note_id,
        row.title,
        tuple(json.loads(row.tags)),
        row.source,
        row.created,
        row.updated,
        row.checksum,
        row.ingested_at,
    )
