"""Checks of what surrounds the index: folders, files, lock, port, token, watching, time."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from sidecar.bridge import endpoint, token_file
from sidecar.bridge import settings as settings_files
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.cli import token as token_command
from sidecar.cli import where
from sidecar.cli.doctor.scene import Finding, Scene
from sidecar.errors import NotFound, PortTaken, SidecarError

_LEAST_FREE = 64 << 20
_FUTURE_S = 120  # clocks of network disks and the resolution of file times differ by less


def settings(scene: Scene) -> Finding:
    """The settings of the vault."""
    if scene.mistake:
        return Finding("wrong", scene.mistake, "correct or remove that setting; the README lists all there are")
    return Finding("ok", "are as they may be")


def vault(scene: Scene) -> Finding:
    """The folder of notes itself."""
    folder = scene.place.vault
    if scene.status and scene.status["phase"] == "vault unavailable":
        return Finding("wrong", str(scene.status["last_problem"]), "mount its disk; the daemon then goes on by itself")
    if not folder.is_dir():
        return Finding(
            "wrong", f"there is no folder {str(folder)!r}", "mount its disk, or name the right folder with --vault"
        )
    if not os.access(folder, os.R_OK | os.X_OK):
        return Finding("wrong", f"{str(folder)!r} may not be read by this user", f"chmod u+rx {str(folder)!r}")
    skipped = len(scene.status["skipped"]) if scene.status else 0
    if skipped:
        return Finding("note", f"{skipped:,} files are skipped", "'vault-sidecar status' lists them with the reasons")
    return Finding("ok", str(folder))


def permissions(scene: Scene) -> Finding:
    """Whether the state folder belongs to this user alone."""
    folder = scene.state_dir
    if not folder.exists():
        return Finding("ok", "there is no state folder yet; the first start makes it")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Finding("wrong", "the state folder may not be written by this user", f"chmod u+rwx {str(folder)!r}")
    if sys.platform == "win32":
        return Finding("ok", "the state folder can be written")
    foreign: list[Path] = []
    opened: list[Path] = []
    for path in (folder, *_entries(folder)):
        found = path.lstat()
        if found.st_uid != os.geteuid():
            foreign.append(path)
        elif not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o077:
            opened.append(path)
    if foreign:
        return Finding(
            "wrong",
            f"{len(foreign)} files of the state folder belong to another user, such as {foreign[0].name}",
            f'look at them, then: sudo chown -R "$USER" {str(folder)!r}',
        )
    if opened:
        return Finding(
            "wrong",
            f"other users may enter or read {len(opened)} files of the state folder, such as {opened[0].name}",
            f"chmod -R go-rwx {str(folder)!r}",
        )
    return Finding("ok", "the state folder is this user's alone")


def _entries(folder: Path) -> Iterator[Path]:
    """All below it but what is the person's own; links are not followed."""
    for entry in folder.iterdir():
        if entry.name == settings_files.CONFIG_FILE:
            continue
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            yield from _entries(entry)


def disk(scene: Scene) -> Finding:
    """Room for the index."""
    place = next(folder for folder in (scene.state_dir, *scene.state_dir.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE:
        return Finding(
            "wrong",
            f"only {free >> 20:,} MiB are free where the state folder lies; the index can't grow",
            "make room there; the daemon then goes on by itself",
        )
    return Finding("ok", f"{free >> 20:,} MiB are free")


def clock(scene: Scene) -> Finding:
    """Whether the clock was set back, or never set."""
    now = time.time()
    files = [path.lstat().st_mtime for path in _entries(scene.state_dir)] if scene.state_dir.exists() else []
    ahead = max(files, default=0.0) - now
    if ahead > _FUTURE_S:
        return Finding(
            "wrong",
            f"files of the state folder are dated {_span(ahead)} in the future: the clock was set back",
            "set the computer's date and time. No index is harmed by it; the order of what is recent may be",
        )
    return Finding("ok", time.strftime("it is %Y-%m-%d %H:%M:%S", time.localtime(now)))


def _span(seconds: float) -> str:
    return f"{seconds / 86400:,.1f} days" if seconds > 86400 else f"{seconds / 60:,.0f} minutes"


def lock(scene: Scene) -> Finding:
    """Who serves the vault."""
    who = f"process {scene.holder.pid}, started as '{scene.holder.owner}'" if scene.holder else "a process"
    if scene.status:
        return Finding("ok", f"the vault is served ({who})")
    if scene.is_locked:
        return Finding(
            "wrong",
            f"{who} holds the vault's lock, but does not answer: {scene.silence}",
            "wait a minute if it has just been started; else end that process and start the daemon again",
        )
    if scene.holder:
        return Finding("note", f"the last daemon ({who}) ended without leaving in order; the next one takes over")
    return Finding("ok", "no daemon serves this vault now; 'vault-sidecar serve' starts one")


def port(scene: Scene) -> Finding:
    """Whether clients can reach the daemon where they look for it."""
    if scene.status:
        return Finding("ok", f"{scene.status['url']} answers, and has proved to be this vault's daemon")
    pinned = scene.config.http.port if scene.config else None
    if pinned:
        from sidecar.web.listener import bind

        try:
            bind(pinned).close()
        except PortTaken:
            return Finding(
                "wrong",
                f"port {pinned} is in use by another program, and clients of this vault know it by that port",
                "stop that program, or set another http.port and tell the clients",
            )
    try:
        stale = endpoint.read(scene.state_dir)
    except SidecarError as bad:
        return Finding("wrong", str(bad), f"delete {str(scene.state_dir / endpoint.FILE_NAME)!r}")
    if stale and not scene.is_locked:
        return Finding(
            "note", f"an ended daemon's address, {stale.url}, is still on record; the next start replaces it"
        )
    return Finding("ok", f"port {pinned} is free" if pinned else "no port is pinned; the first start finds one")


def token(scene: Scene) -> Finding:
    """Whether the key of the clients can be read from where it is kept."""
    variable = where.token_variable(scene.place) if not scene.mistake else None
    try:
        token_command.read(scene.place)
    except NotFound:
        return Finding("ok", "there is no token yet; the first start makes one")
    except SidecarError as bad:
        return Finding("wrong", str(bad), _token_cure(variable))
    if variable:
        return Finding("ok", f"comes from the environment variable {variable}")
    if isinstance(token_file.read(scene.state_dir), str):
        return Finding(
            "note",
            f"is kept in a file of mode 0600, because {KeyringStore.place} could not keep it at some time",
            "nothing need be done; the first start with a working keyring moves it there",
        )
    return Finding("ok", f"is kept in {KeyringStore.place}")


def _token_cure(variable: str | None) -> str:
    if variable:
        return f"set {variable} in the environment of daemon and commands"
    return f"look at the file {token_file.FILE_NAME} of the state folder; without it, the next start makes a new token"


def watcher(scene: Scene) -> Finding:
    """How changes of notes are noticed."""
    if scene.status:
        mode, _, reason = str(scene.status["watching"]).partition(": ")
    elif not scene.place.vault.is_dir():
        return Finding("wrong", "there is no vault to watch", "mount its disk, or name the right folder with --vault")
    else:
        mode, reason = _tried(scene.place.vault)
    if mode == "events":
        return Finding("ok", "changes of notes are noticed at once")
    return Finding("note", f"the vault is looked through now and then, because {reason}", _watch_cure(reason))


def _tried(folder: Path) -> tuple[str, str]:
    """Watch the vault for a moment: the mode the daemon would have, and why if it is not by events."""
    from sidecar.vault.watch import trial

    reason = trial(folder)
    return ("polling", reason) if reason else ("events", "")


def _watch_cure(reason: str) -> str:
    for name, value in (("fs.inotify.max_user_watches", 1048576), ("fs.inotify.max_user_instances", 1024)):
        if name in reason:
            return f"raise it: sudo sysctl {name}={value}; then start the daemon again"
    return "nothing need be done: changes are found within ten seconds"


__all__ = ["clock", "disk", "lock", "permissions", "port", "settings", "token", "vault", "watcher"]
