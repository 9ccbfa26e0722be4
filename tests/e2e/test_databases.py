"""Databases end to end: a real daemon, the commands, curl, stock clients over HTTP and stdio."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import jsonschema
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests import wire
from tests.conftest import REPOSITORY
from tests.daemons import Daemon, environment
from tests.e2e.served import with_vectors
from tests.e2e.test_served import tree_hash
from tests.eras import HANDSHAKE
from tests.lab import wait_until
from tests.security.starts import Site
from tests.stdio import Household, command, relay_environment

PATIENCE_S = 60.0
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "probe", "version": "0"}}


class Library:
    """A vault's daemon, a folder of documents beside it, and the ways to ask for them."""

    def __init__(self, folder: Path, *, embedder: str | None = None) -> None:
        self.site = Site(folder)
        (self.site.vault / "Note.md").write_text("# A note\n")
        self.docs = folder / "docs"
        self.docs.mkdir()
        (self.docs / "rag.md").write_text("RAG combines retrieval with generation.\n\nLighthouses shine.\n")
        (self.docs / "many.txt").write_text("a common word\n\n" * 250)
        self.env = with_vectors(embedder)
        self.daemon: Daemon = self.site.start(**self.env)

    def close(self) -> None:
        self.site.close()

    def run(self, *args: str, said: str = "") -> subprocess.CompletedProcess[str]:
        """A command about this vault."""
        return subprocess.run(
            [sys.executable, "-m", "sidecar", *args, "--vault", self.site.vault, "--state", self.site.root],
            env=environment(),
            cwd=REPOSITORY,
            input=said,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def add(self, name: str, folder: Path | None = None) -> None:
        done = self.run("db", "add", name, str(folder or self.docs))
        assert done.returncode == 0, done.stderr

    def states(self) -> list[dict[str, Any]]:
        return json.loads(self.run("db", "list", "--json").stdout)["databases"]

    def settle(self, *, within_s: float = PATIENCE_S) -> None:
        """Wait until all is indexed, also by meaning where there are vectors."""

        def done() -> bool:
            states = self.states()
            by_meaning = all(s.get("chunks", {}).get("vector") == s.get("chunks", {}).get("total") for s in states)
            return all(s.get("settled") for s in states) and (by_meaning or not self.env)

        wait_until(done, within_s=within_s)

    def post(self, body: bytes, path: str = "/databases/mcp", session: str | None = None, **more: str) -> wire.Reply:
        given = more | ({"Mcp_Session_Id": session} if session else {})
        return wire.post(self.daemon.port, self.site.token, body, path, **given)

    def open_session(self, revision: str = "2025-11-25", path: str = "/databases/mcp") -> str | None:
        hello = wire.call("initialize", {**HELLO, "protocolVersion": revision})
        return self.post(hello, path).header("Mcp-Session-Id")

    def call(self, tool: str, session: str | None = None, **arguments: Any) -> dict[str, Any]:
        """The result of a tool call, by a session or over the composite."""
        return self.post(wire.tool(tool, **arguments), "/databases/mcp" if session else "/mcp", session).json()[
            "result"
        ]

    def search(self, **arguments: Any) -> dict[str, Any]:
        """The structured result of search_rag."""
        result = self.call("search_rag", **arguments)
        assert not result.get("isError"), result
        return result["structuredContent"]

    def refusal(self, **arguments: Any) -> str:
        result = self.call("search_rag", **arguments)
        assert result["isError"] and "structuredContent" not in result
        [block] = result["content"]
        return block["text"]

    def get(self, path: str, method: str = "GET", token: str | None = None, **more: str) -> wire.Reply:
        token = self.site.token if token is None else token
        headers = {"Host": f"127.0.0.1:{self.daemon.port}"} | more
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        with wire.Wire(self.daemon.port) as client:
            client.send(wire.request(method, f"/databases/api/{path}", headers))
            return client.reply(bodiless=method == "HEAD")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with closing(Library(tmp_path)) as made:
        yield made


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """With one database, `docs`, by words and by meaning. Not to be changed."""
    with closing(Library(tmp_path_factory.mktemp("filled"), embedder="hash")) as made:
        made.add("docs")
        made.settle()
        yield made


def counts(branch: list[dict[str, Any]]) -> int:
    return sum(len(source["matches"]) for source in branch)


# the page's own sequence

INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    '"clientInfo":{"name":"probe","version":"0"}}}'
)
LIST = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_rag","arguments":{}}}'
SEARCH = (
    '{"jsonrpc":"2.0","id":3,"method":"tools/call",'
    '"params":{"name":"search_rag","arguments":{"db":"docs","q":"retrieval"}}}'
)


@pytest.mark.skipif(not shutil.which("curl") or sys.platform == "win32", reason="needs curl and a shell")
def test_the_sequence_of_the_page_works_with_curl(library: Library) -> None:
    library.add("docs")
    library.settle()

    def curl(body: str, *headers: str, method: str = "POST", token: str = library.site.token) -> tuple[int, str, str]:
        script = f"""
            BASE="$(cat '{library.site.state}/databases/endpoint')"
            curl -s -i -X {method} "$BASE/mcp" \\
              -H 'Content-Type: application/json' \\
              -H 'Accept: application/json, text/event-stream' \\
              -H "Authorization: Bearer $TOKEN" {" ".join(f"-H '{header}'" for header in headers)} \\
              {f"-d '{body}'" if body else ""}
        """
        done = subprocess.run(
            ["sh", "-c", script], env={**os.environ, "TOKEN": token}, capture_output=True, text=True, check=True
        )
        head, _, answer = done.stdout.partition("\n\n")
        return int(head.split()[1]), head, answer

    status, head, answer = curl(INITIALIZE)
    assert status == 200
    found = re.search(r"^Mcp-Session-Id: (\S+)$", head, re.MULTILINE | re.IGNORECASE)
    assert found is not None
    session = f"Mcp-Session-Id: {found[1]}"
    instructions = json.loads(answer)["result"]["instructions"]
    for statement in (
        "Read-only retrieval over static files that the user placed in watched folders.",
        "Use it whenever an answer depends on the content of those files rather than on general knowledge.",
        "It stores no conversation history, no session memory and no user profile.",
    ):
        assert statement in instructions
    listed = json.loads(curl(LIST, session)[2])["result"]["structuredContent"]
    assert listed["loaded"] == ["docs"]
    assert [entry["db"] for entry in listed["registered"]] == ["docs"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", listed["registered"][0]["createAt"])
    answer = json.loads(curl(SEARCH, session)[2])["result"]["structuredContent"]
    assert answer["keyword"] == [
        {
            "source": f"{library.docs}/rag.md",
            "matches": [{"chunk": 1, "content": "RAG combines retrieval with generation."}],
        }
    ]
    assert curl(LIST)[0] == 400
    assert curl(LIST, "Mcp-Session-Id: 0123456789abcdef0123456789abcdef")[0] == 404
    assert curl("", session, method="DELETE")[0] == 200
    assert curl(LIST, session)[0] == 404
    second = re.search(r"^Mcp-Session-Id: (\S+)$", curl(INITIALIZE)[1], re.MULTILINE | re.IGNORECASE)
    assert second is not None
    old = library.site.token
    assert library.run("token", "rotate").returncode == 0
    assert library.site.token != old
    assert curl(LIST, f"Mcp-Session-Id: {second[1]}", token=old)[0] == 401
    assert curl(LIST, f"Mcp-Session-Id: {second[1]}", token=library.site.token)[0] == 404


@pytest.mark.parametrize("path", ["/databases/mcp", "/mcp/databases"])
def test_x26_a_session_counts_on_both_paths_and_a_guessed_one_on_none(filled: Library, path: str) -> None:
    for revision in HANDSHAKE:
        session = filled.open_session(revision, path)
        assert session is not None
        for other in ("/databases/mcp", "/mcp/databases"):
            assert filled.post(wire.call("tools/list"), other, session).status == 200
            assert filled.post(wire.call("tools/list"), other, session[::-1]).status == 404
            assert filled.post(wire.call("tools/list"), other).status == 400
    reply = filled.post(wire.call("tools/list"), "/mcp", "guessed")
    assert reply.status == 200 and reply.header("Mcp-Session-Id") is None


# answers


@pytest.mark.parametrize("mode", [None, "keyword", "semantic"])
@pytest.mark.parametrize("q", ["RAG combines retrieval", "nonsense"])
def test_branches_text_and_rest_agree(filled: Library, mode: str | None, q: str) -> None:
    asked = {"db": "docs", "q": q} | ({"mode": mode} if mode else {})
    result = filled.call("search_rag", **asked)
    found = result["structuredContent"]
    [block] = result["content"]
    assert json.loads(block["text"]) == found
    assert list(found) == [branch for branch in ("keyword", "semantic") if mode in (None, branch)]
    for branch in found.values():
        assert bool(branch) == (q != "nonsense")
    query = "&".join(f"{name}={quote(value)}" for name, value in asked.items())
    assert filled.get(f"search?{query}").json() == {"keyword": [], "semantic": []} | found


def test_results_fit_the_advertised_schema(filled: Library) -> None:
    tools = filled.post(wire.call("tools/list"), "/mcp").json()["result"]["tools"]
    schemas = {tool["name"]: tool["outputSchema"] for tool in tools if "outputSchema" in tool}
    for tool, arguments in (
        ("list_rag", {}),
        ("search_rag", {"db": "docs", "q": "common word"}),
        ("search_rag", {"db": "docs", "q": "common word", "mode": "keyword"}),
        ("search_rag", {"db": "docs", "q": "nonsense", "mode": "semantic"}),
    ):
        jsonschema.validate(filled.call(tool, **arguments)["structuredContent"], schemas[tool])


@pytest.mark.parametrize(
    ("limit", "count"), [(1, 1), (7, 7), (100, 100), (0, 10), (101, 10), (-1, 10), (10**9, 10), (10**30, 10), (5.0, 5)]
)
def test_a_limit_counts_passages_in_each_branch(filled: Library, limit: float, count: int) -> None:
    found = filled.search(db="docs", q="common word", limit=limit)
    assert [counts(found[branch]) for branch in ("keyword", "semantic")] == [count, count]
    assert len(found["keyword"]) == 1
    if isinstance(limit, int):
        assert filled.get(f"search?db=docs&q=common%20word&limit={limit}").json() == found


@pytest.mark.parametrize("limit", ["5", 1.5, True, None, [], "ten"])
def test_a_limit_that_is_no_whole_number_is_a_mistake(filled: Library, limit: Any) -> None:
    assert filled.refusal(db="docs", q="x", limit=limit) == "limit: must be a whole number."


REFUSALS = [
    ({"db": "nope", "q": "x"}, "'nope' does not exist; list_rag names the databases."),
    ({"db": "DOCS", "q": "x"}, "'DOCS' does not exist; list_rag names the databases."),
    ({"db": "../x", "q": "x"}, "'../x' does not exist; list_rag names the databases."),
    ({"db": "%", "q": "x"}, "'%' does not exist; list_rag names the databases."),
    ({"db": "docs", "q": " "}, "q: is required."),
    ({"db": "docs"}, "q: is required."),
    ({"q": "x"}, "db: is required."),
    ({"db": "docs", "q": "x" * 2001}, "q: at most 2,000 characters."),
    ({"db": "docs", "q": "x", "mode": "fuzzy"}, "mode: must be one of keyword, semantic."),
    ({"db": "docs", "q": "x", "mode": ""}, "mode: must be one of keyword, semantic."),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSALS)
def test_mistakes_have_the_same_sentence_everywhere(filled: Library, arguments: dict[str, str], sentence: str) -> None:
    assert filled.refusal(**arguments) == sentence
    query = "&".join(f"{name}={quote(value)}" for name, value in arguments.items())
    reply = filled.get(f"search?{query}")
    assert (reply.status, reply.json()) == (400, {"error": sentence})


def test_a_name_is_trimmed_and_unknown_arguments_are_refused(filled: Library) -> None:
    assert counts(filled.search(db=" docs ", q=" retrieval ", mode="keyword")["keyword"]) == 1
    assert filled.refusal(db="docs", q="x", colour="red") == "colour: is not an argument of search_rag."
    result = filled.call("list_rag", colour="red")
    assert result["content"][0]["text"] == "colour: is not an argument of list_rag."


def test_the_rest_of_rest(filled: Library) -> None:
    health = filled.get("health")
    assert (health.status, health.body) == (200, b"OK")
    assert (health.header("Content-Type") or "").startswith("text/plain")
    assert filled.get("list").json() == filled.call("list_rag")["structuredContent"]
    assert filled.get("search?db=docs&q=x&colour=red").status == 400
    assert filled.get("search?db=docs&q=x&q=y").json() == {"error": "q: is given twice."}
    for path in ("health", "list", "search?db=docs&q=retrieval", "search?db=nope&q=x"):
        whole, head = filled.get(path), filled.get(path, "HEAD")
        assert (head.status, head.header("Content-Length")) == (whole.status, whole.header("Content-Length"))
        for method in ("POST", "PUT", "DELETE"):
            reply = filled.get(path, method)
            assert (reply.status, reply.header("Allow")) == (405, "GET")
        assert filled.get(path, token="").status == 401
        assert filled.get(path, Origin="https://evil.example").status == 403
    assert filled.get("nothing").status == 404


# a daemon that runs


async def test_a_database_that_is_added_is_found_by_clients_that_are_open_and_gone_when_it_is_removed(
    library: Library, tmp_path: Path
) -> None:
    before = await asyncio.to_thread(tree_hash, library.docs)
    token = await asyncio.to_thread(lambda: library.site.token)
    program, *rest = command(library.site.vault, library.site.root, "--surface", "databases")
    over_stdio = StdioServerParameters(command=program, args=rest, env=relay_environment(), cwd=REPOSITORY)
    headers = {"Authorization": f"Bearer {token}"}
    url = f"http://127.0.0.1:{library.daemon.port}/databases/mcp"
    with (tmp_path / "log").open("w") as log:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(url, http_client=http), mode="legacy") as session,
            Client(stdio_client(over_stdio, log)) as piped,
        ):
            clients = (session, piped)
            for client in clients:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["list_rag", "search_rag"]
                assert (await client.call_tool("list_rag", {})).structured_content == {"loaded": [], "registered": []}
            await asyncio.to_thread(library.add, "my docs")
            for client in clients:
                listed = (await client.call_tool("list_rag", {})).structured_content
                assert listed and [entry["db"] for entry in listed["registered"]] == ["my_docs"]
            await asyncio.to_thread(library.settle)
            answers: list[str] = []
            for client in clients:
                assert (await client.call_tool("list_rag", {})).structured_content["loaded"] == ["my_docs"]
                found = await client.call_tool("search_rag", {"db": "my_docs", "q": "lighthouses"})
                assert found.structured_content["keyword"][0]["source"] == f"{library.docs}/rag.md"
                answers.append(found.content[0].text)
            assert answers[0] == answers[1]
            done = await asyncio.to_thread(library.run, "db", "remove", "my_docs", "--yes")
            assert done.returncode == 0, done.stderr
            for client in clients:
                gone = await client.call_tool("search_rag", {"db": "my_docs", "q": "lighthouses"})
                assert gone.is_error
                assert gone.content[0].text == "'my_docs' does not exist; list_rag names the databases."
    assert await asyncio.to_thread(tree_hash, library.docs) == before


def test_a_database_may_lie_in_the_vault_and_its_files_stay_as_they_are(library: Library) -> None:
    papers = library.site.vault / "Papers"
    shutil.copytree(library.docs, papers)
    before = tree_hash(papers)
    library.add("papers", papers)
    library.settle()
    found = library.search(db="papers", q="lighthouses")
    assert [source["source"] for source in found["keyword"]] == [f"{papers}/rag.md"]
    assert list(found) == ["keyword"]
    assert library.run("db", "remove", "papers", "--yes").returncode == 0
    assert tree_hash(papers) == before


def test_commands_change_the_registry_while_no_daemon_runs(library: Library) -> None:
    library.daemon.stop()
    library.add("docs")
    refused = library.run("db", "add", "Docs", str(library.docs))
    assert (refused.returncode, refused.stderr) == (1, "vault-sidecar: 'Docs' exists already.\n")
    refused = library.run("db", "add", "../x", str(library.docs))
    assert refused.stderr == "vault-sidecar: '../x' is not a database name; use letters, digits, _ . and -.\n"
    refused = library.run("db", "add", "x", str(library.docs / "missing"))
    assert refused.stderr == "vault-sidecar: There is no folder at that path.\n"
    refused = library.run("db", "add", "x", str(library.site.state))
    assert "That folder can't be a database: it holds the state of vault-sidecar" in refused.stderr
    [state] = library.states()
    assert (state["db"], state["folder"], state["loaded"]) == ("docs", str(library.docs), False)
    assert str(library.docs) in library.run("db", "list").stdout
    refused = library.run("db", "remove", "docs")
    assert refused.returncode == 1 and "--yes" in refused.stderr
    assert [state["db"] for state in library.states()] == ["docs"]
    library.site.start(**library.env)
    library.settle()
    index = library.site.state / "databases"
    assert [path.name[:2] for path in index.iterdir() if path.is_dir()] == ["i-"]
    for daemon in library.site._begun:
        daemon.stop()
    assert library.run("db", "remove", "docs", "--yes").returncode == 0
    assert library.states() == []
    assert not [path for path in index.iterdir() if path.is_dir()]
    assert library.run("db", "remove", "docs", "--yes").returncode == 1


def test_status_tells_of_databases(library: Library) -> None:
    library.add("docs")
    library.settle()
    (library.docs / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    wait_until(lambda: library.states()[0]["files"]["skipped"] == 1, within_s=PATIENCE_S)
    assert library.states()[0]["skipped"][0]["path"] == "broken.pdf"
    line = next(line for line in library.run("status").stdout.splitlines() if line.startswith("  databases"))
    assert f"docs  {library.docs}  2 files, 252 passages" in line and "1 left out" in line


# where it listens


def test_the_address_is_in_files_while_the_daemon_listens(library: Library) -> None:
    base = f"http://127.0.0.1:{library.daemon.port}"
    files = {"endpoint": base, "databases/endpoint": f"{base}/databases"}
    for name, url in files.items():
        path = library.site.state / name
        assert path.read_text() == f"{url}\n"
        assert library.site.token not in path.read_text()
        if sys.platform != "win32":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert library.run("endpoint").stdout == f"{base}\n"
    assert library.run("endpoint", "--databases").stdout == f"{base}/databases\n"
    assert json.loads(library.run("endpoint", "--databases", "--json").stdout)["url"] == f"{base}/databases"
    library.daemon.kill()
    assert all((library.site.state / name).exists() for name in files)  # stale now
    assert library.run("endpoint", "--databases").returncode == 1
    second = library.site.start()
    for name in files:
        assert f":{second.port}" in (library.site.state / name).read_text()
    second.stop()
    assert not any((library.site.state / name).exists() for name in files)
    done = library.run("endpoint", "--databases")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_pinned_port_that_is_taken_is_a_failure_and_clearing_it_gives_another(library: Library) -> None:
    library.daemon.stop()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert library.run("port", "set", str(port)).returncode == 0
        failed = library.site.begin(port=None)
        assert failed.process.wait(PATIENCE_S) != 0
        assert str(port) in failed.stderr()
        assert not (library.site.state / "databases" / "endpoint").exists()
        assert library.run("port", "clear").returncode == 0
        assert library.site.start(port=None).port != port
    assert library.run("port", "set", "80").returncode == 2


def test_while_the_surface_is_not_enabled_nothing_of_it_is_there(library: Library) -> None:
    library.add("docs")
    library.daemon.stop()
    library.daemon = library.site.start(VAULT_SIDECAR_SURFACES_ENABLED="notes")
    assert library.get("health").status == 404
    assert library.get("health", token="").status == 401
    for path in ("/databases/mcp", "/mcp/databases"):
        assert library.post(wire.call("tools/list"), path).status == 404
    names = [tool["name"] for tool in library.post(wire.call("tools/list"), "/mcp").json()["result"]["tools"]]
    assert "search_rag" not in names
    assert not (library.site.state / "databases" / "endpoint").exists()
    [state] = library.states()
    assert state["problem"] == "it is not loaded: the surface databases is not enabled"


def test_relays_list_the_surface_byte_for_byte_like_http(tmp_path: Path) -> None:
    with Household(tmp_path / "vault", tmp_path / "root") as home:
        client = home.relay("--surface", "databases")
        client.shake_hands()
        line = wire.call("tools/list", {}, message_id="list")
        client.send(line)
        hello = wire.post(home.daemon().port, home.token(), wire.call("initialize", HELLO), "/mcp/databases")
        session = {"Mcp_Session_Id": hello.header("Mcp-Session-Id") or ""}
        reply = wire.post(home.daemon().port, home.token(), line, "/mcp/databases", **session)
        assert client.answer_line("list") == reply.body
