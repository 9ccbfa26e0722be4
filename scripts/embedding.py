"""How fast texts become vectors: the product's embedders, and beside e5 a bare loop over the same body.

The bare loop is two threads, each with a session of its own and no arena, that run the body on inputs that are ready:
no text is cut and no row is read there. Texts are chunks of about 200 tokens of the medium vault, new ones for each
round; the rounds of all ways alternate, so that a busy minute meets all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnxruntime

from sidecar.errors import SidecarError
from sidecar.index.chunks import chunks_of
from sidecar.index.embed.choose import choose
from sidecar.index.embed.e5 import E5, LANES, embedded, places
from sidecar.index.embed.e5_body import INPUT, OUTPUT
from sidecar.index.embed.e5_file import Floats, WeightFile
from sidecar.index.embed.e5_made import made
from sidecar.index.embed.e5_pieces import Cutter
from sidecar.index.embed.weights import E5_WEIGHTS, checked
from sidecar.vault.notes import parse_note
from sidecar.vault.paths import VaultPath

ROOT = Path(__file__).parents[1]
CORPORA = Path(os.environ.get("VAULT_SIDECAR_CORPORA", ROOT.parent / "shared" / "corpora"))
SIZES = range(700, 1000)  # characters of a chunk: about 200 tokens of English
TOGETHER = 32  # texts in one call, as the vector worker does it


def texts_of(count: int) -> list[str]:
    """Chunks of the medium vault, the same at every run."""
    found: list[str] = []
    with tarfile.open(CORPORA / "vaults" / "medium.tar.gz") as archive:
        for at, member in enumerate(archive):
            is_note = member.isfile() and member.name.endswith(".md") and "/." not in member.name and at % 7 == 0
            if is_note and (stream := archive.extractfile(member)):
                note = parse_note(VaultPath.found(member.name), stream.read())
                found += [chunk.full for chunk in chunks_of(note.title, note.body) if len(chunk.full) in SIZES][:2]
            if len(found) >= count:
                break
    return found[:count]


class Bare:
    """The loop to compare with: two sessions of one thread each, a lane each."""

    def __init__(self, models_dir: Path) -> None:
        self._weights = WeightFile(checked(E5_WEIGHTS, models_dir))
        found = made(self._weights, models_dir, print)
        self._cutter = Cutter(found.pieces, self._weights)
        self._sessions = [session(found.body) for _ in range(LANES)]
        self._places = places(self._weights)
        self._lanes = ThreadPoolExecutor(LANES)

    def ready(self, texts: Sequence[str]) -> Callable[[], None]:
        """Prepare the inputs; what is returned runs them."""
        inputs = [
            embedded(self._weights, self._places, ids)
            for text in texts
            for ids in self._cutter.windows(f"passage: {text}")
        ]

        def lane(at: int) -> None:
            tokens: Floats
            for tokens in inputs[at::LANES]:
                self._sessions[at].run([OUTPUT], {INPUT: tokens})

        return lambda: list(self._lanes.map(lane, range(LANES))).clear()


def session(body: bytes) -> onnxruntime.InferenceSession:
    """One thread that does not spin."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(body, options, providers=["CPUExecutionProvider"])


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench embedding", description=__doc__)
    parser.add_argument("--texts", type=int, default=48, metavar="N", help="texts in a round (default 48)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    asked = parser.parse_args(arguments)
    texts = texts_of(asked.texts * asked.rounds)
    times: dict[str, list[tuple[float, float]]] = {}
    queries: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        models_dir = Path(folder)
        try:
            embedders = {name: choose(name, models_dir, print) for name in ("e5", "use")}
        except SidecarError as error:
            print(f"embedding: nothing was measured: {error}", file=sys.stderr)
            return 1
        assert isinstance(embedders["e5"], E5)
        bare = Bare(models_dir)
        for at in range(asked.rounds):
            some = texts[at * asked.texts :][: asked.texts]
            loop = bare.ready(some)
            times.setdefault("e5, bare loop", []).append(timed(loop))
            for name, embedder in embedders.items():
                parts = [some[first : first + TOGETHER] for first in range(0, len(some), TOGETHER)]
                times.setdefault(name, []).append(
                    timed(lambda embedder=embedder, parts=parts: [embedder.passages(part) for part in parts])
                )
                for text in some[:8]:
                    question = " ".join(text.split()[10:16])
                    wall, _ = timed(lambda embedder=embedder, question=question: embedder.query(question))
                    queries.setdefault(name, []).append(wall)
    figures = {
        name: {
            "texts/s": asked.texts / min(wall for wall, _ in found),
            "CPU ms/text": 1e3 * min(cpu for _, cpu in found) / asked.texts,
            "query ms": 1e3 * statistics.median(queries[name]) if name in queries else None,
        }
        for name, found in times.items()
    }
    share = figures["e5"]["texts/s"] / figures["e5, bare loop"]["texts/s"]  # type: ignore[operator]
    print(f"{'':<14} {'texts/s':>8} {'CPU ms/text':>12} {'query ms':>9}")
    for name, row in figures.items():
        query = f"{row['query ms']:>9.1f}" if row["query ms"] else f"{'':>9}"
        print(f"{name:<14} {row['texts/s']:>8.1f} {row['CPU ms/text']:>12.1f} {query}")
    print(f"embedding: e5 runs at {share:.2f} of the bare loop; best of {asked.rounds} rounds")
    if asked.json:
        asked.json.write_text(json.dumps({"figures": figures, "share": share}, indent=2) + "\n", encoding="utf-8")
    return 0
