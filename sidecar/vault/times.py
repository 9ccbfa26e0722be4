"""Points in time as people and programs write them into notes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_WRITTEN: Final = re.compile(
    r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})"
    r"(?:(?:[Tt]|,?[ \t]{1,4})(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d{1,12})?)?"
    r"[ \t]{0,4}(?:([Zz]|UTC|GMT)|([+-])(\d{2}):?(\d{2})?)?)?",
    re.ASCII,
)
_EPOCH: Final = re.compile(r"(\d{9,11})(\d{3})?", re.ASCII)  # in seconds, or in milliseconds as Dendron writes them


def rfc3339(seconds: int) -> str:
    """A point in time, in seconds since 1970, such as `2026-11-30T11:12:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat() + "Z"


def instant(text: str) -> str | None:
    """RFC 3339 in UTC with whole seconds, such as `2026-11-30T11:12:00Z`; None if the text is no point in time.

    A bare date is its midnight in UTC, and a time without an offset is in UTC.
    """
    text = text.strip()
    try:
        if found := _WRITTEN.fullmatch(text):
            year, _, month, day, hour, minute, second, _, sign, hours, minutes = found.groups()
            offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
            clock = (int(hour or 0), int(minute or 0), int(second or 0))
            moment = datetime(int(year), int(month), int(day), *clock, tzinfo=timezone(offset))
        elif found := _EPOCH.fullmatch(text):
            moment = datetime.fromtimestamp(int(found.group(1)), UTC)
        else:
            return None
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    except (ValueError, OverflowError):  # the 45th of a month, an offset of 99 hours, the year 0
        return None
