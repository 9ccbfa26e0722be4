"""Lanes: results in order, urgent calls first, errors to whoever asked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sidecar.index.embed.lanes import Lanes


def test_results_come_in_the_order_of_the_items() -> None:
    lanes = Lanes("abc", "test")
    assert lanes.map(lambda _, number: number * number, range(100)) == [number * number for number in range(100)]
    assert lanes.map(lambda _, item: item, []) == []
    lanes.close()


def test_an_urgent_call_waits_for_the_items_under_way_and_for_no_others() -> None:
    lanes = Lanes("a", "test")
    order: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    def do(_: str, item: str) -> None:
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


def test_all_lanes_take_part_in_one_call_each_with_its_tool() -> None:
    lanes = Lanes("ab", "test")
    both = threading.Barrier(2, timeout=30)
    assert sorted(lanes.map(lambda tool, _: (both.wait(), tool)[1], range(2))) == ["a", "b"]
    lanes.close()


def test_what_an_item_raises_reaches_the_caller_and_the_lane_goes_on() -> None:
    lanes = Lanes("a", "test")
    with pytest.raises(ZeroDivisionError):
        lanes.map(lambda _, number: 1 // number, [1, 0])
    assert lanes.map(lambda _, number: 1 // number, [1]) == [1]
    lanes.close()


def test_closing_ends_the_threads() -> None:
    lanes = Lanes("ab", "lane to close")
    lanes.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lane to close")]
