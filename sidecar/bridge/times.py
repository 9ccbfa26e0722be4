"""The time of a record of ours."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """RFC 3339 in UTC with whole seconds, such as `2026-11-30T11:12:00Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
