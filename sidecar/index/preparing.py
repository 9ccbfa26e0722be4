"""What a process that prepares notes does. It imports little: a vault that is indexed from cold waits for it."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Sequence

from sidecar.index.counted import Counting
from sidecar.index.prepare import Lot, Prepared, Skip, prepare
from sidecar.index.tokens import Tokenizer
from sidecar.vault.jail import NoteFile
from sidecar.vault.paths import VaultPath, printable

logger = logging.getLogger(__name__)

Read = tuple[VaultPath, NoteFile]

# A note makes thousands of small objects, none in a cycle: the usual 700 had the collector look at the whole cache of
# words over and over, an eighth of the time.
_OBJECTS_UNTIL_COLLECTED = 50_000

_tokenizer: Tokenizer | None = None


def prepared(reads: Sequence[Read], tokenizer: Tokenizer) -> Lot:
    """Each note prepared, or left out if it could not be taken apart. Blocks."""
    done: list[Prepared | Skip] = []
    words = Counting()
    for path, file in reads:
        try:
            done.append(prepare(path, file, tokenizer, words))
        except Exception:  # last line of defence: one note must not stop the others
            logger.exception("%s could not be taken apart", printable(path.text))
            done.append(Skip(path.text, "it could not be taken apart", listed=True, stat=file.stat))
    return Lot(done, words.counted())


def begin() -> None:
    """First thing in a new process."""
    global _tokenizer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the parent's business
    _tokenizer = Tokenizer()
    gc.freeze()
    gc.set_threshold(_OBJECTS_UNTIL_COLLECTED)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    """A parent that is killed leaves its pool waiting for ever; so the pool watches the parent."""
    multiprocessing.connection.wait([sentinel])
    os._exit(0)


def prepared_there(reads: Sequence[Read]) -> Lot:
    """`prepared`, in a process that has begun."""
    assert _tokenizer is not None
    return prepared(reads, _tokenizer)
