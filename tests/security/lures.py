"""What lies in and around the vault under attack: secrets, links and special files.

The secrets stand where the attacks of the catalogue would come out, so that a
broken defence shows as the canary in an answer.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

from tests.security.ground import SECRET, write

OUTSIDE_WORD = "shared 7702"
"""In a file outside of which the vault has a hard link."""
ELSEWHERE = "elsewhere 6630"
"""In a note on another device."""


def lay_lures(base: Path) -> None:
    """Secrets beside the vault, hidden in it and under other suffixes; and a few notes."""
    for path in ("canary.md", "x.md", "b.md", "outside/canary.md", "outside/x.md", "outside/deep/x.md", "home/x.md"):
        write(base, path, SECRET)
    write(base, "vault-secret/x.md", SECRET)
    for path in (
        ".obsidian/app.json", ".obsidian/x.md", ".obsidian/plugins/p/data.json", ".git/config", ".trash/x.md", ".env",
        ".hidden.md", "a/.b/c.md", "image.png", "main.js", "x.md.exe", "x",
    ):  # fmt: skip
        write(base / "vault", path, SECRET)
    for path in ("a.md", "b.md", "a/b.md", "a/x.md", "note.md", "Notes/r\u00e9sum\u00e9.md"):
        write(base / "vault", path)


def lay_links(base: Path) -> None:
    """Links out of the vault, inside it, in circles and to nothing, named by their rows."""
    for name, target in {
        "J18.md": base / "outside" / "canary.md",
        "J18-relative.md": Path("../canary.md"),
        "J19": base / "outside",
        "J20.md": Path("a.md"),
        "J20": Path("a"),
        "J21.md": Path("J21.md"),
        "J21": Path("."),
        "J21-one.md": Path("J21-two.md"),
        "J21-two.md": Path("J21-one.md"),
        "J22.md": base / "outside" / "none.md",
    }.items():
        (base / "vault" / name).symlink_to(target)
    write(base, "outside/J40.md", OUTSIDE_WORD)
    (base / "vault" / "J40.md").hardlink_to(base / "outside" / "J40.md")


def lay_special_files(vault: Path) -> None:
    """What has the name of a note and is none: folder, FIFO, socket, device, and names that are not UTF-8."""
    write(vault, "J26.md/inside.md")
    os.mkfifo(vault / "J24.md")
    with chdir(vault), socket.socket(socket.AF_UNIX) as listener:  # a socket's path must be short
        listener.bind("J25.md")
    if sys.platform == "linux" and os.geteuid() == 0:
        os.mknod(vault / "J25-device.md", stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero
    if sys.platform == "linux":
        write(vault, os.fsdecode(b"J36-\xff.md"), SECRET)
        write(vault, os.fsdecode(b"J36-\xfe/x.md"), SECRET)


@contextmanager
def other_device(folder: Path) -> Iterator[None]:
    """Something mounted at `folder`, with a note; or nothing, where that is not permitted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        yield
        return
    try:
        write(folder, "x.md", ELSEWHERE)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)
