"""`python -m scripts.e5_constants outliers|vectors`: prints what is kept in the repository of the exact e5 model.

outliers  the module `sidecar/index/embed/e5_outliers.py`: the channels that stay float32, chosen over paragraphs of
          the vaults in `corpora/vaults/i18n`, which is other text than the sets that quality is measured on
vectors   `tests/index/embed/e5_vectors.json`: what the float32 graph makes of a few texts
"""

from __future__ import annotations

import json
import os
import random
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sidecar.index.chunks import chunks_of
from sidecar.index.embed.e5 import E5, embedded, places, start
from sidecar.index.embed.e5_body import INPUT, PEAKS, exact_body
from sidecar.index.embed.e5_file import INNER, LAYERS, WeightFile
from sidecar.index.embed.e5_made import Made
from sidecar.index.embed.e5_pieces import Cutter, sentencepiece_model
from sidecar.index.embed.weights import E5_WEIGHTS, checked
from sidecar.vault.notes import parse_note
from sidecar.vault.paths import VaultPath

CORPORA = Path(os.environ.get("VAULT_SIDECAR_CORPORA", Path(__file__).parents[2] / "shared" / "corpora"))
CHANNELS = 16  # for each layer; 32 gave no better vectors
PARAGRAPHS = 20  # of each vault

TEXTS = (
    "Cold air drains from a slope > Fog\nCold air is heavier than warm air. On a clear night it flows down the hill and"
    " gathers behind the hedge, where the first frost of the year is found.",
    "Ein Mietvertrag, der für längere Zeit als ein Jahr geschlossen wird, bedarf der schriftlichen Form; sonst gilt er"
    " für unbestimmte Zeit.",
    "Виртуальная память позволяет программе использовать больше памяти, чем установлено в компьютере.",
    "分散式系統中，一個節點的時鐘永遠不可能和另一個節點完全一致，因此事件的先後順序要用邏輯時鐘來表示。",
    "हिमालय से निकलने वाली नदियाँ गर्मियों में भी सूखती नहीं, क्योंकि बर्फ पिघलती रहती है। ```git rebase -i HEAD~3```",
)


def paragraphs() -> Iterator[str]:
    """Chunks of notes by chance, the same at every run, as many from each vault."""
    notes: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
    with tarfile.open(CORPORA / "vaults" / "i18n.tar.gz") as archive:
        for member in archive:
            is_note = member.isfile() and member.name.endswith(".md") and "/." not in member.name
            if is_note and (stream := archive.extractfile(member)):
                notes[member.name.partition("/")[0]].append((member.name, stream.read()))
    chance = random.Random(1)
    for vault in sorted(notes):
        for name, data in chance.sample(sorted(notes[vault]), PARAGRAPHS):
            note = parse_note(VaultPath.found(name), data)
            yield chance.choice(chunks_of(note.title, note.body)).full


def outliers(weights: WeightFile) -> None:
    """Print those channels of each layer that reach the largest magnitudes."""
    cutter, beside, body = Cutter(sentencepiece_model(weights), weights), places(weights), start(exact_body(weights), 2)
    peaks = np.zeros((LAYERS, INNER), np.float32)
    for text in paragraphs():
        for ids in cutter.windows(f"passage: {text}"):
            peaks = np.maximum(peaks, body.run([PEAKS], {INPUT: embedded(weights, beside, ids)})[0])
    print('"""Channels inside the feed-forward blocks of e5, 16 a layer, that are larger than the others in any text.')
    print(
        "\nChosen by scripts/e5_constants.py. Another choice makes other vectors: then `BUILD` in `e5_made` must grow."
    )
    print('"""\n\nfrom __future__ import annotations\n\nOUTLIERS = (')
    for layer in peaks:
        print(f"    {tuple(sorted(np.argsort(-layer)[:CHANNELS].tolist()))},")
    print(")")


def vectors(weights: WeightFile) -> None:
    """Print texts and their vectors."""
    exact = E5(weights, lambda: Made(exact_body(weights), sentencepiece_model(weights)))
    passages = exact.passages(TEXTS)
    rows = [
        {
            "text": text,
            "passage": passage.round(5).tolist(),
            "query": exact.query(text).astype(np.float64).round(5).tolist(),
        }
        for text, passage in zip(TEXTS, passages.astype(np.float64), strict=True)
    ]
    print("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows) + "\n]")


def main(arguments: list[str]) -> int:
    """Print one of the two."""
    doing = {"outliers": outliers, "vectors": vectors}
    if len(arguments) != 1 or arguments[0] not in doing:
        print("usage: python -m scripts.e5_constants outliers|vectors", file=sys.stderr)
        return 2
    doing[arguments[0]](WeightFile(checked(E5_WEIGHTS, Path())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
