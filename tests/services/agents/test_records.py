"""The records of runs."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.errors import SidecarError
from sidecar.services.agents.records import FILE_NAME, Outcome, Record, Records
from sidecar.ulids import new_ulid

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


def record(task: str = "t", outcome: Outcome = "running") -> Record:
    return Record(
        id=new_ulid(),
        agent="Scout",
        task=task,
        client=None,
        caller="local",
        way="mcp",
        outcome=outcome,
        started_at="2026-11-30T11:12:00Z",
    )


def lines(state: Path) -> list[str]:
    return (state / FILE_NAME).read_text().splitlines()


def test_the_last_line_of_a_run_counts(state: Path) -> None:
    first, second = record("a"), record("b")
    records = Records(state)
    for each in (first, second, replace(first, outcome="done", chars=3)):
        records.add(each)
    assert [(each.task, each.outcome) for each in Records(state).newest()] == [("b", "running"), ("a", "done")]
    assert [json.loads(line)["outcome"] for line in lines(state)] == ["running", "running", "done"]


def test_the_file_is_private(state: Path) -> None:
    Records(state).add(record())
    assert stat.S_IMODE((state / FILE_NAME).stat().st_mode) == 0o600


def test_no_records_are_none(state: Path) -> None:
    assert Records(state).newest() == []
    assert not (state / FILE_NAME).exists()


def test_of_501_runs_the_newest_500_are_kept(state: Path) -> None:
    records = Records(state)
    for number in range(501):
        records.add(record(str(number), "done"))
    kept = [str(number) for number in range(500, 0, -1)]
    assert [each.task for each in records.newest()] == kept
    assert [each.task for each in records.newest(2)] == ["500", "499"]
    assert Records(state).settle() == 0
    assert len(lines(state)) == 500
    assert [each.task for each in Records(state).newest()] == kept


def test_the_file_does_not_grow_without_end(state: Path) -> None:
    records = Records(state)
    for number in range(1500):
        records.add(record(str(number), "busy"))
    assert 500 <= len(lines(state)) <= 701


def test_what_was_running_is_closed_at_the_next_start(state: Path) -> None:
    done = record("done")
    records = Records(state)
    for each in (record("cut off"), done, replace(done, outcome="done")):
        records.add(each)
    assert Records(state).settle() == 1
    [newest, interrupted] = Records(state).newest()
    assert (newest.outcome, interrupted.outcome) == ("done", "interrupted")
    assert interrupted.reason == "'Scout' was interrupted: the daemon ended."
    assert interrupted.ended_at is not None
    assert Records(state).settle() == 0


@pytest.mark.parametrize("damage", ['{"id": "01', "null", "[]", '{"id": 1}', "\x00\x01", "[" * 100_000, "{}"])
def test_a_damaged_line_costs_itself_alone(state: Path, damage: str) -> None:
    Records(state).add(record("before", "done"))
    with (state / FILE_NAME).open("a") as file:
        file.write(damage)  # and no line end
    Records(state).add(record("after", "done"))
    assert [each.task for each in Records(state).newest()] == ["after", "before"]


def test_two_writers_never_tear_a_line(state: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from pathlib import Path; from sidecar.services.agents.records import Records;"
        "from tests.services.agents.test_records import record;"
        "records = Records(Path(sys.argv[2]));"
        "[records.add(record(sys.argv[3] * 200, 'done')) for _ in range(190)]"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(REPOSITORY), str(state), letter], cwd=REPOSITORY)
        for letter in "ab"
    ]
    assert [writer.wait(110) for writer in writers] == [0, 0]
    # one that looks while the other's line is half there puts a line's end of its own first
    tasks = [json.loads(line)["task"] for line in lines(state) if line]
    assert sorted(tasks) == ["a" * 200] * 190 + ["b" * 200] * 190


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_full_disk_costs_the_line_and_no_other(state: Path) -> None:
    """In a process of its own, because the limit is the process's; `-B`, or a compiled module is cut off."""
    Records(state).add(record("before", "done"))
    size = (state / FILE_NAME).stat().st_size

    def limited() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, resource.RLIM_INFINITY))

    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from pathlib import Path; from sidecar.errors import SidecarError;"
        "from sidecar.services.agents.records import Records;"
        "from tests.services.agents.test_records import record\n"
        "try:\n    Records(Path(sys.argv[2])).add(record('lost', 'done'))\n"
        "except SidecarError as refused:\n    print(refused)"
    )
    said = subprocess.run(
        [sys.executable, "-B", "-c", code, str(REPOSITORY), str(state)],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
        preexec_fn=limited,
    )
    assert "runs.jsonl can't be written" in said.stdout
    Records(state).add(record("after", "done"))
    assert [each.task for each in Records(state).newest()] == ["after", "before"]


def test_a_file_that_is_not_ours_is_neither_read_nor_written(state: Path) -> None:
    canary = state.parent / "canary"
    canary.write_text("")
    os.symlink(canary, state / FILE_NAME)
    for act in (Records(state).newest, lambda: Records(state).add(record())):
        with pytest.raises(SidecarError):
            act()
    assert canary.read_text() == ""
