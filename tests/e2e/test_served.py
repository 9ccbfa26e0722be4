"""The main job end to end: a real vault, a real daemon process, stock MCP clients."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from sidecar.index.holdings import Holdings
from tests.conftest import unpack
from tests.daemons import start_daemon
from tests.e2e.served import PATIENCE_S, Served, held_up, serve, tools_of

TOOLS = {"/mcp": tools_of(), "/mcp/notes": tools_of("notes")}


def tree_hash(folder: Path, *, without: str = "") -> str:
    """Names, kinds, modes, times and bytes of everything below a folder, or of all but what is called `without`."""
    digest = hashlib.sha256()
    for root, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if name != without)
        for name in sorted([*names, *files]):
            path = Path(root, name)
            status = path.lstat()
            digest.update(
                f"{path.relative_to(folder)}|{status.st_mode}|{status.st_mtime_ns}".encode("utf-8", "surrogateescape")
            )
            if path.is_symlink():
                digest.update(os.fsencode(os.readlink(path)))
            elif path.is_file():
                digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def small(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path, str]]:
    """The small archive, served; its tree hash from before."""
    scratch = tmp_path_factory.mktemp("small")
    vault = unpack(corpora / "vaults" / "small.tar.gz", scratch / "vault")
    before = tree_hash(vault)
    with serve(vault, scratch / "state") as served:
        yield served, vault, before


@pytest.mark.parametrize("path", TOOLS)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_python_client_lists_reads_and_searches(
    small: tuple[Served, Path, str], path: str, mode: str
) -> None:
    served, vault, _ = small
    url = f"http://127.0.0.1:{served.daemon.port}{path}"
    headers = {"Authorization": f"Bearer {served.daemon.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        revision = client.protocol_version
        assert revision == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == TOOLS[path]
        page = await client.call_tool("list_notes", {"folder": "kepano-obsidian", "limit": 3})
        [block] = page.content
        first = block.text.split("\n")[1]
        note = await client.call_tool("read_note", {"path": first})
        assert note.content[0].text == (vault / first).read_bytes().decode("utf-8-sig")
        hits = await client.call_tool("search_notes", {"query": "daily note"})
        assert not hits.is_error and "notes that match" in hits.content[0].text
        missing = await client.call_tool("read_note", {"path": "../outside.md"})
        assert missing.is_error


@pytest.mark.parametrize("path", TOOLS)
def test_curl_lists_and_calls_the_tools(small: tuple[Served, Path, str], path: str) -> None:
    served, vault, _ = small

    def curl(method: str, params: dict[str, object]) -> dict[str, object]:
        done = subprocess.run(
            [
                "curl", "-sS", "-X", "POST", f"http://127.0.0.1:{served.daemon.port}{path}",
                "-H", f"Authorization: Bearer {served.daemon.token}",
                "-H", "Content-Type: application/json",
                "-H", "Accept: application/json, text/event-stream",
                "-d", json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
            ],
            check=True, capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
        return json.loads(done.stdout)["result"]

    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "curl", "version": "0"}}
    answer = curl("initialize", hello)
    assert answer["protocolVersion"] == "2025-06-18"
    assert answer["serverInfo"]["name"] == "vault-sidecar"
    assert [tool["name"] for tool in curl("tools/list", {})["tools"]] == TOOLS[path]
    note = "jsoncanvas/readme.md"
    read = curl("tools/call", {"name": "read_note", "arguments": {"path": note}})
    assert read["content"][0]["text"] == (vault / note).read_text()
    assert "structuredContent" not in read


def test_the_list_is_what_a_walk_of_the_vault_finds(small: tuple[Served, Path, str]) -> None:
    served, vault, _ = small
    served.every_file_is_accounted_for(vault)
    indexed = sorted(path for path, _, _ in served.contents())
    assert served.listed == indexed


def test_ranked_search_finds_a_note_by_its_words(small: tuple[Served, Path, str]) -> None:
    served, _, _ = small
    answer = served.admin("search?k=5&q=recurring tasks next due date")
    assert answer["mode"] == "keyword"
    scores = [hit["score"] for hit in answer["results"]]
    assert scores == sorted(scores, reverse=True) and scores
    assert any("recurring" in hit["path"].lower() for hit in answer["results"])


def test_the_vault_is_never_written(small: tuple[Served, Path, str]) -> None:
    served, vault, before = small
    served.found("daily note")
    served.call("read_note", path="foam/readme.md")
    served.admin("search?q=template")
    assert tree_hash(vault) == before


@pytest.mark.parametrize("archive", ["medium", "i18n"])
def test_files_on_disk_are_indexed_or_skipped_with_a_reason(corpora: Path, tmp_path: Path, archive: str) -> None:
    vault = unpack(corpora / "vaults" / f"{archive}.tar.gz", tmp_path / "vault")
    before = tree_hash(vault)
    with serve(vault, tmp_path / "state") as served:
        served.every_file_is_accounted_for(vault)
    assert tree_hash(vault) == before


@pytest.mark.parametrize("batches", [1, 4, 9])
def test_a_daemon_killed_in_mid_index_ends_like_a_fresh_one(
    small: tuple[Served, Path, str], corpora: Path, tmp_path: Path, batches: int
) -> None:
    fresh, _, _ = small
    vault = unpack(corpora / "vaults" / "small.tar.gz", tmp_path / "vault")
    killed = start_daemon(vault, tmp_path / "state", env=held_up(tmp_path, Holdings.store_if_still_so, batches))
    served = Served(killed, tmp_path / "state")
    seen = 0
    while seen < batches:
        status = served.admin(f"status?after={seen}&wait_s=5")
        assert not status["settled"], "it was done before it could be killed"
        seen = status["generation"]
    served.close()
    killed.kill()
    with serve(vault, tmp_path / "state") as again:
        assert again.contents() == fresh.contents()
        for query in ("task", "obsidian plugin settings", "日本"):
            strip = [(hit["path"], round(hit["score"], 9)) for hit in again.admin(f"search?k=50&q={query}")["results"]]
            assert strip == [
                (hit["path"], round(hit["score"], 9)) for hit in fresh.admin(f"search?k=50&q={query}")["results"]
            ]
            assert again.found(query) == fresh.found(query)
        assert again.listed == fresh.listed


# saves, over HTTP


@pytest.fixture
def living(tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    vault = tmp_path / "vault"
    (vault / "Folder").mkdir(parents=True)
    (vault / "Folder" / "Note.md").write_text("the word is first")
    (vault / "Other.md").write_text("unrelated")
    with serve(vault, tmp_path / "state") as served:
        yield served, vault


def agree(served: Served, query: str, paths: list[str]) -> None:
    """At the first generation at which one view has the change, all three have it."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        generation = served.admin("status")["generation"]
        if served.found(query) == sorted(paths):
            break
        assert time.monotonic() < give_up
        served.admin(f"status?after={generation}&wait_s=5")
    ranked = [hit["path"] for hit in served.admin(f"search?k=100&q={query}")["results"]]
    assert sorted(ranked) == sorted(paths)
    served.__dict__.pop("listed", None)
    assert set(paths) <= set(served.listed)


def vim(path: Path, text: str) -> None:
    backup = path.with_name(path.name + "~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def temp_rename(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.swp")
    temporary.write_text(text)
    os.replace(temporary, path)


def in_place(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.mark.parametrize("save", [vim, temp_rename, in_place])
def test_a_save_is_right_everywhere(living: tuple[Served, Path], save: Callable[[Path, str], None]) -> None:
    served, vault = living
    save(vault / "Folder" / "Note.md", "the word is second")
    agree(served, "second", ["Folder/Note.md"])
    agree(served, "first", [])


def test_a_rename_a_move_and_a_delete_are_right_everywhere(living: tuple[Served, Path]) -> None:
    served, vault = living
    (vault / "Folder" / "Note.md").rename(vault / "Folder" / "Renamed.md")
    agree(served, "first", ["Folder/Renamed.md"])
    (vault / "Folder").rename(vault / "Moved")
    agree(served, "first", ["Moved/Renamed.md"])
    shutil.rmtree(vault / "Moved")
    agree(served, "first", [])
    served.__dict__.pop("listed", None)
    assert served.listed == ["Other.md"]
