"""Lines in, within bounds."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.protocol.stdio import lines


def read(content: bytes, most: int = 10) -> list[bytes | None]:
    return list(lines.read(io.BufferedReader(io.BytesIO(content)), lambda: most))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb", [b"a", b"b"]),
        (b"\n \n\r\na\n", [b"a"]),
        (b"0123456789\n", [b"0123456789"]),
        (b"0123456789\r\n", [b"0123456789"]),
        (b"0123456789", [b"0123456789"]),
        (b"01234567890\na\n", [None, b"a"]),
        (b"01234567890123\na\n", [None, b"a"]),
        (b"x" * 5_000_000 + b"\na\n", [None, b"a"]),
        (b"x" * 5_000_000, [None]),
    ],
)
def test_lines_are_cut_at_their_ends_and_dropped_when_too_long(content: bytes, expected: list[bytes | None]) -> None:
    assert read(content) == expected


@given(st.lists(st.binary(max_size=30).filter(lambda line: not set(line) & set(b"\r\n") and line.strip())))
def test_every_line_comes_out_once_and_in_order(given_lines: list[bytes]) -> None:
    content = b"".join(line + b"\n" for line in given_lines)
    assert read(content) == [line if len(line) <= 10 else None for line in given_lines]
