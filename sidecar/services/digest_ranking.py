"""Picks the notes of a digest: the new ones, by how close they are to what matters now and how fresh they are.

Blocks; each part is small enough for the lane that queries share.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from sidecar.index.cards import Card, cards_of, mean_vector, mean_vectors
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.wire import Float32
from sidecar.services.digest_log import DigestLog

PART: Final = 500
"""Notes that are looked at in one go."""

_DAY_S: Final = 86_400


class New(NamedTuple):
    """What was indexed since the last digest."""

    keys: Sequence[int]
    seen_until: int
    seen_then: Sequence[str]


@dataclass(frozen=True, slots=True)
class Anchor:
    """The direction of the anchor note; None where there is none."""

    vector: Float32 | None
    embedder: str
    remark: str | None
    """A sentence for the digest about what is missing."""


@dataclass(frozen=True, slots=True)
class Picked:
    """A note with its score, and its cosine to the anchor if there is one."""

    card: Card
    score: float
    closeness: float | None


def new_notes(reader: ManifestReader, log: DigestLog) -> New:
    """Notes indexed since the last digest, by their keys."""
    before = set(log.seen_then)
    rows = [
        row for row in reader.indexed_after(log.seen_until - 1, None) if row[0] > log.seen_until or row[1] not in before
    ]
    last = max((ingested_at for ingested_at, _, _ in rows), default=log.seen_until)
    then = [note_id for ingested_at, note_id, _ in rows if ingested_at == last]
    return New([key for _, _, key in rows], last, [*then, *(log.seen_then if last == log.seen_until else ())])


def anchor_of(reader: ManifestReader, path: str, *, has_vectors: bool) -> Anchor:
    """What candidates are compared with."""
    if reader.note(path) is None:
        return Anchor(None, "", f"There is no anchor note {path}, so the notes are ranked by their age alone.")
    embedder = reader.used_embedder() if has_vectors else None
    vector = mean_vector(reader, path, embedder) if embedder else None
    if embedder is None or vector is None:
        return Anchor(None, "", "There are no vectors for the anchor note, so the notes are ranked by their age alone.")
    return Anchor(vector, embedder, None)


def fresh(
    reader: ManifestReader,
    keys: Sequence[int],
    *,
    folder: str,
    made: Collection[str],
    anchor: str,
    now: datetime,
    decay_days: int,
) -> list[tuple[float, Card]]:
    """Those of the notes that may stand in a digest, with e^(-age / decay), in no order.

    Digests may not: what lies in their `folder`, and the ids that were `made`, wherever these lie by now.
    """
    cards = (
        card
        for card in cards_of(reader, keys)
        if card.path != anchor and not card.path.startswith(folder + "/") and card.note_id not in made
    )
    return [(math.exp(-_age_days(card, now) / decay_days), card) for card in cards]


def best(candidates: Iterable[Picked], top_k: int) -> list[Picked]:
    """The best, equal scores by id."""
    return sorted(candidates, key=lambda one: (-one.score, one.card.note_id))[:top_k]


def scored(reader: ManifestReader, part: Sequence[tuple[float, Card]], anchor: Anchor) -> list[Picked]:
    """Scores of some candidates."""
    if anchor.vector is None:
        return [Picked(card, weight, None) for weight, card in part]
    vectors: Mapping[str, Float32] = mean_vectors(reader, [card.path for _, card in part], anchor.embedder)
    picked: list[Picked] = []
    for weight, card in part:
        vector = vectors.get(card.path)
        closeness = float(vector @ anchor.vector) if vector is not None else 0.0
        picked.append(Picked(card, closeness * weight, closeness))
    return picked


def _age_days(card: Card, now: datetime) -> float:
    """Since the note was updated, else created, else indexed; what lies ahead has no age."""
    written = card.updated or card.created
    moment = datetime.fromisoformat(written).timestamp() if written else card.ingested_at
    return max(now.timestamp() - moment, 0.0) / _DAY_S
