"""One daemon per vault, decided by the kernel and not by what a file says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from sidecar.bridge import endpoint, lock
from sidecar.errors import AlreadyServed, Unreadable
from tests.conftest import REPOSITORY

HOLD = """
import sys
from pathlib import Path
from sidecar.bridge import lock
from sidecar.errors import AlreadyServed
try:
    with lock.hold(Path(sys.argv[1]), "serve", sys.argv[2]):
        print("held", flush=True)
        sys.stdin.readline()
except AlreadyServed as refused:
    print(refused, flush=True)
"""


def start(state: Path, instance: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state), instance],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def other(tmp_path: Path) -> Generator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    with start(tmp_path, "other") as process:
        assert said(process) == "held"
        yield process
        process.kill()


def test_a_second_daemon_is_refused_with_the_first_ones_address(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    """D08."""
    endpoint.write(tmp_path, endpoint.Endpoint("http://127.0.0.1:5/mcp", 5, other.pid, "other", "0", "now"))
    with pytest.raises(AlreadyServed) as refused, lock.hold(tmp_path, "serve", "mine"):
        pass
    assert str(refused.value) == (
        f"another daemon (pid {other.pid}, started as 'serve') serves this vault already, at http://127.0.0.1:5/mcp"
    )
    assert refused.value.exit_code == 3
    assert lock.holder(tmp_path) == lock.Holder(other.pid, "serve", "other"), "the refused one changed nothing"


def test_the_address_of_an_earlier_run_is_not_given_for_one_that_still_starts(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    endpoint.write(tmp_path, endpoint.Endpoint("http://127.0.0.1:5/mcp", 5, 1, "earlier", "0", "then"))
    with pytest.raises(AlreadyServed, match="still starting"), lock.hold(tmp_path, "serve", "mine"):
        pass


def test_the_kernel_releases_the_lock_of_a_killed_daemon(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    """D08, D06: what the killed one left in the file does not matter."""
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert lock.holder(tmp_path) == lock.Holder(other.pid, "serve", "other")
    with lock.hold(tmp_path, "bridge", "mine"):
        assert lock.holder(tmp_path) == lock.Holder(os.getpid(), "bridge", "mine")


def test_a_live_stranger_named_in_the_file_is_left_alone(tmp_path: Path) -> None:
    """D07."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        (tmp_path / "lock").write_text(json.dumps({"pid": stranger.pid, "owner": "serve", "instance": "old"}))
        (tmp_path / "lock").chmod(0o600)
        with lock.hold(tmp_path, "serve", "mine"):
            pass
        assert stranger.poll() is None
        stranger.kill()


def test_the_lock_is_free_again_after_a_clean_end_and_after_a_failure(tmp_path: Path) -> None:
    with lock.hold(tmp_path, "serve", "one"):
        pass
    assert lock.holder(tmp_path) is None
    with pytest.raises(ZeroDivisionError), lock.hold(tmp_path, "serve", "two"):
        raise ZeroDivisionError
    assert lock.holder(tmp_path) is None
    with lock.hold(tmp_path, "serve", "three"):
        pass


def test_who_is_ended_as_soon_as_it_has_the_lock_leaves_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_content = lock._set_content

    def ended(descriptor: int, content: bytes) -> None:
        set_content(descriptor, content)
        if content:
            raise SystemExit(0)

    monkeypatch.setattr(lock, "_set_content", ended)
    with pytest.raises(SystemExit), lock.hold(tmp_path, "serve", "mine"):
        pytest.fail("it was to end before")
    assert lock.holder(tmp_path) is None


def test_the_file_is_private_and_stays(tmp_path: Path) -> None:
    """L05. A deleted name could be locked twice."""
    before = os.umask(0)
    try:
        with lock.hold(tmp_path, "serve", "one"):
            inode = (tmp_path / "lock").stat().st_ino
    finally:
        os.umask(before)
    found = (tmp_path / "lock").stat()
    assert (found.st_mode & 0o777, found.st_ino) == (0o600, inode)


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"canary")
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(Unreadable), lock.hold(tmp_path, "serve", "one"):
        pass
    assert (tmp_path / "target").read_bytes() == b"canary"


def test_of_many_that_start_at_once_exactly_one_holds_the_lock(tmp_path: Path) -> None:
    """S16, on the lock alone."""
    processes = [start(tmp_path, str(number)) for number in range(8)]
    try:
        answers = [said(process) for process in processes]
    finally:
        for process in processes:
            process.communicate("\n")
    assert answers.count("held") == 1
    assert sum("another daemon" in answer for answer in answers) == 7


def test_a_command_that_is_just_leaving_is_waited_for_however_long_it_had_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder empties its file before it lets the lock go."""
    command = lock.Holder(os.getpid(), "command", "one")
    found, now = [command, command, command, None, None], [1.0]
    monkeypatch.setattr(lock, "holder", lambda _: found.pop(0))
    monkeypatch.setattr(lock, "_try", lambda _: not found)
    monkeypatch.setattr(lock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(lock.time, "sleep", lambda _: now.__setitem__(0, now[0] + lock._GRACE_S * 0.9))
    with lock.hold(tmp_path, "serve", "mine"):
        assert now[0] > 4 * lock._GRACE_S


def test_one_process_cannot_hold_it_twice(tmp_path: Path) -> None:
    with (
        lock.hold(tmp_path, "serve", "one"),
        pytest.raises(AlreadyServed),
        lock.hold(tmp_path, "serve", "two"),
    ):
        pass


def test_without_the_kernels_lock_both_would_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control of D08."""
    monkeypatch.setattr(lock, "_try", lambda _: True)
    with lock.hold(tmp_path, "serve", "one"), lock.hold(tmp_path, "serve", "two"):
        assert lock.holder(tmp_path) == lock.Holder(os.getpid(), "serve", "two")
