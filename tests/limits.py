"""A limit of this process, as a full disk sets it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """No file of this process can grow beyond `size` bytes: a full disk, for real.

    Python 3.11 takes a compiled module that was cut off for a whole one, so none may be written meanwhile.
    """
    resource = pytest.importorskip("resource", reason="this system has no such limit")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = compiles
