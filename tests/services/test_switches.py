"""The switch of writes holds at once, lasts, and does not pretend where a stronger place decides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sidecar.bridge import private_files
from sidecar.bridge.settings import read_settings, set_setting
from sidecar.errors import BadConfig, Overridden
from sidecar.services.switches import VARIABLE, Switches
from sidecar.tasks import Lane


@pytest.fixture
async def lane() -> AsyncIterator[Lane]:
    lane = Lane("settings")
    yield lane
    await lane.close()


@pytest.fixture
def switches(tmp_path: Path, lane: Lane) -> Switches:
    return Switches(False, tmp_path, lane, {})


def stored(state: Path) -> object:
    return read_settings(state).get("notes", {}).get("allow_writes")


async def test_a_change_is_stored_and_told_once(switches: Switches, tmp_path: Path) -> None:
    await asyncio.to_thread(set_setting, tmp_path, "http", "port", 24783)
    told: list[bool] = []

    async def tell() -> None:
        told.append(switches.allow_writes)

    switches.on_changed = tell
    for on in (True, True, False, False, True):
        await switches.set_writes(on)
        assert await asyncio.to_thread(stored, tmp_path) is on
    assert told == [True, False, True]
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert settings == {"http": {"port": 24783}, "notes": {"allow_writes": True}}


async def test_what_is_set_elsewhere_is_not_switched(tmp_path: Path, lane: Lane) -> None:
    switches = Switches(False, tmp_path, lane, {VARIABLE: "false"})
    with pytest.raises(Overridden) as refused:
        await switches.set_writes(True)
    assert str(refused.value) == (
        "Allow writes comes from the environment variable VAULT_SIDECAR_NOTES_ALLOW_WRITES;"
        " change it there and restart."
    )
    assert (switches.allow_writes, list(tmp_path.iterdir())) == (False, [])


@pytest.mark.parametrize("on", [True, False])
async def test_what_can_not_be_stored_does_not_hold(switches: Switches, tmp_path: Path, on: bool) -> None:
    await asyncio.to_thread(private_files.write, tmp_path / "settings.json", b"damaged")
    switches.allow_writes = not on
    with pytest.raises(BadConfig):
        await switches.set_writes(on)
    assert switches.allow_writes is not on
