"""S12: another program saves the note again and again while we change it; none of its edits is lost, none is torn.

The same editor is let loose on a writer that checks and then renames, as many
programs do; if that one loses nothing, the test proves nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.errors import Conflict
from tests.vault.desk import Desk, at, open_desk

HEAD, END = "# Log\n", "(end)\n"

# Adds a line of its own before the last one, at random moments; ends when its standard input does. The file of its
# tally has a byte for each line it has saved.
EDITOR = """
import os, random, sys, threading, time
path, way, tally = sys.argv[1:]
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("begun", flush=True)
saved = 0
while not over.wait(random.uniform(0, 0.06)):
    with open(path) as file:
        text = file.read()
    text = text[: -len("(end)\\n")] + f"editor {saved}\\n(end)\\n"
    if way == "by rename":
        with open(path + ".saving", "w") as file:
            file.write(text)
        os.rename(path + ".saving", path)
    else:
        with open(path, "w", buffering=1 << 20) as file:
            file.write(text[: len(text) // 2])
            file.flush()
            file.write(text[len(text) // 2 :])
    saved += 1
    with open(tally, "a") as file:
        file.write(".")
"""


@dataclass
class Seen:
    """What came of it."""

    commits: int = 0
    edits: int = 0
    lost: int = 0
    torn: int = 0
    kept: int = 0
    conflicts: int = 0


@contextmanager
def editing(file: Path, way: str, tally: Path) -> Iterator[None]:
    """The editor works on this note inside the block."""
    tally.write_bytes(b"")
    command = [sys.executable, "-I", "-c", EDITOR, str(file), way, str(tally)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as editor:
        assert editor.stdin is not None and editor.stdout is not None
        assert editor.stdout.readline() == b"begun\n"
        try:
            yield
        finally:
            editor.stdin.close()


def run(desk: Desk, way: str, commits: int, edits: int, commit: Callable[[Callable[[bytes], bytes]], None]) -> Seen:
    """So many commits that each add a line, or more, while the editor adds at least so many of its own."""
    file = desk.lay("Log.md", (HEAD + END).encode())
    seen = Seen()

    def add_line(old: bytes) -> bytes:
        text = old.decode()
        if not (text.startswith(HEAD) and text.endswith(END)):
            seen.torn += 1
        return f"{text.removesuffix(END)}ours\n{END}".encode()

    tally = desk.vault.parent / "tally"
    with editing(file, way, tally):
        while seen.commits < commits or tally.stat().st_size < edits:
            try:
                commit(add_line)
                seen.commits += 1
            except Conflict:
                seen.conflicts += 1
    seen.edits = tally.stat().st_size
    desk.look_again()
    texts = [file.read_text(), *(data.decode() for _, data, _ in desk.kept)]
    lines = {line for text in texts for line in text.splitlines()}
    seen.kept = len(desk.kept)
    seen.lost = len({f"editor {number}" for number in range(seen.edits)} - lines)
    assert [name for name in desk.names() if name.endswith(".tmp")] == []
    return seen


WAYS = [pytest.param("by rename", id="S12-by rename"), pytest.param("in place", id="S12-in place")]


def commit_well(desk: Desk) -> Callable[[Callable[[bytes], bytes]], None]:
    return lambda add_line: desk.files.change(at("Log.md"), add_line) and None


@pytest.mark.parametrize("way", WAYS)
def test_no_edit_of_an_editor_is_lost(tmp_path: Path, way: str) -> None:
    with open_desk(tmp_path / "vault") as desk:
        seen = run(desk, way, 40, 40, commit_well(desk))
    assert (seen.lost, seen.torn) == (0, 0), seen


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
def test_no_edit_is_lost_in_a_thousand_commits(tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open_desk(tmp_path / "vault") as desk:
        seen = run(desk, way, 1000, 1000, commit_well(desk))
    with capsys.disabled():
        sys.stdout.write(f"\nS12 {way}: {seen}\n")
    assert (seen.lost, seen.torn) == (0, 0), seen


@pytest.mark.parametrize("way", WAYS)
def test_checking_and_then_renaming_loses_edits(tmp_path: Path, way: str) -> None:
    """The control."""
    with open_desk(tmp_path / "vault") as desk:
        file = desk.vault / "Log.md"

        def commit(add_line: Callable[[bytes], bytes]) -> None:
            old = file.read_bytes()
            temporary = file.with_name("weak")
            temporary.write_bytes(add_line(old))
            with temporary.open("rb") as written:
                os.fsync(written)
            if file.read_bytes() == old:
                temporary.rename(file)

        for _ in range(50):
            seen = run(desk, way, 100, 30, commit)
            if seen.lost or seen.torn:
                return
        pytest.fail("it lost nothing, so this proves nothing")
