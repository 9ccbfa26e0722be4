"""Progress for people: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest

from sidecar.cli.screen import Reporter, Screen


@dataclass(frozen=True)
class Step:
    phase: str
    done: int
    total: int


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def shown(self) -> list[str]:
        """What the terminal shows in the end, line by line."""
        lines = [""]
        for letter in self.getvalue().replace("\r\x1b[K", "\r"):
            if letter == "\n":
                lines.append("")
            elif letter == "\r":
                lines[-1] = ""
            else:
                lines[-1] += letter
        return lines


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def index_a_thousand(report: Reporter, clock: Clock, seconds: float = 10.0) -> None:
    for phase in ("opening", "scanning"):
        report(Step(phase, 0, 0))
        clock.now += 0.5
    for done in range(0, 1000):
        report(Step("indexing", done, 1000))
        clock.now += seconds / 1000
    report(Step("ready", 1000, 1000))


def test_elsewhere_than_on_a_terminal_a_thousand_steps_are_a_few_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    index_a_thousand(Reporter(Screen(stream), clock), clock)
    lines = stream.getvalue().splitlines()
    assert lines[:3] == ["opening", "scanning", "indexing: 0 of 1,000 notes"]
    assert lines[-1] == "ready: 1,000 notes"
    assert len(lines) == 3 + 4 + 1
    assert "\r" not in stream.getvalue()


def test_on_a_terminal_one_bar_is_drawn_over_itself_and_taken_away() -> None:
    stream, clock = Terminal(), Clock()
    report = Reporter(Screen(stream), clock)
    report(Step("indexing", 500, 1000))
    assert stream.shown() == ["indexing [############------------] 500 of 1,000 notes"]
    index_a_thousand(report, clock)
    assert stream.shown() == ["ready: 1,000 notes", ""]
    assert stream.getvalue().count("indexing") <= 2 + 10 / 0.1, "ten times a second at most"


def test_a_log_line_goes_above_the_bar() -> None:
    stream = Terminal()
    screen = Screen(stream)
    screen.bar("indexing 1")
    screen.line("skipped a note")
    screen.bar("indexing 2")
    assert stream.shown() == ["skipped a note", "indexing 2"]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_taking_in_a_saved_note_is_not_announced(stream: type[io.StringIO]) -> None:
    written, clock = stream(), Clock()
    report = Reporter(Screen(written), clock)
    index_a_thousand(report, clock)
    before = written.getvalue()
    for _ in range(5):
        clock.now += 60
        report(Step("indexing", 0, 1))
        clock.now += 0.2
        report(Step("indexing", 1, 1))
        report(Step("ready", 1000, 1000))
    assert written.getvalue() == before


def test_long_work_after_the_start_is_announced_with_its_end() -> None:
    stream, clock = io.StringIO(), Clock()
    report = Reporter(Screen(stream), clock)
    index_a_thousand(report, clock)
    before = len(stream.getvalue())
    index_a_thousand(report, clock)
    lines = stream.getvalue()[before:].splitlines()
    assert lines[0].startswith("indexing: ")
    assert lines[-1] == "ready: 1,000 notes"


def test_a_vault_that_is_ready_at_once_says_so_once() -> None:
    stream, clock = io.StringIO(), Clock()
    report = Reporter(Screen(stream), clock)
    for _ in range(3):
        report(Step("ready", 5, 5))
    assert stream.getvalue() == "ready: 5 notes\n"


def test_one_note_is_no_notes() -> None:
    stream = io.StringIO()
    Reporter(Screen(stream), Clock())(Step("ready", 1, 1))
    assert stream.getvalue() == "ready: 1 note\n"


def test_phases_that_change_to_and_fro_are_a_few_lines_a_second() -> None:
    stream, clock = io.StringIO(), Clock()
    report = Reporter(Screen(stream), clock)
    for step in range(1000):
        report(Step(("scanning", "indexing")[step % 2], 0, 10))
        clock.now += 0.001
    assert 1 <= len(stream.getvalue().splitlines()) <= 4


def test_the_bar_can_be_taken_away_for_good() -> None:
    stream = Terminal()
    screen = Screen(stream)
    screen.clear()
    assert stream.getvalue() == "", "there was none"
    screen.bar("indexing")
    screen.clear()
    screen.line("stopping")
    assert stream.shown() == ["stopping", ""]


def test_odd_counts_break_nothing() -> None:
    stream, clock = Terminal(), Clock()
    report = Reporter(Screen(stream), clock)
    for step in (Step("indexing", 0, 0), Step("scanning", 7, 3), Step("indexing", 3, 3)):
        report(step)
        clock.now += 1
    assert "[########################] 3 of 3 notes" in stream.shown()[-1]
