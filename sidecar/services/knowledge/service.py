"""Skills and knowledge units for the tools: contribute, judge, search, look up a reputation.

Two lanes: one for whatever touches the store and its index, one for looking at
what is contributed, which takes long where it is large.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from sidecar.bridge.times import now
from sidecar.bridge.token import Caller
from sidecar.errors import BadArguments, Busy, NotWritten, SidecarError, Unreadable
from sidecar.index.items import Items
from sidecar.index.wire import Float16, Float32, Int64
from sidecar.services.knowledge import judging, owner, quality, reputation, skill_md, steering, units
from sidecar.services.knowledge.meaning import Meaning
from sidecar.services.knowledge.records import SKILL, Full, New, Stored
from sidecar.services.knowledge.scrub import Scrubber
from sidecar.services.knowledge.skill_md import Skill, Visibility
from sidecar.services.knowledge.steering import Finding
from sidecar.services.knowledge.store import Store, storable
from sidecar.services.knowledge.unit_schema import OWN_IDS
from sidecar.services.knowledge.units import SCHEMA_VERSION, Unit
from sidecar.tasks import Lane
from sidecar.vault.paths import echo

logger = logging.getLogger(__name__)

_MOST_WAITING: Final = 64
_LOADED_AT_ONCE: Final = 500

Facts = dict[str, Any]


class Knowledge:
    """The registry of one vault."""

    def __init__(
        self,
        store: Store | SidecarError,
        items: Items,
        meaning: Meaning | None,
        lane: Lane,
        checks: Lane,
        scrubber: Scrubber,
        *,
        has_notes: bool,
    ) -> None:
        """`store`: an error is what every call raises, where the file can't be used. `has_notes`: the tools of the
        library are offered beside these."""
        self._opened = store
        self._items = items
        self._meaning = meaning
        self._lane = lane
        self._checks = checks
        self._scrubber = scrubber
        self._has_notes = has_notes
        self._waiting = 0

    @property
    def _store(self) -> Store:
        if isinstance(self._opened, SidecarError):
            raise self._opened
        return self._opened

    @property
    def problem(self) -> str | None:
        """Why the registry can't be used, or what was found wrong with its file."""
        return str(self._opened) if isinstance(self._opened, SidecarError) else self._opened.problem

    async def load(self) -> None:
        """Make everything findable that is stored. Whoever asks meanwhile waits."""
        if await self._lane.run(self._load) and self._meaning is not None:
            self._meaning.want()

    def _load(self) -> bool:
        after = 0
        try:
            while part := self._store.all_words(after, _LOADED_AT_ONCE):
                self._items.put(part)
                after = part[-1][0]
        except Unreadable as damaged:  # searches without the rest would say that it is not there
            logger.warning("%s", damaged)
            self._opened = damaged
            return False
        return after > 0

    # --- contributing ---

    async def contribute_skill(self, text: str, visibility: Visibility | None, caller: Caller) -> str:
        """The id of the skill in a SKILL.md; that of the first time if the same caller contributed it before.

        Raises:
            BadArguments, TooLarge: it is none; the sentence says why.
            Busy, NotWritten: it was not stored.
        """
        new, score = await self._checks.run(self._new_skill, text, visibility, caller)
        return (await self._contribute(new, score, caller)).id

    async def contribute_unit(
        self, unit: Mapping[str, Any], visibility: Visibility, caller: Caller
    ) -> tuple[str, float]:
        """Id and score of a unit, as `contribute_skill`.

        Raises:
            BadArguments, TooLarge: it does not fit its schema; one line per mistake.
            Conflict: another unit has its own id.
            Busy, NotWritten: it was not stored.
        """
        new, score = await self._checks.run(self._new_unit, unit, visibility, caller)
        item = await self._contribute(new, score, caller)
        return item.id, item.quality

    def _new_skill(
        self, text: str, visibility: Visibility | None, caller: Caller
    ) -> tuple[New, Callable[[float], float]]:
        skill = skill_md.read(text, self._scrubber)
        finding = steering.look((skill.content,))
        words = "\n".join((skill.name, skill.description, " ".join(skill.tags), skill.body))
        new = New(
            SKILL,
            skill.name,
            skill.domain,
            skill.tags,
            caller.agent_id,
            visibility or skill.visibility,
            skill.content,
            words,
            hashlib.sha256(skill.content.encode()).digest(),
            None,
            suspicious=finding > Finding.NOTHING,
            held=finding is Finding.HELD,
            warnings=skill.warnings,
        )
        return new, lambda novelty: _skill_score(skill, new.suspicious, novelty)

    def _new_unit(
        self, raw: Mapping[str, Any], visibility: Visibility, caller: Caller
    ) -> tuple[New, Callable[[float], float]]:
        unit = units.read(raw, self._scrubber, caller, now())
        words = units.words(unit.content)
        finding = steering.look((words,))
        new = New(
            unit.kind,
            _name_of(unit),
            unit.domain,
            (),
            unit.credited,
            visibility,
            json.dumps(unit.content, ensure_ascii=False, separators=(",", ":")),
            words,
            unit.checksum,
            unit.given_id,
            suspicious=finding > Finding.NOTHING,
            held=finding is Finding.HELD,
            warnings=(),
        )
        return new, lambda novelty: quality.of_unit(unit.content, novelty)

    async def _contribute(self, new: New, score: Callable[[float], float], caller: Caller) -> Stored:
        with self._turn():
            same = await self._lane.run(self._same, new, caller)
            if same is not None:
                return same
            vector = await self._meaning.of_new(new.words) if self._meaning else None
            is_whole = False
            try:
                item, is_whole = await self._lane.run(self._add, new, score, caller, vector)
            finally:  # also where the caller left meanwhile: the item is stored all the same
                if not is_whole and self._meaning is not None:
                    self._meaning.look_again()
            return item

    @contextmanager
    def _turn(self) -> Generator[None]:
        if self._waiting >= _MOST_WAITING:
            raise Busy("Too many contributions at once; try again soon.")
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def _same(self, new: New, caller: Caller) -> Stored | None:
        same = self._store.same(new, caller)
        if same is not None and new.visibility not in (None, same.visibility):
            self._store.show_to(same, new.visibility or "")
        return same

    def _add(
        self, new: New, score: Callable[[float], float], caller: Caller, vector: Float16 | None
    ) -> tuple[Stored, bool]:
        """The item, and whether its vector is kept; without interruption: each is compared with all before it, and of
        twenty equal ones that come at once only the first is new."""
        same = self._same(new, caller)
        if same is not None:
            return same, True
        item = self._store.add(new, caller, score(self._novelty(new.kind, vector)), now())
        self._items.put([(item.key, new.words)])
        try:
            return item, self._meaning is not None and self._meaning.keep(item.key, vector)
        except NotWritten:  # the item is stored, and that is what was asked for
            return item, False

    def _novelty(self, kind: str, vector: Float16 | None) -> float:
        """1 for what resembles nothing of its kind, down to 0 for what is there already."""
        if vector is None or self._meaning is None:
            return 1.0
        nearest = self._items.nearest(vector.astype(np.float32), self._store.comparable(kind), 1)
        return quality.novelty(nearest[0][1], self._meaning.facts.relevance_floor) if nearest else 1.0

    # --- judging ---

    async def judge(self, unit_id: str, valid: bool, feedback: str | None, caller: Caller) -> None:
        """Record whether a caller finds a unit valid, and why; it replaces what he said before.

        Raises:
            NotFound: there is no such unit, or he may not see it.
            BadArguments: the id is that of something else.
            NotWritten: the disk refused.
        """
        unit_id = storable(unit_id.strip())
        shown = echo(self._scrubber.text(unit_id))
        if unit_id.startswith("skill-"):
            raise BadArguments(f"'{shown}' is a skill; only knowledge units are validated.")
        if self._has_notes and _is_note_id(unit_id):
            raise BadArguments(f"'{shown}' is a note; read it with kp_get_note.")
        said = await self._checks.run(self._scrubber.text, storable(feedback)) if feedback else feedback
        await self._lane.run(self._judge, unit_id, shown, valid, said, caller)

    def _judge(self, unit_id: str, shown: str, valid: bool, feedback: str | None, caller: Caller) -> None:
        judging.judge(self._store, judging.unit(self._store, unit_id, shown, caller), caller, valid, feedback, now())

    async def reputation(self, agent_id: str, caller: Caller) -> tuple[float, int]:
        """Score and number of contributions of an agent, as far as the caller may see them; 0 and 0 for a stranger."""
        record = await self._lane.run(lambda: judging.record_of(self._store, storable(agent_id), caller))
        return reputation.score(record), record.contributions

    # --- searching ---

    async def search_skills(
        self, query: str, domain: str | None, tags: Sequence[str], min_quality: float, limit: int, caller: Caller
    ) -> list[Full]:
        """The relevant skills that the caller may see, best first."""
        return await self._search(query, limit, lambda: self._store.allowed(caller, [SKILL], min_quality, domain, tags))

    async def search_units(
        self,
        query: str,
        kinds: Sequence[str],
        domain: str | None,
        min_quality: float,
        limit: int,
        schema_version: str | None,
        caller: Caller,
    ) -> list[Full]:
        """The relevant units that the caller may see, best first."""
        if schema_version and units.version_of(schema_version) != SCHEMA_VERSION:
            return []
        return await self._search(query, limit, lambda: self._store.allowed(caller, kinds, min_quality, domain))

    async def _search(self, query: str, limit: int, allowed: Callable[[], Int64]) -> list[Full]:
        vector = await self._meaning.of_query(query) if self._meaning else None
        return await self._lane.run(self._ranked, query, limit, allowed, vector)

    def _ranked(self, query: str, limit: int, allowed: Callable[[], Int64], vector: Float32 | None) -> list[Full]:
        # who may see what is asked here, beside what is read: while the query was embedded that may have changed
        keys = allowed()
        if not keys.size:
            return []
        facts = self._meaning.facts if self._meaning and vector is not None else None
        ranked = self._items.rank(query, keys, limit, self._store.words, vector, facts)
        order = self._store.order([key for key, _ in ranked])
        ranked = sorted((hit for hit in ranked if hit[0] in order), key=lambda hit: (-hit[1], *order[hit[0]]))
        chosen = [key for key, _ in ranked[:limit]]
        found = self._store.full(chosen)
        return [found[key] for key in chosen]

    # --- for the owner ---

    async def listed(self) -> Facts:
        """See `owner`, also for the calls below."""
        return await self._lane.run(lambda: owner.listed(self._store))

    async def shown(self, item_id: str) -> Facts:
        """One item."""
        return await self._lane.run(lambda: owner.shown(self._store, item_id))

    async def remove(self, item_id: str) -> Facts:
        """Delete one."""

        def remove() -> Facts:
            facts, key = owner.removed(self._store, item_id)
            self._items.drop(key)
            return facts

        return await self._lane.run(remove)

    async def release(self, item_id: str) -> Facts:
        """Let one be found."""
        return await self._lane.run(lambda: owner.released(self._store, item_id))

    async def export(self, after: int) -> Facts:
        """A page of all."""
        return await self._lane.run(lambda: owner.exported(self._store, after))


def _skill_score(skill: Skill, suspicious: bool, novelty: float) -> float:
    return quality.of_skill(
        description=skill.description,
        body=skill.body,
        has_tags=bool(skill.tags),
        has_domain=skill.domain != skill_md.NO_DOMAIN,
        suspicious=suspicious,
        novelty=novelty,
    )


def _name_of(unit: Unit) -> str:
    """What a list calls a unit."""
    name = unit.content.get("name") or unit.content["task"]["objective"]
    return str(name)[:200]


def _is_note_id(text: str) -> bool:
    namespace, colon, rest = text.partition(":")
    if namespace == "kp" and rest.startswith(tuple(own.removeprefix("kp:") for own in OWN_IDS.values())):
        return False
    return bool(colon and rest) and namespace in ("path", "curio", "zotero", "kp")
