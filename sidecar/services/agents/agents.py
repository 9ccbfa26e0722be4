"""The agents of one vault, for clients, the terminal and the editor: listed, allowed, run, recorded.

There is one way to a run, whoever asks: the same checks in the same order, two
at once at the most, and a record of every call.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sidecar.errors import Busy, NotFound, NotRunnable, RunFailed, SidecarError
from sidecar.services.agents.definition import MOST_TURNS, Definition
from sidecar.services.agents.engagement import Ended, Engagement, Report
from sidecar.services.agents.listing import Listed, Listing
from sidecar.services.agents.provider import Providers, Target, Unusable, Usual
from sidecar.services.agents.records import Outcome, Record, Records, keep
from sidecar.services.agents.run import Requester, Run, draft
from sidecar.services.agents.toolbox import Toolbox
from sidecar.services.agents.turns import Pace
from sidecar.services.lengths import cut
from sidecar.tasks import Lane, Unbroken
from sidecar.vault.paths import echo

if TYPE_CHECKING:
    from sidecar.services.agents.conversation import Conversation

logger = logging.getLogger(__name__)

MOST_RUNNING: Final = 2
MOST_ANSWER_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a run, cut where it is longer than anybody is given, and the id of its record."""

    run_id: str
    text: str


class Agents:
    """An async context manager. Runs end with whoever waits for them."""

    def __init__(
        self,
        listing: Listing,
        providers: Providers,
        records: Records,
        *,
        max_turns: int,
        secrets: Collection[str] = (),
        pace: Pace | None = None,
    ) -> None:
        """`max_turns` of an agent that names none; `secrets` are cut out of what is kept."""
        self.toolbox: Toolbox | None = None
        """Set once the tools are put together, before the first run."""
        self.on_finished: Callable[[dict[str, Any]], None] | None = None
        """Called with the record of a run that has ended, on the loop."""
        self.on_changed: Callable[[], None] | None = None
        """Called after an agent was allowed, or no longer."""
        self._listing = listing
        self._providers = providers
        self._records = records
        self._max_turns = max_turns
        self._secrets = tuple(secrets)
        self._pace = pace or Pace()
        self._looking = Lane("agents")
        self._keeping = Lane("runs")
        self._asking = Lane("providers", 2)  # a keyring, or the import of a library, may take seconds
        self._running: dict[str, Run] = {}
        self._unbroken = Unbroken()  # a client's going is no reason to record nothing

    async def __aenter__(self) -> Agents:
        try:
            interrupted = await self._keeping.run(self._records.settle)
            if interrupted:
                logger.info("%d runs of agents had been interrupted", interrupted)
        except SidecarError as bad:
            logger.warning("the records of runs can't be used: %s", bad)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._unbroken.close()
        for lane in (self._looking, self._keeping, self._asking):
            await lane.close()

    @property
    def folder(self) -> str:
        """Where the agent files are."""
        return self._listing.folder

    async def listed(self) -> list[Listed]:
        """All agents as their files are now, sorted by name without case.

        Raises:
            Unreadable: the folder can't be read.
        """
        return await self._looking.run(self._listing.listed)

    async def set_remote(self, name: str, on: bool) -> None:
        """Let clients run an agent, or no longer. Asked by the owner alone.

        Raises:
            NotFound: there is no such agent.
            NotRunnable: it has a mistake and is not switched on.
            Unreadable: the disk refused.
        """
        await self._looking.run(self._listing.set_remote, name, on)
        logger.info("running an agent by clients is switched %s", "on" if on else "off")
        if self.on_changed is not None:
            self.on_changed()

    def give_key(self, provider: str, key: str | None) -> None:
        """As `Providers.give_key`."""
        self._providers.give_key(provider, key)

    async def usual_provider(self) -> Usual | None:
        """The provider of agents that name none."""
        return await self._asking.run(self._providers.usual)

    async def runs(self, most: int) -> list[dict[str, Any]]:
        """The records, the newest first.

        Raises:
            Unreadable: they can't be believed.
        """
        return [record.facts() for record in await self._keeping.run(self._records.newest, most)]

    def cancel(self, ending: str) -> str:
        """End the run of this id, or with an id that ends so; its id.

        Raises:
            NotFound: none or several such runs are under way.
        """
        under_way = [run for run in self._running.values() if not run.is_over]
        found = [run for run in under_way if ending and run.record.id.endswith(ending.upper())]
        if len(found) != 1:
            raise NotFound(f"There is no run '{echo(ending)}' under way. 'vault-sidecar agents runs' shows them.")
        found[0].cancel()
        return found[0].record.id

    async def run(self, name: str, task: str, max_turns: int | None, requester: Requester, report: Report) -> Answer:
        """The answer of a fresh run, in which `task` is all the agent is told.

        Raises:
            NotFound: there is no such agent.
            NotRunnable: it can't be run, or not by clients.
            Busy: two agents are running.
            RunFailed: it ended without an answer.
        """
        run = Run(draft(name, task, requester, self._known_secrets()))
        outcome: Outcome = "failed"
        reason: str | None = "a mistake in vault-sidecar; its log holds the details"
        try:
            answer = await self._answer(run, name, task, max_turns, report)
            run.record = replace(run.record, chars=len(answer))
            outcome, reason = "done", None
            return Answer(run.record.id, cut(answer, MOST_ANSWER_CHARS))
        except Ended as ended:
            sentence = f"'{run.record.agent}' {ended}"
            outcome, reason = ended.outcome, sentence
            raise RunFailed(sentence) from None
        except SidecarError as refused:
            outcome, reason = "busy" if isinstance(refused, Busy) else "refused", str(refused)
            raise
        except asyncio.CancelledError:
            outcome, reason = "cancelled", f"'{run.record.agent}' was cancelled."
            raise
        finally:
            await self._finish(run, outcome, reason)

    async def refused(self, name: object, task: object, requester: Requester, reason: str) -> None:
        """Record a call whose arguments were wrong."""
        texts = name if isinstance(name, str) else "", task if isinstance(task, str) else ""
        record = draft(*texts, requester, self._known_secrets())
        run = Run(replace(record, agent=record.agent or None, task=record.task or None))
        await self._finish(run, "refused", reason)

    async def _answer(self, run: Run, name: str, task: str, max_turns: int | None, report: Report) -> str:
        """The checks in their order, then the run in one of the two slots."""
        agent, target = await self._checked(run, name)
        # nothing waits between this look and the entry
        if len(self._running) >= MOST_RUNNING:
            raise Busy(f"Busy: {MOST_RUNNING} agents are running already, at most {MOST_RUNNING} can. Try again later.")
        self._running[run.record.id] = run
        try:
            turns = max_turns or agent.max_turns or self._max_turns
            return await self._in_slot(run, agent, target, task, min(turns, MOST_TURNS), report)
        finally:
            del self._running[run.record.id]

    async def _checked(self, run: Run, name: str) -> tuple[Definition, Target]:
        found = await self._looking.run(self._listing.find, name)
        agent = found.agent
        run.record = replace(run.record, agent=agent.name)
        if agent.problem is not None:
            raise NotRunnable(f"'{agent.name}' can't run: {agent.problem}.")
        if not found.remote:
            raise NotRunnable(
                f"'{agent.name}' may not be run by clients. Switch on \"Remote invocation\" for it in the plugin,"
                f" or run: vault-sidecar agents remote {shlex.quote(agent.name)} on"
            )
        try:
            target = await self._asking.run(self._providers.target_for, agent)
        except Unusable as unusable:
            raise NotRunnable(f"'{agent.name}' can't run: {unusable}.") from None
        return agent, target

    async def _in_slot(
        self, run: Run, agent: Definition, target: Target, task: str, max_turns: int, report: Report
    ) -> str:
        assert self.toolbox is not None
        run.record = replace(run.record, provider=target.provider, model=target.model)
        run.scrub(self._known_secrets())  # the key is known only now
        conversation: Conversation | None = None
        try:
            async with asyncio.timeout(self._pace.run_s) as run.limit:
                await self._keep(run.record)
                conversation = await self._asking.run(_converse, target, agent, task)
                engagement = Engagement(agent, conversation, self.toolbox, max_turns, self._pace, run.tally)
                return await engagement.answer(report)
        except TimeoutError:
            if run.is_cancelled:
                raise Ended("cancelled", "was cancelled.") from None
            if run.limit is None or not run.limit.expired():
                raise
            raise Ended("timeout", f"did not finish in {self._pace.run_s / 60:g} minutes.") from None
        finally:
            run.is_over = True
            if conversation is not None:
                await self._unbroken.whole(conversation.close)()

    def _known_secrets(self) -> list[str]:
        return [*self._secrets, *self._providers.secrets()]

    async def _finish(self, run: Run, outcome: Outcome, reason: str | None) -> None:
        """Record the end, and tell it where something had begun."""
        record = run.ended(outcome, reason, self._known_secrets())

        async def tell() -> None:
            await self._keeping.run(keep, self._records, record)
            if run.has_begun:
                logger.info("a run of an agent has ended: %s, %d turns", outcome, run.tally.turns)
                if self.on_finished is not None:
                    self.on_finished(record.facts())

        await self._unbroken.whole(tell)()

    async def _keep(self, record: Record) -> None:
        await self._unbroken.whole(self._keeping.run)(keep, self._records, record)


def _converse(target: Target, agent: Definition, task: str) -> Conversation:
    """Blocks, at the first run for the seconds that the library takes to load."""
    from sidecar.services.agents.conversation import Conversation

    return Conversation(target, agent, task)
