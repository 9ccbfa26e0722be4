from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.vault.times import instant


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-04-05", "2026-04-05T00:00:00Z"),
        (" 2026-4-5 ", "2026-04-05T00:00:00Z"),
        ("2026/04/05", "2026-04-05T00:00:00Z"),
        ("2026-04-05T10:11:12Z", "2026-04-05T10:11:12Z"),
        ("2026-04-05t10:11:12z", "2026-04-05T10:11:12Z"),
        ("2026-04-05T10:11:12.999999Z", "2026-04-05T10:11:12Z"),
        ("2026-04-05T10:11:12+00:00", "2026-04-05T10:11:12Z"),
        ("2026-04-05T10:11:12+02:00", "2026-04-05T08:11:12Z"),
        ("2026-04-05 10:11:12 -0530", "2026-04-05T15:41:12Z"),
        ("2026-04-05 10:11", "2026-04-05T10:11:00Z"),
        ("2026-04-05, 9:05", "2026-04-05T09:05:00Z"),
        ("2026-01-01T00:30:00+01", "2025-12-31T23:30:00Z"),
        ("1598648640000", "2020-08-28T21:04:00Z"),
        ("1598648640", "2020-08-28T21:04:00Z"),
        ("0001-01-01", "0001-01-01T00:00:00Z"),
        ("2024-02-29", "2024-02-29T00:00:00Z"),
    ],
)
def test_what_people_and_programs_write_is_read(text: str, moment: str) -> None:
    assert instant(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "2026-13-45", "2026-02-29", "2026-04-31", "0000-01-01", "0001-01-01T00:00:00+01:00", "2026", "20260405",
        "9999-12-31T23:59:59-01:00", "2026-04-05T24:00:00Z", "2026-04-05T10:60:00Z", "2026-04-05T10:00:00+99:00",
        "2026-04-05T10", "2026-04/05", "5.4.2026", "April 5, 2026", "yesterday", "{{date}}", "", "1:59:59",
        "٢٠٢٦-٠٤-٠٥", "99999999999999999", "2026-04-05T10:11:12Z" + " " * 100_000 + "x", "2026-04-05Tx",
    ],
)  # fmt: skip
def test_what_is_no_point_in_time_is_none(text: str) -> None:
    assert instant(text) is None


@given(st.datetimes(timezones=st.timezones()) | st.datetimes())
def test_iso_texts_are_read_in_the_promised_form(moment: object) -> None:
    read = instant(str(moment))
    assert read is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", read)


@given(st.text())
def test_any_text_is_read_or_none(text: str) -> None:
    instant(text)
