"""`proposal.json`: what is written is read again, and what breaks the schema is not believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar.errors import Unreadable
from sidecar.services.proposal_record import Proposal, Resolution, decode, encode, stamped

ID = "01ARYZ6S410000000000000000"
OPEN = Proposal(ID, "2026-11-30T10:00:00Z", "mcp:local", "Title", "", "open", ("A.md", "B.md"))


def test_what_is_written_is_read_again() -> None:
    assert decode(ID, encode(OPEN)) == OPEN


def test_a_stamp_keeps_all_else() -> None:
    record = json.loads(encode(OPEN)) | {"theirs": {"a": [1]}}
    data = stamped(json.dumps(record).encode(), "rejected", Resolution("2026-11-30T11:00:00Z", "cli", "No."))
    assert json.loads(data) == record | {
        "status": "rejected", "resolution": {"at": "2026-11-30T11:00:00Z", "by": "cli", "reason": "No."}
    }  # fmt: skip
    assert decode(ID, data).resolution == Resolution("2026-11-30T11:00:00Z", "cli", "No.")


@pytest.mark.parametrize("by", ["cli", "plugin", "console", "auto"])
def test_whoever_decided_is_known(by: str) -> None:
    data = stamped(encode(OPEN), "applied", Resolution("2026-11-30T11:00:00+00:00", by))
    assert decode(ID, data).resolution == Resolution("2026-11-30T11:00:00+00:00", by)


BROKEN: dict[str, Any] = {
    "no JSON": b"{",
    "no object": b"[]",
    "deep": b"[" * 100_000,
    "not UTF-8": b"\xff",
    "half a character": {"rationale": "\ud800"},
    "half a character of a stranger": {"theirs": ["\udcff"]},
    "too deep to write": encode(OPEN).replace(b"{", b'{"theirs": ' + b"[" * 990 + b"]" * 990 + b",", 1),
    "schema": {"schema": "proposals/v2"},
    "id": {"id": "01ARYZ6S410000000000000001"},
    "created": {"created": "yesterday"},
    "created elsewhere": {"created": "2026-11-30T10:00:00+02:00"},
    "author": {"author": ""},
    "title": {"title": None},
    "rationale": {"rationale": 1},
    "status": {"status": "done"},
    "no files": {"files": []},
    "a file twice": {"files": ["x.md", "x.md"]},
    "an absolute file": {"files": ["/x.md"]},
    "files no list": {"files": "x.md"},
    "open and settled": {"resolution": {"at": "2026-11-30T10:00:00Z", "by": "cli"}},
    "settled by nobody": {"status": "applied", "resolution": {"at": "2026-11-30T10:00:00Z", "by": "me"}},
    "settled at no time": {"status": "applied", "resolution": {"at": 5, "by": "cli"}},
    "settled how": {"status": "applied", "resolution": []},
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_what_breaks_the_schema_is_not_believed(damage: Any) -> None:
    data = damage if isinstance(damage, bytes) else json.dumps(json.loads(encode(OPEN)) | damage).encode()
    with pytest.raises(Unreadable):
        decode(ID, data)
