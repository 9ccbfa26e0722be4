"""The embedder `e5`: multilingual-e5-small, 384 numbers, about 100 languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs] - it has none

from sidecar.index.embed.base import Vectors
from sidecar.index.embed.e5_body import INPUT, OUTPUT
from sidecar.index.embed.e5_file import WIDTH, Floats, WeightFile
from sidecar.index.embed.e5_made import BUILD, Made
from sidecar.index.embed.e5_pieces import Cutter, Ids
from sidecar.index.embed.lanes import Lanes
from sidecar.index.embed.weights import E5_WEIGHTS
from sidecar.index.native_memory import give_back

LANES = 2
"""Texts embedded at once. Two threads that each run a text of their own do more than one run with two threads, by a
quarter; more of them would take the computer from whoever works at it."""

REST_S = 30.0
"""A lane without work for so long gives its body back: both together had 100 MB, and a new one is there in 0.2 s."""

# what the model was trained with
_PASSAGE, _QUERY = "passage: ", "query: "


class Body(Protocol):
    """What is used of an onnxruntime session."""

    def run(self, output_names: list[str], input_feed: dict[str, Floats]) -> list[Floats]: ...


class E5:
    """See `base.Embedder`.

    Each lane has a body of its own, for 40 MB, and so have queries: where two threads run one, they hand the same
    memory to and fro between two processors, and both together did 25 texts a second or 38, from one second to the
    next.
    """

    dim = WIDTH
    id = f"e5@{E5_WEIGHTS.sha256[:12]}.{BUILD}/{WIDTH}"

    def __init__(
        self, weights: WeightFile, load: Callable[[], Made], *, lanes: int = LANES, rest_s: float = REST_S
    ) -> None:
        """`load` is called again for each body that is started later, so that its bytes need not stay in memory."""
        self._weights = weights
        made = load()
        self._cutter = Cutter(made.pieces, weights)
        self._asking = start(made.body)
        self._places = places(weights)
        self._lanes = Lanes(lanes, lambda: start(load().body), "e5", rest_s=rest_s, rested=give_back)

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """See `base.Embedder`."""
        found = np.empty((len(texts), WIDTH), np.float32)

        def fill(body: Body, at: int) -> None:
            found[at] = self._vector(body, _PASSAGE + texts[at])

        # long ones first, so that at the end no lane waits for another's long text
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        self._lanes.map(fill, order, urgent=urgent)
        return found

    def query(self, text: str) -> Vectors:
        """See `base.Embedder`. Runs in the caller's thread, so it waits for no passage."""
        return self._vector(self._asking, _QUERY + text)

    def close(self) -> None:
        """See `base.Embedder`."""
        self._lanes.close()
        self._weights.close()

    def _vector(self, body: Body, text: str) -> Vectors:
        """One text, as long as it may be: the mean over all its tokens."""
        total = np.zeros(WIDTH, np.float32)
        for ids in self._cutter.windows(text):
            tokens = embedded(self._weights, self._places, ids)
            (mean,) = body.run([OUTPUT], {INPUT: tokens})
            total += mean * max(ids.size - 2, 1)
        return total / np.float32(np.linalg.norm(total))


def places(weights: WeightFile) -> Floats:
    """What is added to a token's embedding, by its position: float32[POSITIONS, WIDTH]."""
    return weights.tensor("emb.pos").reshape(-1, WIDTH) + weights.tensor("emb.type")[:WIDTH]


def embedded(weights: WeightFile, places: Floats, ids: Ids) -> Floats:
    """The input of the body."""
    tokens = weights.rows(ids)
    tokens += places[: ids.size]
    return tokens


def start(body: bytes, threads: int = 1) -> Body:
    """A session. Several threads may run it at once, each a text of its own."""
    runtime: Any = onnxruntime
    runtime.disable_telemetry_events()  # the worker's environment says so too, for what it does when it is imported
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin while they wait made a busy machine with two cores collapse.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # With one text a run the arena grows to what the longest window needs and no further; without it, freed memory
    # would stay with each thread, 50 MB more. Plans of memory for every length of text would take 15 MB more.
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    return cast(Body, runtime.InferenceSession(body, options, providers=["CPUExecutionProvider"]))
