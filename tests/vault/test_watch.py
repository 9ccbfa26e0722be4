from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from sidecar.vault import watch
from sidecar.vault.watch import EVERYTHING, MOST_PATHS, Source, Watcher, file_system_type
from sidecar.vault.watch_native import NativeSource, relative
from tests.vault.conftest import Ground

if sys.platform == "linux":
    from sidecar.vault.watch_inotify import InotifySource
else:
    pytest.skip("the direct source is Linux's", allow_module_level=True)

EACH_SOURCE = pytest.mark.parametrize("source", [InotifySource, NativeSource])


class Listener:
    """Remembers what a watcher says, and waits for it."""

    def __init__(self) -> None:
        self.ready = 0
        self.seen: list[set[str]] = []
        self._news = asyncio.Event()

    def on_ready(self) -> None:
        self.ready += 1
        self._news.set()

    def on_changes(self, paths: set[str]) -> None:
        self.seen.append(paths)
        self._news.set()

    @property
    def paths(self) -> set[str]:
        return set().union(*self.seen)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def names(self, *wanted: str) -> set[str]:
        """Everything named since the last call, once all of these are."""
        await self.until(lambda: set(wanted) <= self.paths)
        paths, self.seen = self.paths, []
        return paths


@asynccontextmanager
async def watching(
    root: Path, open_source: Callable[[Path], Source] | None = None, **settings: object
) -> AsyncGenerator[tuple[Watcher, Listener]]:
    watcher = Watcher(root, open_source=open_source, **settings)  # type: ignore[arg-type]
    listener = Listener()
    task = asyncio.create_task(watcher.run(listener.on_ready, listener.on_changes))
    try:
        await listener.until(lambda: listener.ready > 0 or task.done())
        yield watcher, listener
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=30)
        assert task.cancelled()


def drop(ground: Ground, path: str) -> None:
    """A note that comes by one event: nothing more of it can come later."""
    (ground.outside / "canary.md").rename(ground.vault / path)


async def followed(ground: Ground, listener: Listener, source: type[Source], path: str) -> set[str]:
    """Write a note in a folder that was named a moment ago; everything named until the note is.

    For watchfiles it is written until then, which names a folder before it watches it.
    """
    ground.write(path, "changed")
    async with asyncio.timeout(30):
        while source is NativeSource and path not in listener.paths:
            await asyncio.sleep(0.1)
            ground.write(path, "changed")
    return await listener.names(path)


@EACH_SOURCE
async def test_what_happens_to_a_note_is_named(ground: Ground, source: type[Source]) -> None:
    file = ground.write("a/Über.md")
    async with watching(ground.vault, source) as (watcher, listener):
        assert (watcher.mode, watcher.reason) == ("events", None)
        file.write_text("changed")
        await listener.names("a/Über.md")
        with file.open("a") as held_open:
            held_open.write("more")
            held_open.flush()
            await listener.names("a/Über.md")
        file.rename(ground.vault / "b.md")
        await listener.names("a/Über.md", "b.md")
        (ground.vault / "new\nline.md").write_bytes(b"")
        await listener.names("new\nline.md")
        (ground.vault / "b.md").unlink()
        await listener.names("b.md")


@EACH_SOURCE
async def test_an_atomic_save_names_the_note(ground: Ground, source: type[Source]) -> None:
    ground.write("a.md")
    async with watching(ground.vault, source) as (_, listener):
        ground.write(".a.md.7f.tmp", "new").rename(ground.vault / "a.md")
        assert ".a.md.7f.tmp" not in await listener.names("a.md")


@EACH_SOURCE
async def test_new_folders_are_watched_whole(ground: Ground, source: type[Source]) -> None:
    async with watching(ground.vault, source) as (_, listener):
        ground.write("x/y/z/first.md")
        await listener.names("x")
        await followed(ground, listener, source, "x/y/z/second.md")


@EACH_SOURCE
async def test_a_renamed_folder_is_named_twice_and_watched_on(ground: Ground, source: type[Source]) -> None:
    ground.write("old/deep/a.md")
    async with watching(ground.vault, source) as (_, listener):
        (ground.vault / "old").rename(ground.vault / "new")
        await listener.names("old", "new")
        assert await followed(ground, listener, source, "new/deep/a.md") == {"new/deep/a.md"}


@EACH_SOURCE
async def test_folders_that_come_and_go_are_named(ground: Ground, source: type[Source]) -> None:
    ground.write("in/a.md")
    (ground.outside / "tree" / "sub").mkdir(parents=True)
    async with watching(ground.vault, source) as (_, listener):
        (ground.vault / "in").rename(ground.outside / "in")
        await listener.names("in")
        (ground.outside / "tree").rename(ground.vault / "tree")
        await listener.names("tree")
        await followed(ground, listener, source, "tree/sub/b.md")
        shutil.rmtree(ground.vault / "tree")
        await listener.names("tree")


@EACH_SOURCE
async def test_dot_named_entries_are_not_named_but_for_the_ignore_file(ground: Ground, source: type[Source]) -> None:
    ground.write(".obsidian/app.json")
    async with watching(ground.vault, source) as (_, listener):
        for path in (".obsidian/app.json", ".x/y.md", ".hidden.md", "a/.b/c.md", ".kpignore"):
            ground.write(path)
        drop(ground, "last.md")
        assert await listener.names("last.md") == {"a", ".kpignore", "last.md"}
        ground.write("a/.kpignore")
        (ground.vault / "a").rename(ground.vault / ".a")
        assert await listener.names("a") == {"a"}


async def test_only_folders_and_notes_are_named(ground: Ground) -> None:
    async with watching(ground.vault, InotifySource) as (_, listener):
        for path in ("x.png", "note.md.tmp", "SHOUT.MD", "last.md"):
            ground.write(path)
        (ground.vault / "folder.md").mkdir()
        (ground.vault / "folder").mkdir()
        assert await listener.names("last.md", "folder") == {"SHOUT.MD", "last.md", "folder.md", "folder"}


async def test_a_name_that_is_not_utf8_does_not_end_the_watching(ground: Ground) -> None:
    async with watching(ground.vault, InotifySource) as (_, listener):
        (ground.vault / os.fsdecode(b"bad-\xff.md")).write_bytes(b"")
        (ground.vault / os.fsdecode(b"bad-\xfe")).mkdir()
        (ground.vault / os.fsdecode(b"bad-\xff.md")).rename(ground.vault / "good.md")
        ground.write("last.md")
        assert await listener.names("last.md") == {"good.md", "last.md"}


async def test_links_are_not_followed(ground: Ground) -> None:
    (ground.outside / "deep").mkdir()
    (ground.vault / "link").symlink_to(ground.outside)
    (ground.vault / "loop").symlink_to(".")
    (ground.vault / "everything").symlink_to("/")
    async with watching(ground.vault, InotifySource) as (_, listener):
        (ground.vault / "later").symlink_to(ground.outside)
        (ground.outside / "canary.md").write_bytes(b"changed")
        (ground.outside / "deep" / "x.md").write_bytes(b"new")
        ground.write("last.md")
        assert await listener.names("last.md") == {"last.md"}


async def test_a_folder_moved_out_is_not_watched_on(ground: Ground) -> None:
    ground.write("in/deep/a.md")
    async with watching(ground.vault, InotifySource) as (_, listener):
        (ground.vault / "in").rename(ground.outside / "in")
        await listener.names("in")
        (ground.outside / "in" / "deep" / "a.md").write_bytes(b"changed")
        ground.write("last.md")
        assert await listener.names("last.md") == {"last.md"}


@EACH_SOURCE
async def test_2_000_new_notes_are_named_one_by_one_or_all_at_once(ground: Ground, source: type[Source]) -> None:
    wanted = {f"{number % 20}/{number}.md" for number in range(2000)}
    async with watching(ground.vault, source) as (_, listener):

        def covered() -> bool:
            named = listener.paths
            return EVERYTHING in named or all(path in named or path.split("/")[0] in named for path in wanted)

        await asyncio.to_thread(lambda: [ground.write(path) for path in sorted(wanted)])
        await listener.until(covered)
        assert all(len(batch) <= MOST_PATHS for batch in listener.seen)


def test_events_that_the_kernel_lost_mean_everything(ground: Ground) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 20_000:
        pytest.skip(f"it would take {limit} events")
    stop = threading.Event()
    batches = InotifySource(ground.vault).batches(stop, lambda: None)
    assert next(batches) == set()
    file = ground.write("a.md")
    for number in range(limit // 2 + 2):  # two events of different kinds, or they would count as one
        os.utime(file)
        os.truncate(file, number)
    ground.write("lost/deep/b.md")
    paths: set[str] = set()
    while EVERYTHING not in paths:
        paths |= next(batches)
    ground.write("lost/deep/b.md", "changed")
    while "lost/deep/b.md" not in paths:  # the folder that was lost is watched all the same
        paths |= next(batches)
    stop.set()
    assert list(batches) == []


@EACH_SOURCE
async def test_a_folder_that_vanishes_is_reported_and_watched_again_when_it_is_back(
    ground: Ground, source: type[Source], tmp_path: Path
) -> None:
    ground.write("a.md")
    async with watching(ground.vault, source) as (_, listener):
        ground.vault.rename(tmp_path / "away")
        await listener.names(EVERYTHING)
        assert listener.ready == 1
        (tmp_path / "away").rename(ground.vault)
        await listener.until(lambda: listener.ready == 2)
        ground.write("a.md", "changed")
        await listener.names("a.md")
        shutil.rmtree(ground.vault)
        await listener.names(EVERYTHING)
        ground.vault.mkdir()
        await listener.until(lambda: listener.ready == 3)
        ground.write("b.md")
        await listener.names("b.md")


@EACH_SOURCE
async def test_a_folder_given_as_a_link_is_resolved_once(ground: Ground, source: type[Source], tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ground.vault)
    async with watching(link, source) as (watcher, listener):
        link.unlink()
        link.symlink_to(ground.outside)
        ground.write("a.md")
        assert await listener.names("a.md") == {"a.md"}
        assert watcher.mode == "events"


async def test_a_folder_that_is_not_there_is_waited_for(ground: Ground, tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "later")
    listener = Listener()
    task = asyncio.create_task(watcher.run(listener.on_ready, listener.on_changes))
    (tmp_path / "later").mkdir()
    await listener.until(lambda: listener.ready == 1)
    task.cancel()
    await asyncio.wait({task}, timeout=30)
    assert task.cancelled()


@EACH_SOURCE
async def test_nothing_is_left_behind_when_the_watching_is_cancelled(ground: Ground, source: type[Source]) -> None:
    for _ in range(3):
        async with watching(ground.vault, source):
            assert any(thread.name.startswith("watch") for thread in threading.enumerate())
            assert inotify_descriptors()
        assert not any(thread.name.startswith("watch") for thread in threading.enumerate())
    async with asyncio.timeout(30):  # watchfiles closes in a thread of its own
        while inotify_descriptors():
            await asyncio.sleep(0.01)


def inotify_descriptors() -> list[str]:
    """Descriptors of this process that watch something."""
    found: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += [name] if os.readlink(f"/proc/self/fd/{name}") == "anon_inode:inotify" else []
    return found


# polling


async def test_polling_says_everything_at_times(ground: Ground) -> None:
    async with watching(ground.vault, poll=True, poll_every_s=0.05) as (watcher, listener):
        assert (watcher.mode, watcher.reason) == ("polling", None)
        await listener.until(lambda: len(listener.seen) >= 3)
        assert listener.paths == {EVERYTHING}


class Limited:
    """A source that meets one of the system's limits, at once or while it watches."""

    def __init__(self, failure: OSError, batches: int = 0) -> None:
        self._failure = failure
        self._batches = batches

    def batches(self, stop: threading.Event, armed: Callable[[], None]) -> Iterator[set[str]]:
        if self._batches:
            armed()
        for number in range(self._batches):
            yield {f"{number}.md"}
        raise self._failure


@pytest.mark.parametrize("batches", [0, 2])
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the system's limit of watched folders is reached (fs.inotify.max_user_watches)"),
        (errno.EMFILE, "the system's limit of watchers or open files is reached (fs.inotify.max_user_instances)"),
    ],
)
async def test_a_limit_of_the_system_leads_to_polling(
    ground: Ground, number: int, reason: str, batches: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = Limited(OSError(number, "no"), batches)
    async with watching(ground.vault, lambda root: source, poll_every_s=0.05) as (watcher, listener):
        await listener.names(EVERYTHING, *(f"{number}.md" for number in range(batches)))
        assert (watcher.mode, watcher.reason) == ("polling", reason)
        assert listener.ready == (2 if batches else 1)
    told = [record.getMessage() for record in caplog.records if record.name == watch.logger.name]
    assert told == [f"the vault is looked through every 0.05 s: {reason}"]


async def test_a_source_that_can_not_begin_leads_to_polling(ground: Ground) -> None:
    source = Limited(PermissionError(errno.EACCES, "Permission denied", str(ground.vault)))
    async with watching(ground.vault, lambda root: source, poll_every_s=0.05) as (watcher, listener):
        await listener.names(EVERYTHING)
        assert watcher.reason == "it can't be watched: permission denied"


async def test_a_source_that_fails_later_is_begun_again(ground: Ground) -> None:
    sources: list[Source] = [Limited(OSError(None, "the watcher failed"), 1), InotifySource(ground.vault)]
    async with watching(ground.vault, lambda root: sources.pop(0)) as (watcher, listener):
        await listener.until(lambda: listener.ready == 2)
        ground.write("a.md")
        await listener.names("0.md", "a.md")
        assert watcher.mode == "events"


def test_the_limit_of_watched_folders_is_met_for_real(ground: Ground) -> None:
    for number in range(50):
        ground.write(f"{number}/a.md")
    program = """
import asyncio, sys
from pathlib import Path
from sidecar.vault.watch import Watcher
async def main():
    over = asyncio.Event()
    watcher = Watcher(Path(sys.argv[1]), poll_every_s=0.1)
    task = asyncio.create_task(watcher.run(lambda: None, lambda paths: over.set()))
    await asyncio.wait_for(over.wait(), 60)
    task.cancel()
    await asyncio.wait({task})
    print(watcher.mode, "|", watcher.reason)
asyncio.run(main())
"""
    limited = 'echo 20 > /proc/sys/user/max_inotify_watches && exec "$@"'
    command = ["unshare", "-U", "-r", "sh", "-c", limited, "sh", sys.executable, "-c", program, str(ground.vault)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=Path(__file__).parents[2])
    except FileNotFoundError:
        pytest.skip("there is no unshare command")
    if "sh:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip("this user may not make a namespace with limits of its own")
    assert done.stdout == (
        "polling | the system's limit of watched folders is reached (fs.inotify.max_user_watches)\n"
    ), done.stderr


# pure parts

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 27 0:45 / /mnt/c rw,noatime - 9p drvfs rw,aname=drvfs
32 27 0:46 / /srv/with\\040blank rw shared:5 master:1 - nfs4 host:/x rw
broken line
"""


@pytest.mark.parametrize(("device", "kind"), [("254:0", "ext4"), ("0:45", "9p"), ("0:46", "nfs4"), ("9:9", None)])
def test_the_type_of_a_file_system_is_told_by_its_device(device: str, kind: str | None) -> None:
    assert file_system_type(MOUNTS, device) == kind


@pytest.mark.parametrize(
    ("root", "path", "separator", "text"),
    [
        ("/v", "/v/a/b.md", "/", "a/b.md"),
        ("/v", "/v", "/", ""),
        ("/v", "/vault/a.md", "/", None),
        ("/v", "/v/.git/x", "/", None),
        ("/v", "/v/.kpignore", "/", ".kpignore"),
        ("/v", "/v/a/.kpignore", "/", None),
        ("/v", "/v/back\\slash.md", "/", "back\\slash.md"),
        ("C:\\v", "C:\\v\\a\\b.md", "\\", "a/b.md"),
        ("C:\\", "C:\\a.md", "\\", "a.md"),
    ],
)
def test_paths_of_the_system_become_paths_of_the_vault(root: str, path: str, separator: str, text: str | None) -> None:
    assert relative(root, path, separator) == text
