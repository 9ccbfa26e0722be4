"""Rows J45 to J47 over HTTP: another process swaps parts of a path while it is read, listed and indexed.

That such swapping catches a weak opener is shown beside the jail's own races.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest

from tests.security.ground import LURE, PATIENCE_S, SECRET, Ground, served, write
from tests.vault.conftest import Ground as RaceGround
from tests.vault.test_jail_races import READS, swapping


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    scratch = tmp_path_factory.mktemp("race")
    write(scratch / "base", "outside/x.md", SECRET)
    write(scratch / "base/vault", "ordinary.md")
    with served(scratch / "base", scratch / "state") as (ground, _):
        yield ground


def race(ground: Ground, row: str, *, seconds: float) -> None:
    paths = [path for path in READS[row] if ".." not in path]
    seen: set[str] = set()
    begin = time.monotonic()
    with swapping(row, RaceGround(ground.vault, ground.outside)):
        while (now := time.monotonic() - begin) < seconds or (len(seen) < 2 and now < PATIENCE_S):
            for path in paths:
                said = ground.call("read_note", path=path)
                seen.add("refused" if said.is_error else said.text)
            ground.call("search_notes", query=LURE)
    shutil.rmtree(ground.vault / "a")
    (ground.vault / "link").unlink(missing_ok=True)
    assert seen == {"inside", "refused"}
    ground.until_found("inside", ["ordinary.md"])  # INSIDE begins so
    assert ground.found(LURE) == []


@pytest.mark.parametrize("row", ["J45", "J46", "J47"])
def test_swapping_a_part_of_the_path_leads_nowhere(raced: Ground, row: str) -> None:
    race(raced, row, seconds=2)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("row", ["J45", "J46", "J47"])
def test_swapping_for_a_minute_leads_nowhere(raced: Ground, row: str) -> None:
    race(raced, row, seconds=60)
