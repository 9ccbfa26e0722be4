"""Embedders for tests, by name, behind the same protocol as the real ones. They run in the worker process.

A test and an embedder talk through files in the models folder.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from sidecar.errors import NotFound
from sidecar.index.embed.base import Embedder
from sidecar.index.wire import EmbedderOptions

FACTORY = f"{__name__}:choose"
DIM = 64


def vector(text: str) -> NDArray[np.float32]:
    """A bag of hashed words: texts that share words are near."""
    total = np.zeros(DIM, np.float32)
    for word in text.lower().split():
        seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "little")
        total += np.random.default_rng(seed).normal(size=DIM).astype(np.float32)
    length = np.linalg.norm(total)
    return total / length if length else total


class Hashed:
    """The plain one."""

    id = f"hash@1/{DIM}"
    dim = DIM

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def one(self, text: str) -> NDArray[np.float32]:
        return vector(text)

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> NDArray[np.float32]:
        return np.stack([self.one(text) for text in texts])

    def query(self, text: str) -> NDArray[np.float32]:
        return vector(text)

    def close(self) -> None:
        pass


class Other(Hashed):
    """Another embedder with vectors of another kind."""

    id = "Hash@2/64"

    def one(self, text: str) -> NDArray[np.float32]:
        return np.roll(vector(text), 7)


class Gated(Hashed):
    """Notes down what it embeds in `seen`; waits for the file `go` before each text that begins with `wait`."""

    def one(self, text: str) -> NDArray[np.float32]:
        with (self.folder / "seen").open("a") as seen:
            seen.write(text + "\n")
        while text.startswith("wait") and not (self.folder / "go").exists():
            time.sleep(0.005)
        return vector(text)


class Counted(Hashed):
    """Notes down in `embedded` what it embeds, each text with a NUL behind it."""

    def one(self, text: str) -> NDArray[np.float32]:
        with (self.folder / "embedded").open("a") as embedded:
            embedded.write(f"{text}\0")
        return vector(text)


class Busy(Hashed):
    """Takes the interpreter for 20 ms of work a text, as a tokenizer does."""

    def one(self, text: str) -> NDArray[np.float32]:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        return vector(text)


class Picky(Hashed):
    """Fails on some texts, on all while there is a file `broken`; a vector of one is not finite."""

    def one(self, text: str) -> NDArray[np.float32]:
        if "poison" in text or (self.folder / "broken").exists():
            raise RuntimeError("this text is too much")
        return vector(text) * np.float32("nan") if "endless" in text else vector(text)


def end() -> NoReturn:
    """End the process. The signal may be another thread's, and on a busy machine this one would answer first."""
    os.kill(os.getpid(), signal.SIGSEGV)
    while True:
        time.sleep(1.0)


class Fatal(Hashed):
    """Ends its process on some texts."""

    def one(self, text: str) -> NDArray[np.float32]:
        if "fatal" in text:
            end()
        return vector(text)

    query = one


class Doomed(Hashed):
    """Ends its process on every text."""

    def one(self, text: str) -> NDArray[np.float32]:
        end()


class Missing(Hashed):
    """There only once its file is there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if not (folder / "weights").exists():
            raise NotFound("There is no model 'missing'; get it.")


class Talking(Hashed):
    """Prints, reads and warns, which must reach nobody."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        print("I am loading", flush=True)  # noqa: T201
        os.write(1, b"raw\n")
        assert os.read(0, 1) == b""
        (folder / "environment").write_text("\0".join(f"{name}={value}" for name, value in os.environ.items()))


_ALL = (Other, Gated, Counted, Busy, Picky, Fatal, Doomed, Missing, Talking)
_KINDS = {kind.__name__.lower(): kind for kind in _ALL} | {"hash": Hashed}


def choose(name: str, models_dir: Path, report: Callable[[str], None], options: EmbedderOptions) -> Embedder:
    """As the real `choose`."""
    report(f"loading {name}")
    return _KINDS[name](models_dir)
