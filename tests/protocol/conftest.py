from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import Running, in_thread


@pytest.fixture
def lab() -> Iterator[Running]:
    """The lab surface, served from another thread."""
    with in_thread() as running:
        yield running
