"""The embedders of other people's libraries: what is handed over to them, and what is said where they are missing.

The libraries themselves are not installed for the tests; doubles with the calls that are used stand in for them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sidecar.errors import NotFound
from sidecar.index.embed.choose import choose
from sidecar.index.embed.extras import NotInstalled
from sidecar.index.wire import EmbedderOptions
from tests.index.embedders import vector
from tests.index.vaults import opened
from tests.index.wordy import made_vault, said

MODULES = {"fastembed": "fastembed", "sentence-transformers": "sentence_transformers"}
LIBRARIES = sorted(MODULES)


@pytest.fixture(autouse=True)
def hub_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the libraries are told by environment variables, undone at the end."""
    for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "")


class Double:
    """Either library's model; the texts it got, and how it was made."""

    def __init__(self, *args: str, **options: Any) -> None:
        self.options = options
        self.name = args[0] if args else options["model_name"]
        self.passages: list[str] = []
        self.queries: list[str] = []
        if self.name == "no/such":
            raise OSError("it is not in /home/somebody/cache")

    def passage_embed(self, texts: Iterable[str], *, batch_size: int) -> Iterator[np.ndarray]:
        for text in texts:
            self.passages.append(text)
            yield 3 * vector(text)

    def query_embed(self, query: str) -> Iterator[np.ndarray]:
        self.queries.append(query)
        yield 3 * vector(query)

    def encode_document(self, texts: list[str], *, show_progress_bar: bool) -> np.ndarray:
        return np.array(list(self.passage_embed(texts, batch_size=len(texts))))

    def encode_query(self, texts: list[str], *, show_progress_bar: bool) -> np.ndarray:
        return np.array([one for text in texts for one in self.query_embed(text)])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Double]:
    """The models that were made of the doubles."""
    found: list[Double] = []

    def make(*args: str, **options: Any) -> Double:
        found.append(Double(*args, **options))
        return found[-1]

    library = SimpleNamespace(TextEmbedding=make, SentenceTransformer=make)
    for module in MODULES.values():
        monkeypatch.setitem(sys.modules, module, library)
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_texts_become_vectors_in_their_order_and_of_length_1(library: str, made: list[Double], tmp_path: Path) -> None:
    embedder = choose(f"{library}:org/model-1.5", tmp_path, print)
    assert (embedder.id, embedder.dim) == (f"{library}:org/model-1.5@1/64", 64)
    wanted = [f"text number {number}" for number in range(11)]
    np.testing.assert_allclose(embedder.passages(wanted), [vector(text) for text in wanted], atol=1e-6)
    np.testing.assert_allclose(embedder.query("a\0b"), vector("a b"), atol=1e-6)
    assert embedder.passages([]).shape == (0, 64)
    assert made[0].passages == wanted
    embedder.close()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("network", [False, True])
def test_a_model_is_fetched_only_where_that_is_allowed(
    library: str, network: bool, made: list[Double], tmp_path: Path
) -> None:
    choose(f"{library}:org/model", tmp_path, print, EmbedderOptions(network=network)).close()
    options = made[0].options
    assert options["local_files_only"] is not network
    assert (os.environ["HF_HUB_OFFLINE"] == "1") is not network
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert str(tmp_path / library) in (options.get("cache_dir"), options.get("cache_folder"))
    assert not options.get("trust_remote_code", False)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_model_that_is_not_here_is_told_without_paths(library: str, made: list[Double], tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match=r"no/such can't be loaded \(OSError\).*embedder_network = true") as missing:
        choose(f"{library}:no/such", tmp_path, print)
    assert "somebody" not in str(missing.value)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_that_is_not_installed_is_told_with_the_command_that_gets_it(
    library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, MODULES[library], None)
    with pytest.raises(NotFound, match=rf"'pip install \"vault-sidecar\[{library}\]\"' gets it"):
        choose(f"{library}:org/model", tmp_path, print)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_status_says_what_is_missing_and_words_answer(library: str, tmp_path: Path) -> None:
    vault = made_vault(tmp_path / "vault")
    async with opened(vault, tmp_path / "state", embedder=f"{library}:org/model") as corpus:
        status = await said(corpus, "off: ")
        assert library in status.vectors
        assert (await corpus.search("birchmoor", 3)).hits[0].path == "birchmoor.md"
