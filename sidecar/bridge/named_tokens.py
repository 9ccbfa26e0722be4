"""The records of named tokens: whose each is, and the digest it is recognised by.

The tokens themselves are kept nowhere. The file names the main token that its
records were made beside, by fingerprint, and counts beside that one only: with
the step that makes another main token valid, every named one is revoked.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from sidecar.bridge import private_files
from sidecar.bridge.token import Caller
from sidecar.errors import BadArguments

logger = logging.getLogger(__name__)

FILE_NAME = "tokens.json"
MOST = 100
"""Named tokens of one vault: every request is compared with all of them."""

_MAX_BYTES = 1 << 17
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamedToken:
    """One record. `digest` is SHA-256 in hex, `made` RFC 3339 UTC."""

    agent: str
    org: str
    digest: str
    made: str


def check_names(agent: str, org: str) -> None:
    """May a token be named so?

    Raises:
        BadArguments: no, with one line per mistake.
    """
    right = "must be 1 to 64 of letters a to z, digits and _ . -"
    named = (("AGENT", agent), ("ORG", org))
    mistakes = [f"{what}: {right}" for what, text in named if not _NAME.fullmatch(text)]
    if agent == "local":
        mistakes.append("AGENT: 'local' is the name of the main token; choose another")
    if mistakes:
        raise BadArguments("\n".join(mistakes))


def read(state_dir: Path, beside: str) -> tuple[NamedToken, ...]:
    """The records that count beside the main token of this fingerprint, oldest first. Blocks.

    Damaged records are none: whoever they let in must be let in again by name.

    Raises:
        Unreadable, TooLarge: the file can't be believed, by the rule of `private_files`.
    """
    content = private_files.read(state_dir / FILE_NAME, max_bytes=_MAX_BYTES)
    if content is None:
        return ()
    try:
        raw = json.loads(content)
        records = tuple(_record(entry) for entry in raw["tokens"]) if raw["beside"] == beside else ()
    except (BadArguments, ValueError, TypeError, KeyError, RecursionError):
        logger.warning("%s is damaged; the named tokens in it are not valid any more", FILE_NAME)
        return ()
    return records


def write(state_dir: Path, beside: str, records: Iterable[NamedToken]) -> None:
    """Keep these records and no others. Blocks.

    Raises:
        Unreadable: the disk refused.
    """
    content = {"beside": beside, "tokens": [asdict(record) for record in records]}
    private_files.write(state_dir / FILE_NAME, json.dumps(content, indent=1).encode() + b"\n")


def callers(records: Iterable[NamedToken]) -> dict[bytes, Caller]:
    """Who comes in with them, by digest."""
    return {bytes.fromhex(record.digest): Caller(record.agent, record.org, local=False) for record in records}


def _record(raw: Any) -> NamedToken:
    """Checked by hand: a name that could not be given must not come in by the file."""
    record = NamedToken(**cast("dict[str, Any]", raw))
    check_names(record.agent, record.org)
    if not _DIGEST.fullmatch(record.digest):
        raise ValueError("digest")
    return record
