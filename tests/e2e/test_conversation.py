"""Stock clients of three SDKs hold the same conversation over HTTP and over stdio, and hear the same."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.daemons import environment
from tests.e2e.conversation import Heard, Http, Line, Stdio, Way, python, told, typescript
from tests.e2e.served import Served, serve, wait_for_vectors, with_vectors

NOTES = {
    "Projects/Wärmepumpe.md": "---\ntags: [house]\n---\n# Offer\r\n\r\nWe take the heat pump. The boiler goes.\n",
    "Projects/Plan.md": "# Plan\n\nThe winter plan has three parts.\n\nThe third part is the winter plan itself.\n",
    "京都.md": "# 京都\n桜の季節に三日間泊まった。\n",
    "Empty.md": "",
}
SCRIPT: list[Line] = [
    {"tool": "list_notes", "arguments": {"limit": 3}},
    {"tool": "list_notes", "arguments": {"folder": "Projects", "offset": 1}},
    {"tool": "read_note", "arguments": {"path": "Projects/Wärmepumpe.md"}},
    {"tool": "read_note", "arguments": {"path": "Empty.md"}},
    {"tool": "search_notes", "arguments": {"query": "winter plan"}},
    {"tool": "search_notes", "arguments": {"query": "三日間"}},
    {"tool": "semantic_search", "arguments": {"query": "heat pump", "top_k": 2}},
    {"tool": "read_note", "arguments": {}},
    {"tool": "read_note", "arguments": {"path": "../etc/passwd.md", "colour": "red"}},
    {"tool": "read_note", "arguments": {"path": "projects/plan.md"}},
    {"tool": "no_such_tool", "arguments": {}},
]
CLIENTS: dict[str, tuple[Callable[[Way, list[Line]], Awaitable[Heard]], str]] = {
    "python": (partial(python, "auto"), "2026-07-28"),
    "python with a handshake": (partial(python, "legacy"), "2025-11-25"),
    "typescript 1": (partial(typescript, "1"), "2025-11-25"),
    "typescript 2": (partial(typescript, "2 auto"), "2026-07-28"),
    "typescript 2 with a handshake": (partial(typescript, "2"), "2025-11-25"),
}
WAYS = ("http", "stdio")


def make_vault(folder: Path) -> Path:
    for name, words in NOTES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(words.encode())
    return folder


def relay(vault: Path, state: Path, *before: str) -> Stdio:
    """`vault-sidecar mcp`, with its environment. `before`: a command that runs another one in its own place."""
    command, *args = [*before, sys.executable, "-m", "sidecar", "mcp", "--vault", str(vault), "--state", str(state)]
    return Stdio(command, tuple(args), environment(**with_vectors("hash")), REPOSITORY)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    scratch = tmp_path_factory.mktemp("conversation")
    with serve(make_vault(scratch / "vault"), scratch / "state", embedder="hash") as served:
        wait_for_vectors(served)
        yield served


@pytest.fixture(scope="module")
def heard(served: Served) -> dict[tuple[str, str], Heard | BaseException]:
    """By client and way. Held all at once, as clients on one computer do."""
    ways: dict[str, Way] = {
        "http": Http(served.daemon.url, served.daemon.token),
        "stdio": relay(served.state.parent / "vault", served.state),
    }

    async def hold() -> list[Any]:
        talks = [hold(ways[way], SCRIPT) for hold, _ in CLIENTS.values() for way in WAYS]
        return await asyncio.gather(*talks, return_exceptions=True)

    return dict(zip([(client, way) for client in CLIENTS for way in WAYS], asyncio.run(hold()), strict=True))


def of(heard: dict[tuple[str, str], Heard | BaseException], client: str, way: str) -> Heard:
    """What one client heard; its failure if it came to nothing."""
    one = heard[client, way]
    if isinstance(one, BaseException):
        raise one
    return one


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_hears_the_same(
    heard: dict[tuple[str, str], Heard | BaseException], client: str, way: str
) -> None:
    one = of(heard, client, way)
    assert one["revision"] == CLIENTS[client][1]
    assert one["noise"] == []
    assert told(one) == told(of(heard, "python with a handshake", "http"))


def test_what_they_hear_is_what_the_contract_says(
    served: Served, heard: dict[tuple[str, str], Heard | BaseException]
) -> None:
    one = told(of(heard, "python with a handshake", "http"))
    assert one["server"]["name"] == "vault-sidecar"
    assert {line["tool"] for line in SCRIPT} - {tool["name"] for tool in one["tools"]} == {"no_such_tool"}
    good, refused = one["answers"][:7], one["answers"][7:-1]
    assert [answer["is_error"] for answer in good] == [False] * 7
    texts = ["\n".join(block["text"] for block in answer["content"]) for answer in good]
    assert texts[0].startswith("3 of 4 notes") and texts[0].endswith("offset 3.")
    assert texts[1].splitlines()[1:] == ["Projects/Wärmepumpe.md"]
    assert texts[2] == NOTES["Projects/Wärmepumpe.md"] and texts[3] == ""
    assert list(good[2]["meta"]) == ["vault-sidecar/checksum"]
    assert texts[4].splitlines()[0] == '1 note matches "winter plan".' and "京都.md" in texts[5]
    assert texts[6].splitlines()[1].startswith("Projects/Wärmepumpe.md (score ")
    assert [(answer["is_error"], answer["content"][0]["text"]) for answer in refused] == [
        (True, "path: is required."),
        (True, "colour: is not an argument of read_note."),
        (True, "There is no note 'projects/plan.md'. Did you mean 'Projects/Plan.md'?"),
    ]
    assert one["answers"][-1] == {"error": {"code": -32602, "message": "Unknown tool: no_such_tool"}}
    assert one["again"] == one["answers"][0]


@pytest.mark.parametrize("client", [name for name in CLIENTS if not name.startswith("typescript 2")])
async def test_a_stray_line_on_stdout_is_noticed(served: Served, client: str) -> None:
    """The control: these clients would tell if the relay printed anything of its own; TypeScript 2 passes it over."""
    noisy = relay(
        served.state.parent / "vault", served.state, "sh", "-c", 'echo "hello, I am a library"; exec "$@"', "sh"
    )
    hold, _ = CLIENTS[client]
    assert (await hold(noisy, SCRIPT[:1]))["noise"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_wrong_token_ends_the_conversation(served: Served, client: str) -> None:
    hold, _ = CLIENTS[client]
    with pytest.raises(Exception):  # noqa: B017 - each SDK has its own, and not all say why
        await hold(Http(served.daemon.url, "x" * 40), SCRIPT[:1])
    assert served.admin("status")["last_refused"]["status"] == 401
