"""Every error the product raises on purpose.

SidecarError
├── BadArguments      the caller's arguments are wrong
├── BadPath           a path that can't be inside the vault
├── BadConfig         a setting is wrong; the start is refused
├── Overridden        what should change is decided in a stronger place
├── NotFound          what was asked for is not there
├── Unreadable        it is there but can't be read
│   ├── VaultAway     the vault's folder itself is gone
│   └── KeyringAway   the system's keyring can't be used
├── TooLarge          over a stated limit
├── Protected         callers may not change it
├── Conflict          it is not as the change expects it
├── NotWritten        the disk refused a change
├── NotReady          the index is still being built
├── VectorsAway       the vector index can't answer now; keywords can
├── Busy              a limit on concurrent work is reached
├── NotRunnable       an agent can't be run, or not by clients
├── RunFailed         an agent's run ended without an answer
├── AlreadyServed     another daemon serves this vault
├── PortTaken         the pinned port is in use
└── Unreachable       no daemon answers, or it is not the right one

They become replies at the edges alone: isError in the protocol room, a status
and one JSON shape in the web room, stderr and an exit code in the cli room.
A message never carries a token, note content or an absolute path of the
user's machine.
"""

from __future__ import annotations

from typing import ClassVar


class SidecarError(Exception):
    """Base class. `code` is stable; the message is for people and may change."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1


class BadArguments(SidecarError):
    """One line per mistake, in the order of the schema."""

    code = "bad_arguments"
    status = 400


class BadPath(SidecarError):
    """The text is no path inside the vault; nothing on disk was looked at."""

    code = "bad_path"
    status = 400


class BadConfig(SidecarError):
    """A setting is unknown, of the wrong type or unsafe; the message names its key."""

    code = "bad_config"
    status = 500
    exit_code = 2


class Overridden(SidecarError):
    """What should change comes from a stronger place, such as an environment variable; the message names it."""

    code = "overridden"
    status = 409


class NotFound(SidecarError):
    """No such note, folder or id."""

    code = "not_found"
    status = 404


class Unreadable(SidecarError):
    """The file exists but can't be read: permission, kind of file, device, I/O."""

    code = "unreadable"
    status = 409


class VaultAway(Unreadable):
    """The vault's folder is missing, or another one is in its place. Nothing may be concluded about its notes."""

    code = "vault_away"
    status = 503


class KeyringAway(Unreadable):
    """The system's keyring is missing or locked, does not answer, or forgets."""

    code = "keyring_away"


class TooLarge(SidecarError):
    """A stated size limit is passed."""

    code = "too_large"
    status = 413


class Protected(SidecarError):
    """It exists for its owner alone to change."""

    code = "protected"
    status = 403


class Conflict(SidecarError):
    """What is there now is not what the change was made for; looking again helps."""

    code = "conflict"
    status = 409


class NotWritten(SidecarError):
    """The system refused a change; the message says what it left behind."""

    code = "not_written"
    status = 503


class NotReady(SidecarError):
    """Nothing can be answered yet; trying again soon helps."""

    code = "not_ready"
    status = 503


class VectorsAway(SidecarError):
    """The vector index is off or starting, or its process ended or does not answer. Keywords still find."""

    code = "vectors_away"
    status = 503


class Busy(SidecarError):
    """A limit on concurrent work is reached; trying later helps."""

    code = "busy"
    status = 429


class NotRunnable(SidecarError):
    """An agent has a mistake, lacks something, or its owner did not allow it; nothing was started."""

    code = "not_runnable"
    status = 409


class RunFailed(SidecarError):
    """An agent's run ended without an answer; the message says why."""

    code = "run_failed"
    status = 502


class AlreadyServed(SidecarError):
    """Another daemon holds this vault's lock."""

    code = "already_served"
    status = 409
    exit_code = 3


class PortTaken(SidecarError):
    """The pinned port is in use by another program."""

    code = "port_taken"
    status = 409


class Unreachable(SidecarError):
    """No daemon answers at the recorded address, or it could not prove that it is ours."""

    code = "unreachable"
    status = 503
