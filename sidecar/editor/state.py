"""Tells the plugin how the daemon is: soon after something changed, and no more often than can be looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sidecar.editor.problems import Problem, problem

Facts = Mapping[str, Any]

_PAUSE_S = 0.2  # 5 a second
_QUIET_S = 10.0  # what has no event of its own, such as a vector worker that ended, is seen after so long
_BUSY_S = 0.5
_SHORT_WORK_S = 1.0  # taking in a few saved notes is done before anyone could read about it

_READY, _AWAY = "ready", "vault unavailable"


def state_of(facts: Facts, *, busy_for_s: float | None = None) -> Facts:
    """The protocol's `state` from the facts of `status`.

    `busy_for_s`: since when the index works again after it was ready once; a moment of that is not shown.
    """
    phase, progress, notes = facts["phase"], facts["progress"], facts["notes"]
    is_short = busy_for_s is not None and busy_for_s < _SHORT_WORK_S
    refused = facts["last_refused"]
    return {
        "phase": "running" if phase in (_READY, _AWAY) or is_short else "indexing",
        "port": facts["port"],
        "url": facts["url"],
        "done": progress["done"],
        "total": progress["total"],
        "notes": notes["total"],
        "indexed": notes["keyword"],
        "byMeaning": notes["vector"],
        "settled": is_settled(facts),
        "clients": len(facts["clients"]),
        "refused": refused and {key: refused[key] for key in ("at", "agent", "reason", "status")},
        "problem": _problem(facts),
    }


def is_settled(facts: Facts) -> bool:
    """Whether nothing is left to do that can be done now."""
    chunks = facts["chunks"]
    is_meaning_made = chunks["vector"] >= chunks["total"] or facts["vectors"].startswith(("off", "away"))
    return facts["settled"] and is_meaning_made


def starting() -> Facts:
    """The `state` while no client can connect yet."""
    numbers = dict.fromkeys(("done", "total", "notes", "indexed", "byMeaning", "clients"), 0)
    nothing = dict.fromkeys(("port", "url", "refused", "problem"))
    return {"phase": "starting", **nothing, **numbers, "settled": False}


def _problem(facts: Facts) -> Problem | None:
    """The gravest thing that is wrong while the daemon works."""
    if facts["phase"] == _AWAY:
        return problem("vault", "The vault's folder is missing.", "Bring it back; the server goes on by itself.")
    state, _, why = facts["vectors"].partition(": ")
    if state == "away" or (state == "off" and why):  # "off" alone is somebody's wish
        reason = f"Search by meaning is away: {why}" if why else "Search by meaning is away."
        return problem("vectors", reason, "Search by words goes on.")
    skipped, total = facts["notes"]["skipped"], facts["notes"]["total"]
    if skipped:
        reason = f"Some notes could not be indexed: {skipped:,} of {max(total, skipped):,}."
        return problem("index", reason, "Search works for the rest.")
    if facts["last_problem"]:
        return problem("index", facts["last_problem"], "The log says more.")
    return None


class StateWatch:
    """Looks at the daemon whenever it may have changed, and passes on what is new."""

    def __init__(
        self,
        status: Callable[[], Awaitable[Facts]],
        wait: Callable[[int, float], Awaitable[Facts]],
        tell: Callable[[Facts], None],
        touched: asyncio.Event,
    ) -> None:
        """`wait` returns when the index is beyond a generation, or after so many seconds; `tell` gets the `state`.

        Set `touched` when something may have changed that no generation tells of.
        """
        self._status = status
        self._wait = wait
        self._tell = tell
        self._touched = touched
        self._was_ready = False
        self._busy_since: float | None = None
        self._last: Facts | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._touched.clear()
            facts = await self._status()
            state = self._state(facts)
            if state != self._last:
                self._last = state
                self._tell(state)
            await asyncio.sleep(_PAUSE_S)
            is_quiet = facts["phase"] == _READY and is_settled(facts)
            await self._something(facts["generation"], _QUIET_S if is_quiet else _BUSY_S)

    def _state(self, facts: Facts) -> Facts:
        now = asyncio.get_running_loop().time()
        if facts["phase"] in (_READY, _AWAY):
            self._was_ready, self._busy_since = True, None
        elif self._busy_since is None:
            self._busy_since = now
        return state_of(facts, busy_for_s=now - self._busy_since if self._was_ready and self._busy_since else None)

    async def _something(self, generation: int, within_s: float) -> None:
        """Wait for a touch or a newer generation, but no longer than that."""
        waits: tuple[asyncio.Future[Any], ...] = (
            asyncio.ensure_future(self._touched.wait()),
            asyncio.ensure_future(self._wait(generation, within_s)),
        )
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.wait(waits)
