"""`proposal.json` of `proposals/v1`: what a proposal says of itself, and what became of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Literal, cast, get_args

from sidecar.errors import BadArguments, Unreadable

Status = Literal["open", "applied", "rejected"]
By = Literal["cli", "plugin", "console"]
"""By what a person decided."""

FOLDER: Final = ".kp/proposals"
MAX_BYTES: Final = 2 << 20
"""Of one `proposal.json`; title, rationale and a hundred paths need less, whatever is in them."""

MAX_REASON: Final = 2000
"""Characters of what a person gives as a reason."""

_SCHEMA: Final = "proposals/v1"
_UTC: Final = ("Z", "+00:00")


@dataclass(frozen=True, slots=True)
class Resolution:
    """What was decided. `by` is one of `By`, or `auto`, which others write."""

    at: str
    by: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A suggestion to change notes. Times are RFC 3339 in UTC."""

    id: str
    """A ULID, and the name of its folder."""
    created: str
    author: str
    """`mcp:AGENT`, or `librarian` for digests."""
    title: str
    rationale: str
    status: Status
    files: tuple[str, ...]
    """Paths of the notes, in the order of the author."""
    resolution: Resolution | None = None

    @property
    def dir(self) -> str:
        """Its folder in the vault."""
        return f"{FOLDER}/{self.id}"

    def facts(self) -> dict[str, Any]:
        """As JSON, for programs."""
        return {**asdict(self), "dir": self.dir, "files": list(self.files)}


def encode(proposal: Proposal) -> bytes:
    """The bytes of a new `proposal.json`."""
    facts = asdict(proposal)
    del facts["resolution"]  # an open one has none
    return _json({"schema": _SCHEMA, **facts})


def decode(name: str, data: bytes) -> Proposal:
    """The proposal in the folder `name`.

    Raises:
        Unreadable: it is not what `proposals/v1` says; the message says where, in small letters without a full stop.
    """
    facts = _object(data)
    _expect(facts.get("schema") == _SCHEMA, f"its schema is not {_SCHEMA}")
    _expect(facts.get("id") == name, "its id is not the name of its folder")
    for key in ("created", "author", "title", "rationale"):
        _expect(isinstance(facts.get(key), str), f"{key} is no text")
        _expect(bool(facts[key]) or key == "rationale", f"{key} is empty")
    _expect(_is_utc(facts["created"]), "created is no time in UTC")
    _expect(facts.get("status") in get_args(Status), "status is none of open, applied, rejected")
    return Proposal(
        id=name,
        created=facts["created"],
        author=facts["author"],
        title=facts["title"],
        rationale=facts["rationale"],
        status=facts["status"],
        files=_files(facts.get("files")),
        resolution=_resolution(facts.get("resolution"), is_open=facts["status"] == "open"),
    )


def stamped(data: bytes, status: Status, resolution: Resolution) -> bytes:
    """A `proposal.json` with its decision; whatever else it holds stays."""
    made = {key: value for key, value in asdict(resolution).items() if value is not None}
    return _json({**_object(data), "status": status, "resolution": made})


def refuse_no_reason(reason: str) -> None:
    """Refuse what can't be written into a record.

    Raises:
        BadArguments: it is too long, or holds half a character.
    """
    if len(reason) > MAX_REASON:
        raise BadArguments(f"reason: at most {MAX_REASON:,} characters.")
    try:
        reason.encode()
    except UnicodeEncodeError:
        raise BadArguments("reason: must be text.") from None


def _json(facts: dict[str, Any]) -> bytes:
    return (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode()


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as bad:
        raise Unreadable("proposal.json is no JSON") from bad
    _expect(isinstance(found, dict), "proposal.json holds no object")
    facts = cast("dict[str, Any]", found)
    try:
        _json(facts)
    except (ValueError, RecursionError) as bad:  # half a character, or nested too deep: no stamp could be set
        raise Unreadable("proposal.json holds what can't be written again") from bad
    return facts


def _files(found: object) -> tuple[str, ...]:
    listed = cast("list[object]", found) if isinstance(found, list) else []
    paths = [path for path in listed if isinstance(path, str) and path and not path.startswith("/")]
    _expect(bool(paths) and len(paths) == len(listed), "files is no list of paths")
    _expect(len(set(paths)) == len(paths), "files names a path twice")
    return tuple(paths)


def _resolution(found: object, *, is_open: bool) -> Resolution | None:
    if found is None:
        return None
    _expect(not is_open, "it is open and has a resolution")
    facts = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    at, by, reason = facts.get("at"), facts.get("by"), facts.get("reason")
    _expect(isinstance(at, str) and _is_utc(at) and by in (*get_args(By), "auto"), "its resolution is damaged")
    _expect(reason is None or isinstance(reason, str), "its resolution is damaged")
    return Resolution(str(at), str(by), cast("str | None", reason))


def _is_utc(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return text.endswith(_UTC)


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Unreadable(otherwise)
