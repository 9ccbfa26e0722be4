"""S09: what the kernel is asked for during a write, and in which order, by the word of strace."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.daemons import STOP_S, start_daemon
from tests.security.ground import Ground, write

STEPS = {
    "the text is on the disk": r"fsync\(\d+<[^>]*/\.Plan\.md\.[0-9a-f]{16}\.tmp>\)",
    "it has the name": r"(?:renameat2|linkat)\(.*\"Plan\.md\"",
    "the name is on the disk": r"fsync\(\d+<[^>]*/vault>\)",
    "the answer goes out": r"(?:sendto|sendmsg|write|writev)\(\d+<(?:TCP|socket).*(?:Created|Replaced|Appended)",
}
STRACE = (
    *("strace", "-f", "-yy", "-s", "400", "-e"),
    "trace=fsync,fdatasync,renameat2,linkat,sendto,sendmsg,write,writev",
)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ground, Path]]:
    """A daemon under strace, and the file that the trace goes to."""
    if sys.platform != "linux" or not shutil.which("strace"):
        pytest.skip("strace is not here")
    scratch = tmp_path_factory.mktemp("traced")
    trace, base = scratch / "trace", scratch / "base"
    write(base, "vault/other.md")
    strace = (*STRACE, "-o", str(trace))
    if subprocess.run([*strace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("tracing is not permitted here")
    daemon = start_daemon(
        base / "vault", scratch / "state", under=strace, env={"VAULT_SIDECAR_NOTES_ALLOW_WRITES": "true"}
    )
    try:
        ground = Ground(base, scratch / "state", daemon.port, daemon.token)
        ground.settled()
        yield ground, trace
    finally:
        ground.order("stop")  # a signal would end strace alone
        daemon.process.wait(STOP_S)
        daemon.stop()


def lines_of(trace: Path) -> list[str]:
    return trace.read_text("utf-8", "replace").splitlines()


def steps(lines: list[str]) -> list[str]:
    """The steps of a write, in the order in which they were over."""
    return [name for line in whole(lines) for name, call in STEPS.items() if re.search(call, line)]


def whole(lines: list[str]) -> Iterator[str]:
    """The calls that were over; strace tells one that another thread came in between of in two lines."""
    begun: dict[str, str] = {}
    for line in lines:
        thread = line.partition(" ")[0]
        if line.endswith("<unfinished ...>"):
            begun[thread] = line.removesuffix("<unfinished ...>").rstrip()
        elif resumed := re.match(r"\d+ +<\.\.\. \w+ resumed>", line):
            yield begun.pop(thread, "") + line[resumed.end() :]
        else:
            yield line


@pytest.mark.parametrize("mode", ["create", "overwrite", "append"])
@pytest.mark.parametrize("row", ["S09"])
def test_the_disk_has_the_text_then_the_name_and_then_the_client_has_the_answer(
    traced: tuple[Ground, Path], mode: str, row: str
) -> None:
    ground, trace = traced
    (ground.vault / "Plan.md").unlink(missing_ok=True)
    if mode != "create":
        write(ground.vault, "Plan.md", "old\n")
    before = len(lines_of(trace))
    said = ground.call("write_note", path="Plan.md", content="new\n", mode=mode)
    assert not said.is_error, said
    ground.call("list_notes")  # the trace of what came before it is complete
    lines = lines_of(trace)[before:]
    assert steps(lines) == list(STEPS), lines


WITHOUT_SYNC = """
import os, sys
from pathlib import Path
os.fsync = lambda _: None
from sidecar.vault.files import Files
from sidecar.vault.jail import Jail
from sidecar.vault.paths import VaultPath
Files(Jail(Path(sys.argv[1])), lambda *_: None, max_bytes=1000).change(VaultPath("Plan.md"), lambda old: old + b"new")
"""


def test_a_write_that_syncs_nothing_is_told_apart(traced: tuple[Ground, Path], tmp_path: Path) -> None:
    """The control."""
    write(tmp_path, "vault/Plan.md", "old\n")
    trace = tmp_path / "trace"
    command = [sys.executable, "-c", WITHOUT_SYNC, str(tmp_path / "vault")]
    subprocess.run([*STRACE, "-o", str(trace), *command], check=True, cwd=REPOSITORY)
    assert steps(lines_of(trace)) == ["it has the name"]
