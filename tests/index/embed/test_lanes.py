"""Lanes: results in order, urgent calls first, errors to whoever asked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sidecar.index.embed.lanes import Lanes


def test_results_come_in_the_order_of_the_items() -> None:
    lanes = Lanes(3, "test")
    assert lanes.map(lambda number: number * number, range(100)) == [number * number for number in range(100)]
    assert lanes.map(str, []) == []
    lanes.close()


def test_an_urgent_call_waits_for_the_items_under_way_and_for_no_others() -> None:
    lanes = Lanes(1, "test")
    order: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    def do(item: str) -> None:
        began.set()
        go_on.wait(30)
        order.append(item)

    with ThreadPoolExecutor() as callers:
        patient = callers.submit(lanes.map, do, ["first", "second", "third"])
        assert began.wait(30)
        urgent = callers.submit(lanes.map, do, ["urgent"], urgent=True)
        while lanes.waiting < 3:
            threading.Event().wait(0.001)
        go_on.set()
        urgent.result()
        patient.result()
    assert order == ["first", "urgent", "second", "third"]
    lanes.close()


def test_all_lanes_take_part_in_one_call() -> None:
    lanes = Lanes(2, "test")
    both = threading.Barrier(2, timeout=30)
    lanes.map(lambda _: both.wait(), range(2))
    lanes.close()


def test_what_an_item_raises_reaches_the_caller_and_the_lane_goes_on() -> None:
    lanes = Lanes(1, "test")
    with pytest.raises(ZeroDivisionError):
        lanes.map(lambda number: 1 // number, [1, 0])
    assert lanes.map(lambda number: 1 // number, [1]) == [1]
    lanes.close()


def test_closing_ends_the_threads() -> None:
    lanes = Lanes(2, "lane to close")
    lanes.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lane to close")]
