"""One run, from the call to its end: what is kept of it, and how it is called off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from sidecar.bridge.times import now
from sidecar.services.agents.definition import flat
from sidecar.services.agents.engagement import Tally
from sidecar.services.agents.records import Outcome, Record, Way
from sidecar.services.agents.secrets import scrub
from sidecar.ulids import new_ulid

TASK_CHARS: Final = 200  # of a task, in its record
_NAME_CHARS: Final = 64
_REASON_CHARS: Final = 1000  # a client may make many mistakes in one call
_LOOKED_AT: Final = 10_000  # characters of what a client sent; a refused call may bring megabytes


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks for a run, and how."""

    caller: str
    way: Way
    client: str | None = None
    """What the client calls itself."""


def draft(name: str, task: str, requester: Requester, secrets: Collection[str]) -> Record:
    """The record of a call before anything is known of it."""
    return Record(
        id=new_ulid(),
        agent=flat(scrub(name[:_LOOKED_AT], secrets))[:_NAME_CHARS],
        task=flat(scrub(task[:_LOOKED_AT], secrets))[:TASK_CHARS],
        client=requester.client and scrub(requester.client, secrets),
        caller=requester.caller,
        way=requester.way,
        outcome="running",
        started_at=now(),
    )


@dataclass(slots=True)
class Run:
    """A call of an agent that has not ended."""

    record: Record
    started: float = field(default_factory=time.monotonic)
    tally: Tally = field(default_factory=Tally)
    limit: asyncio.Timeout | None = None
    """Its time, once it has a slot."""
    is_cancelled: bool = False
    is_over: bool = False
    """What came of it is settled, though it may still be tidying up."""

    @property
    def has_begun(self) -> bool:
        """Whether it ever had a slot."""
        return self.limit is not None

    def cancel(self) -> None:
        """End it in its own task, as if its time were over. Not for one that is over."""
        self.is_cancelled = True
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time())

    def scrub(self, secrets: Collection[str]) -> None:
        """Cut secrets out of its record that were not known at its draft."""
        self.record = replace(self.record, task=self.record.task and scrub(self.record.task, secrets))

    def ended(self, outcome: Outcome, reason: str | None, secrets: Collection[str]) -> Record:
        """The record of its end."""
        self.scrub(secrets)
        kept = reason and scrub(reason[:_LOOKED_AT], secrets)[:_REASON_CHARS]
        record = replace(self.record, outcome=outcome, reason=kept, ended_at=now())
        if not self.has_begun:
            return record
        return replace(
            record,
            duration_ms=round((time.monotonic() - self.started) * 1000),
            turns=self.tally.turns,
            tools=dict(self.tally.tools),
            usage=dict(self.tally.usage) or None,
        )
