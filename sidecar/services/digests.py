"""The daily digest: picks what is new and matters, and proposes it as a note. A person applies it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from sidecar.config import DigestConfig
from sidecar.errors import NotReady, SidecarError
from sidecar.index.cards import Card, card_of, last_of_folder
from sidecar.index.corpus import Corpus
from sidecar.services import digest_log
from sidecar.services.digest_log import DigestLog, Entry
from sidecar.services.digest_note import Item, extract_of, title_of, write
from sidecar.services.digest_ranking import PART, New, Picked, anchor_of, best, fresh, new_notes, scored
from sidecar.services.library import FullNote, Library
from sidecar.services.proposals import Proposals
from sidecar.tasks import Lane, Unbroken
from sidecar.vault.kp_block import parse_id
from sidecar.vault.paths import VaultPath

logger = logging.getLogger(__name__)

AUTHOR: Final = "librarian"

_LONGEST_SLEEP_S: Final = 300.0
"""A computer that slept, or whose clock was set, finds out within so long."""

_FIRST_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run. `proposal` is its id; None when there was nothing to do."""

    said: str
    proposal: str | None
    path: str | None


class Digests:
    """Makes digests and finds the latest one. Opened with `async with`; that starts the daily run, if one is set."""

    def __init__(
        self,
        corpus: Corpus,
        library: Library,
        proposals: Proposals,
        settings: DigestConfig,
        state_dir: Path,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._corpus = corpus
        self._library = library
        self._proposals = proposals
        self._settings = settings
        self._state_dir = state_dir
        self._clock = clock
        self._lane = Lane("digests")
        self._one = asyncio.Lock()
        self._unbroken = Unbroken()
        self._whole = self._unbroken.whole(self._run_alone)  # between proposal and log, a day would be half made
        self._daily: asyncio.Task[None] | None = None

    # reading

    async def latest(self) -> FullNote | None:
        """The newest digest that is a note of the vault: the last one made here, else the last one by its path."""
        log = await self._lane.run(digest_log.read, self._state_dir)
        for entry in reversed(log.entries):
            if note := await self._note(partial(card_of, note_id=parse_id(entry.note_id))):
                return note
        return await self._note(partial(last_of_folder, folder=self._settings.folder, namespace="kp"))

    async def _note(self, find: Callable[..., Card | None]) -> FullNote | None:
        card = await self._corpus.ask(find)
        return await self._library.whole(card) if card else None

    # making

    async def run(self, now: datetime | None = None) -> Outcome:
        """Propose the digest of the local day of `now`, which knows its time zone.

        Raises:
            NotReady: not all notes are indexed yet.
            SidecarError: the proposal could not be stored.
        """
        moment = now or self._clock()
        return await self._whole(moment.astimezone().date(), moment)

    async def _run_alone(self, day: date, now: datetime) -> Outcome:
        async with self._one:
            return await self._run(day, now)

    async def _run(self, day: date, now: datetime) -> Outcome:
        self._corpus.refuse_while_filling()
        log = await self._lane.run(digest_log.read, self._state_dir)
        log = replace(log, last_run=self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"))
        path = f"{self._settings.folder}/{day.isoformat()}.md"
        if await self._exists(path, day, log):
            await self._lane.run(digest_log.write, self._state_dir, log)
            return Outcome(f"The digest of {day.isoformat()} exists already.", None, None)
        new = await self._corpus.ask(lambda reader: new_notes(reader, log))
        picked, remark = await self._picked(new, now, {entry.note_id for entry in log.entries})
        if not picked:
            await self._lane.run(digest_log.write, self._state_dir, log)
            return Outcome("Nothing new since the last digest.", None, None)
        items = [await self._item(one) for one in picked]
        note_id, text = write(day, now, items, remark)
        proposal = await self._proposals.propose(title_of(day), _rationale(len(items)), [(path, text)], author=AUTHOR)
        entry = Entry(day.isoformat(), note_id, path, proposal.id)
        log = log.with_entry(entry, min(new.seen_until, int(self._clock().timestamp())), new.seen_then)
        await self._lane.run(digest_log.write, self._state_dir, log)
        notes = "1 note" if len(items) == 1 else f"{len(items)} notes"
        said = f"Proposed the digest of {day.isoformat()}, {notes}: 'vault-sidecar proposals apply {proposal.id}'."
        return Outcome(said, proposal.id, path)

    async def _exists(self, path: str, day: date, log: DigestLog) -> bool:
        if any(entry.day == day.isoformat() for entry in log.entries):
            return True
        if await self._corpus.kind(VaultPath(path)) != "missing":
            return True
        # the log may be lost, or the disk refused it after the proposal was stored
        stored = (await self._proposals.listed(every=True))["proposals"]
        return any(each["author"] == AUTHOR and path in each["files"] for each in stored)

    async def _picked(self, new: New, now: datetime, made: Collection[str]) -> tuple[list[Picked], str | None]:
        """The best of the new notes but for digests that were `made`, and what the ranking had to do without."""
        settings, ask = self._settings, self._corpus.ask
        anchor = await ask(partial(anchor_of, path=settings.anchor, has_vectors=self._corpus.has_vectors))
        choose = partial(
            fresh, folder=settings.folder, made=made, anchor=settings.anchor, now=now, decay_days=settings.decay_days
        )
        candidates: list[tuple[float, Card]] = []
        for start in range(0, len(new.keys), PART):
            candidates += await ask(partial(choose, keys=new.keys[start : start + PART]))
        candidates.sort(key=lambda one: (-one[0], one[1].note_id))
        top: list[Picked] = []
        for start in range(0, len(candidates), PART):
            part = candidates[start : start + PART]
            # no cosine is greater than 1, so an older note can't get in any more
            if len(top) == settings.top_k and top[-1].score > part[0][0]:
                break
            top = best([*top, *await ask(partial(scored, part=part, anchor=anchor))], settings.top_k)
        return top, anchor.remark

    async def _item(self, picked: Picked) -> Item:
        text = await self._corpus.ask(lambda reader: reader.text_at(picked.card.path))
        # not on the loop: a large note may have no paragraph, and is gone through to its end
        return Item(picked.card, await self._lane.run(extract_of, text or ""), picked.closeness)

    # daily

    async def __aenter__(self) -> Digests:
        if self._settings.at:
            self._daily = asyncio.create_task(self._run_daily(time.fromisoformat(self._settings.at)), name="digests")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._daily:
            self._daily.cancel()
            await asyncio.wait((self._daily,))
        await self._unbroken.close()
        await self._lane.close()

    async def _run_daily(self, at: time) -> None:
        wait_s = _FIRST_LOOK_S
        while True:
            await asyncio.sleep(wait_s)
            try:
                wait_s = await self._run_if_due(at)
            except NotReady:
                wait_s = _FIRST_LOOK_S  # the index is being built; what is due stays due
            except SidecarError as refused:
                logger.warning("the daily digest was not made: %s", refused)
                wait_s = _LONGEST_SLEEP_S
            except Exception:
                logger.exception("the daily digest failed")
                wait_s = _LONGEST_SLEEP_S

    async def _run_if_due(self, at: time) -> float:
        """Make what is due, and say how long to wait before looking again, in seconds."""
        now = self._clock()
        slot = last_slot(now, at)
        log = await self._lane.run(digest_log.read, self._state_dir)
        if log.last_run is None or datetime.fromisoformat(log.last_run) < slot:
            outcome = await self._whole(slot.astimezone().date(), now)
            logger.info("%s", outcome.said)
        return min(max((next_slot(now, at) - now).total_seconds(), _FIRST_LOOK_S), _LONGEST_SLEEP_S)


def last_slot(now: datetime, at: time) -> datetime:
    """The last moment, up to `now`, at which a clock on the wall showed `at`."""
    today = now.astimezone().replace(tzinfo=None).date()
    slot = datetime.combine(today, at).astimezone()
    return slot if slot <= now else datetime.combine(today - timedelta(days=1), at).astimezone()


def next_slot(now: datetime, at: time) -> datetime:
    """The first moment after `now` at which it will show `at`."""
    today = now.astimezone().replace(tzinfo=None).date()
    slot = datetime.combine(today, at).astimezone()
    return slot if slot > now else datetime.combine(today + timedelta(days=1), at).astimezone()


def _rationale(count: int) -> str:
    notes = "one note" if count == 1 else f"{count} notes"
    return f"What is new in the vault since the last digest: {notes}, picked and grouped without a language model."
