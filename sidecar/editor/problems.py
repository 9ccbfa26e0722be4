"""What is wrong, for the plugin to show: a stable code, what happened, what to do. The words are the daemon's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.errors import (
    AlreadyServed,
    BadArguments,
    BadConfig,
    BadPath,
    Busy,
    Conflict,
    KeyringAway,
    NotFound,
    NotReady,
    NotRunnable,
    NotWritten,
    Overridden,
    PortTaken,
    Protected,
    RunFailed,
    SidecarError,
    TooLarge,
    Unreachable,
    Unreadable,
    VaultAway,
    VectorsAway,
)
from sidecar.vault.paths import printable

Problem = dict[str, Any]
"""As `error.data` of the protocol."""

_LONGEST = 300

_TRY_AGAIN: Final = "Try again."
_SEE_LOG: Final = "The log says more."

_CODES: Final[Mapping[type[SidecarError], tuple[str, str]]] = {
    BadArguments: ("bad-params", ""),
    BadPath: ("bad-params", ""),
    BadConfig: ("config", "Correct the setting, then turn the server on again."),
    Overridden: ("overridden", ""),
    NotFound: ("no-such", ""),
    VaultAway: ("vault", "Bring the folder back; the server goes on by itself."),
    KeyringAway: ("keyring", "Unlock it, then try again."),
    Unreadable: ("disk", _SEE_LOG),
    TooLarge: ("too-large", ""),
    Protected: ("protected", ""),
    Conflict: ("conflict", "Look at it again."),
    NotWritten: ("disk", _TRY_AGAIN),
    NotReady: ("not-ready", _TRY_AGAIN),
    VectorsAway: ("vectors", "Search by words goes on."),
    NotRunnable: ("agent", ""),
    RunFailed: ("agent", ""),
    Busy: ("busy", "Try again later."),
    AlreadyServed: ("already-running", "Stop it, or go on using it."),
    PortTaken: ("port", "Choose another port."),
    Unreachable: ("internal", _TRY_AGAIN),
}


class Refusal(Exception):
    """An answer that refuses. `problem` is its data, `number` JSON-RPC's own code for it."""

    def __init__(self, problem: Problem, number: int = -32000) -> None:
        super().__init__(problem["reason"])
        self.problem = problem
        self.number = number


def problem(code: str, reason: str, fix: str = "", *, command: str | None = None, port: int | None = None) -> Problem:
    """`reason` becomes one sentence on one line; `port` is one that is free."""
    found: Problem = {"code": code, "reason": _sentence(reason), "fix": fix}
    if command is not None:
        found["command"] = command
    if port is not None:
        found["suggestPort"] = port
    return found


def of_error(error: Exception) -> Problem:
    """What is raised on purpose says itself what is wrong; of anything else the log has the rest."""
    for kind, (code, fix) in _CODES.items():
        if isinstance(error, kind):
            return problem(code, str(error), fix)
    if isinstance(error, SidecarError):
        return problem("internal", str(error), _SEE_LOG)
    return problem("internal", "The sidecar made a mistake.", _SEE_LOG)


def unavailable(method: str) -> Refusal:
    """The method belongs to a part that this version doesn't have."""
    text = f"'{method}' is not in this version of the sidecar."
    return Refusal(problem("unavailable", text, "Update the sidecar."), -32601)


def _sentence(text: str) -> str:
    """One line of at most 300 characters, which begins with a capital letter and ends with a point."""
    line = " ".join(printable(part.strip()) for part in text.splitlines() if part.strip()) or "Something went wrong"
    if line[0].islower() and " " in line:
        line = line[0].upper() + line[1:]
    if len(line) > _LONGEST:
        line = line[: _LONGEST - 1].rstrip() + "…"
    return line if line[-1] in ".!?…" else line + "."
