"""Lanes: results in order, urgent calls first, errors to whoever asked."""

from __future__ import annotations

import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from sidecar.index.embed.lanes import Lanes


def test_results_come_in_the_order_of_the_items() -> None:
    lanes = Lanes(3, object, "test")
    assert lanes.map(lambda _, number: number * number, range(100)) == [number * number for number in range(100)]
    assert lanes.map(lambda _, item: item, []) == []
    lanes.close()


def test_an_urgent_call_waits_for_the_items_under_way_and_for_no_others() -> None:
    lanes = Lanes(1, object, "test")
    order: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    def do(_: object, item: str) -> None:
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
    tools = iter("ab")
    lanes = Lanes(2, lambda: next(tools), "test")
    both = threading.Barrier(2, timeout=30)
    assert sorted(lanes.map(lambda tool, _: (both.wait(), tool)[1], range(2))) == ["a", "b"]
    lanes.close()


def test_what_an_item_raises_reaches_the_caller_and_the_lane_goes_on() -> None:
    lanes = Lanes(1, object, "test")
    with pytest.raises(ZeroDivisionError):
        lanes.map(lambda _, number: 1 // number, [1, 0])
    assert lanes.map(lambda _, number: 1 // number, [1]) == [1]
    lanes.close()


def test_closing_ends_the_threads() -> None:
    lanes = Lanes(2, object, "lane to close")
    lanes.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lane to close")]


def test_a_lane_without_work_lets_go_of_its_tool_and_makes_another() -> None:
    class Tool:
        pass

    made: list[weakref.ref[Tool]] = []
    rested = threading.Event()

    def make() -> Tool:
        tool = Tool()
        made.append(weakref.ref(tool))
        return tool

    def until_the_next_waits(_tool: Tool, item: str) -> None:
        while item == "a" and not lanes.waiting:
            time.sleep(0.001)

    lanes = Lanes(1, make, "test", rest_s=0.01, rested=rested.set)
    assert made == [], "none is made before there is work"
    lanes.map(until_the_next_waits, "ab")
    assert rested.wait(30)
    assert made[0]() is None
    lanes.map(lambda _tool, _item: None, "c")
    assert len(made) == 2
    lanes.close()


def test_a_lane_that_is_not_told_to_rest_keeps_its_tool() -> None:
    made: list[object] = []
    lanes = Lanes(1, lambda: made.append(object()), "test", rested=lambda: pytest.fail("it rested"))
    for item in "abc":
        lanes.map(lambda _tool, _item: time.sleep(0.02), item)
    lanes.close()
    assert len(made) == 1


def test_a_tool_that_can_not_be_made_is_the_error_of_the_call_and_is_tried_again() -> None:
    tries = iter([MemoryError("no room"), None])

    def make() -> object:
        if failed := next(tries):
            raise failed
        return object()

    lanes = Lanes(1, make, "test")
    with pytest.raises(MemoryError):
        lanes.map(lambda _tool, item: item, "a")
    assert lanes.map(lambda _tool, item: item, "b") == ["b"]
    lanes.close()
