"""A folder of the vault held open on Linux and macOS: every change goes by its descriptor and one name."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from typing import Final

from sidecar.vault.door import NotThere, Unsupported
from sidecar.vault.respelled import is_respelled

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO would wait for its writer
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700

_NO_SUCH_NAME: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL})
_NOT_OFFERED: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_NO_LINKS: Final = _NOT_OFFERED | {errno.EPERM, errno.EMLINK}  # EPERM is what FAT says

# <linux/fs.h> and <sys/stdio.h>: the same two wishes under different numbers
_NO_REPLACE, _EXCHANGE = (4, 2) if sys.platform == "darwin" else (1, 2)
_libc = ctypes.CDLL(None, use_errno=True)


class PosixFolder:
    """Owns the descriptor of a folder that was opened for reading."""

    def __init__(self, descriptor: int) -> None:
        self._held = descriptor

    def status(self) -> os.stat_result:
        """By the descriptor."""
        return os.fstat(self._held)

    def entries(self) -> list[tuple[str, bool]]:
        """Through the descriptor; the kind comes with the listing."""
        with os.scandir(self._held) as found:
            return [(each.name, each.is_dir(follow_symlinks=False)) for each in found]

    def open_file(self, name: str) -> int:
        """Opened below the descriptor."""
        try:
            opened = os.open(name, _READ, dir_fd=self._held)
        except (OSError, ValueError) as failed:  # ValueError: NUL, or not encodable
            if not isinstance(failed, OSError) or failed.errno in _NO_SUCH_NAME:
                raise NotThere from failed
            raise
        if is_respelled(opened, [name]):
            os.close(opened)
            raise NotThere
        return opened

    def make_file(self, name: str) -> int:
        """Private from the first moment."""
        return os.open(name, _NEW, _PRIVATE_FILE, dir_fd=self._held)

    def make_folder(self, name: str) -> None:
        """The mode is set once it is there, since the process's mask keeps others out."""
        os.mkdir(name, _PRIVATE_FOLDER, dir_fd=self._held)
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._held)
        try:
            with contextlib.suppress(OSError):  # a file system without modes
                os.fchmod(made, self.status().st_mode & 0o777)
        finally:
            os.close(made)

    def give(self, name: str, new: str) -> None:
        """A second link; on file systems without links a rename that replaces nothing."""
        try:
            os.link(name, new, src_dir_fd=self._held, dst_dir_fd=self._held, follow_symlinks=False)
        except OSError as failed:
            if failed.errno not in _NO_LINKS:
                raise
            try:
                self._rename(name, new, _NO_REPLACE)
            except Unsupported:
                self._move_to_free_name(name, new)

    def _move_to_free_name(self, name: str, new: str) -> None:
        """Without any help of the file system: look, then rename."""
        try:
            os.stat(new, dir_fd=self._held, follow_symlinks=False)
        except FileNotFoundError:
            self.move(name, new)
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    def swap(self, name: str, other: str) -> None:
        """`renameat2` on Linux, `renameatx_np` on macOS."""
        self._rename(name, other, _EXCHANGE)

    def move(self, name: str, over: str) -> None:
        """A plain rename."""
        os.rename(name, over, src_dir_fd=self._held, dst_dir_fd=self._held)

    def remove(self, name: str) -> None:
        """Unlink."""
        os.unlink(name, dir_fd=self._held)

    def remove_folder(self, name: str) -> None:
        """Rmdir, which follows no link."""
        os.rmdir(name, dir_fd=self._held)

    def sync(self) -> None:
        """`fsync` of the folder."""
        os.fsync(self._held)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._held)

    def _rename(self, name: str, new: str, wish: int) -> None:
        call = getattr(_libc, "renameatx_np" if sys.platform == "darwin" else "renameat2", None)
        if call is None:  # a C library older than the call
            raise Unsupported
        if call(self._held, os.fsencode(name), self._held, os.fsencode(new), wish) == 0:
            return
        number = ctypes.get_errno()
        if number in _NOT_OFFERED:
            raise Unsupported
        raise OSError(number, os.strerror(number))
