"""Runs: what the model is told, what it may call, how a run ends, and that there are two at the most."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from sidecar.config import AgentsConfig
from sidecar.errors import Busy, NotFound, NotRunnable, RunFailed
from sidecar.services.agents import provider as agents_provider
from sidecar.services.agents.agents import Requester
from sidecar.services.agents.turns import Pace
from tests.agents import CLIENT, PERSONA, SCOUT, Rig, aside, pass_time, rig, write_agent
from tests.provider import PATIENCE_S, Asked, Fail, Hang, Provider, Say, Use, provider

KINDS = ["openai", "anthropic"]
BOTH = pytest.mark.parametrize("kind", KINDS)
FREE = SCOUT.replace("tools: read_note, search_notes, semantic_search\n", "")


async def arrived(played: Provider, requests: int = 1) -> None:
    """Wait until the provider was asked so often."""
    async with asyncio.timeout(PATIENCE_S):
        while len(played.asked) < requests:
            await asyncio.sleep(0.005)


# what the model is told


@BOTH
async def test_the_model_is_told_persona_and_task_and_nothing_else(tmp_path: Path, kind: str) -> None:
    with provider(Say("Two notes.")) as played:
        async with rig(tmp_path, played, kind=kind, key="k-123456") as r:
            (r.vault / "Agents" / "Memory.md").write_text("- secret fact\n")
            assert await r.run(task="Which notes\nmention heating?") == "Two notes."
    [asked] = played.asked
    assert asked.persona == PERSONA
    assert asked.said == [("user", "Which notes\nmention heating?")]
    assert asked.tools == ["read_note", "search_notes"]
    assert asked.body["model"] == "claude-sonnet-5-5"
    sent = json.dumps(asked.body)
    assert "secret fact" not in sent
    assert str(tmp_path) not in sent
    assert asked.path == ("/v1/messages" if kind == "anthropic" else "/v1/chat/completions")


@BOTH
async def test_the_second_run_knows_nothing_of_the_first(tmp_path: Path, kind: str) -> None:
    with provider(Use([("read_note", {"path": "A.md"})]), Say("one"), Say("two")) as played:
        async with rig(tmp_path, played, kind=kind, key="k-123456") as r:
            assert [await r.run(task="first"), await r.run(task="second")] == ["one", "two"]
    assert played.asked[2].said == [("user", "second")]


@BOTH
async def test_results_of_tools_come_back_in_order_and_failures_are_marked(tmp_path: Path, kind: str) -> None:
    with provider(Use([("read_note", {"path": "A"}), ("search_notes", {})], text="Let me see."), Say("ok")) as played:
        async with rig(tmp_path, played, kind=kind, key="k-123456") as r:
            assert await r.run() == "ok"
            assert r.shelf.called == [("read_note", {"path": "A"}, "Scout"), ("search_notes", {}, "Scout")]
            assert played.asked[1].results == [("read_note of {'path': 'A'}", False), ("search_notes of {}", False)]
            r.shelf.fails, r.shelf.text = True, "There is no note 'A'."
            played.plays(Use([("read_note", {"path": "A"})]), Say("I could not."))
            assert await r.run() == "I could not."
    assert played.asked[1].results == [("There is no note 'A'.", True)]


async def test_what_the_file_says_of_temperature_and_tokens_is_passed_on(tmp_path: Path) -> None:
    text = "---\nname: Scout\nmodel: m\ntemperature: 0.2\nmax_tokens: 77\n---\nx"
    for kind in KINDS:
        with provider() as played:
            async with rig(tmp_path / kind, played, kind=kind, key="k-123456", text=text) as r:
                await r.run()
        assert (played.asked[0].body["temperature"], played.asked[0].body["max_tokens"]) == (0.2, 77)


@pytest.mark.parametrize(
    ("written", "settings", "model"),
    [
        ("model: sonnet\n", {}, "claude-sonnet-5-5"),
        ("model: sonnet\n", {"aliases": {"sonnet": "qwen3"}}, "qwen3"),
        ("model: inherit\n", {"model": "llama3.1"}, "llama3.1"),
        ("", {"model": "fast", "aliases": {"fast": "phi4"}}, "phi4"),
    ],
)
async def test_models_by_alias_and_default(tmp_path: Path, written: str, settings: dict[str, Any], model: str) -> None:
    with provider() as played:
        text = f"---\nname: Scout\n{written}---\nx"
        async with rig(tmp_path, played, text=text, settings=AgentsConfig(**settings)) as r:
            await r.run()
    assert played.asked[0].body["model"] == model


@BOTH
async def test_nothing_of_the_environment_or_of_this_computer_is_sent(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lures = ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    for name in lures:
        monkeypatch.setenv(name, f"lure-{name}")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Lure: lure\nAuthorization: lure")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with provider() as played:
        async with rig(tmp_path, played, kind=kind, key="k-123456") as r:
            await r.run()
    [asked] = played.asked
    assert "lure" not in str(asked.headers)
    known = {"host", "connection", "accept", "accept-encoding", "user-agent", "content-type", "content-length"}
    if kind == "anthropic":
        # its real service takes keys in this header alone; behind "Bearer" it answers 401 (Invalid bearer token)
        assert asked.headers["x-api-key"] == "k-123456"
        assert set(asked.headers) == known | {"anthropic-version", "x-api-key"}
    else:
        assert asked.headers["authorization"] == "Bearer k-123456"
        assert set(asked.headers) == known | {"authorization"}


@BOTH
async def test_the_providers_libraries_log_no_request(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """OPENAI_LOG and ANTHROPIC_LOG, set for other programs, would have them do so."""
    caplog.set_level(logging.DEBUG, kind)
    with provider(Use([("read_note", {"path": "A.md"})]), Say("done")) as played:
        async with rig(tmp_path, played, kind=kind, key="k-123456") as r:
            r.shelf.text = "words of a note"
            await r.run(task="private task")
    assert "words of a note" not in caplog.text
    assert "private task" not in caplog.text


async def test_a_service_on_this_computer_needs_no_key_and_gets_none(tmp_path: Path) -> None:
    with provider() as played:
        async with rig(tmp_path, played) as r:
            assert await r.run() == "done"
    assert "authorization" not in played.asked[0].headers


async def test_the_proxy_counts_where_the_settings_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as proxy:
        proxies_by_environment(monkeypatch, f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        table: dict[str, Any] = {"base_url": "https://provider.invalid/v1"}
        asks_proxy = AgentsConfig(use_proxy=True)
        async with rig(tmp_path, None, key="k-123456", settings=asks_proxy, pace=Pace(delays_s=()), **table) as r:
            assert "failed: the connection to the provider broke" in await r.refusal()
            assert lines == [b"CONNECT provider.invalid:443 HTTP/1.1\r\n"]
        async with rig(tmp_path / "without", None, key="k-123456", pace=Pace(delays_s=()), **table) as r:
            assert await r.refusal() == "'Scout' failed: the provider can't be reached."
    assert len(lines) == 1


def proxies_by_environment(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        for spelled in (name, name.lower()):
            monkeypatch.setenv(spelled, "" if name == "NO_PROXY" else url)


async def test_what_goes_to_this_computer_goes_by_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not encrypted."""
    with provider(Say("by the proxy")) as proxy, provider(Say("straight")) as played:
        proxies_by_environment(monkeypatch, proxy.anthropic_url)
        async with rig(tmp_path, played, settings=AgentsConfig(use_proxy=True)) as r:
            assert await r.run() == "straight"
            monkeypatch.setattr(agents_provider, "is_here", lambda host: False)  # the control
            r.agents.give_key("scripted", "k-123456")
            assert await r.run() == "by the proxy"


# the checks and their order


async def test_the_checks_come_in_their_order(tmp_path: Path) -> None:
    async with rig(tmp_path, None, kind="anthropic", allowed=False) as r:
        assert await r.refusal("Scuot") == "There is no agent 'Scuot'. list_agents names them."
        twin = write_agent(r.vault, "Twin.md")
        assert await r.refusal() == "'Scout' can't run: two files have this name."
        twin.unlink()
        gate = (
            "'Scout' may not be run by clients. Switch on \"Remote invocation\" for it in the plugin,"
            " or run: vault-sidecar agents remote Scout on"
        )
        assert await r.refusal() == gate
        await r.agents.set_remote("Scout", True)
        assert await r.refusal() == "'Scout' can't run: there is no key for the provider 'scripted'."
        records = r.records()
    assert [record.outcome for record in records] == ["refused"] * 4
    assert [record.agent for record in records] == ["Scout", "Scout", "Scout", "Scuot"]
    assert records[1].reason == gate
    assert all(record.turns is None and record.duration_ms is None and record.ended_at for record in records)


@pytest.mark.parametrize(
    ("written", "settings", "reason"),
    [
        ("provider: other\n", {"model": "m"}, "there is no provider 'other'; there are scripted"),
        ("", {}, "no model is set; name one in its file, or as [agents] model"),
    ],
)
async def test_what_is_not_set_is_named(tmp_path: Path, written: str, settings: dict[str, Any], reason: str) -> None:
    text = f"---\nname: Scout\n{written}---\nx"
    async with rig(tmp_path, None, text=text, settings=AgentsConfig(**settings)) as r:
        assert await r.refusal() == f"'Scout' can't run: {reason}."


async def test_a_name_that_needs_quotes_has_them_in_the_command(tmp_path: Path) -> None:
    async with rig(tmp_path, None, text="---\nname: $(reboot) me\n---\nx", allowed=False) as r:
        assert (await r.refusal("$(reboot) me")).endswith("agents remote '$(reboot) me' on")


async def test_d24_names_that_are_paths_or_commands_are_refused_and_nothing_is_asked(tmp_path: Path) -> None:
    with provider() as played:
        async with rig(tmp_path, played) as r:
            for name in ("../x", "$(touch x)", "`id`", "Agents/Scout", "Scout; ls", "\x00", "Scout\n"):
                with pytest.raises(NotFound):
                    await r.run(name)
            assert {record.outcome for record in r.records()} == {"refused"}
    assert played.asked == []


async def test_d24_a_gate_that_is_off_lets_nothing_start(tmp_path: Path) -> None:
    with provider() as played:
        async with rig(tmp_path, played, allowed=False) as r:
            for requester in (CLIENT, Requester("local", "plugin"), Requester("bob", "stdio")):
                with pytest.raises(NotRunnable):
                    await r.agents.run("Scout", "x", None, requester, r.report)
    assert played.asked == []


async def test_the_agent_as_it_is_now_is_run(tmp_path: Path) -> None:
    with provider() as played:
        async with rig(tmp_path, played) as r:
            await r.run()
            write_agent(r.vault, text=SCOUT.replace("one reason", "two reasons"))
            await r.run()
            assert [listed.changed for listed in await r.agents.listed()] == [True]
            (r.vault / "Agents" / "Scout.md").rename(r.vault / "Agents" / "Other.md")
            assert "may not be run by clients" in await r.refusal()
    assert "two reasons" in played.asked[1].persona


# what it may call


async def test_tools_are_narrowed_by_the_file_and_never_widened(tmp_path: Path) -> None:
    everything = ("list_notes", "read_note", "write_note", "run_agent", "list_agents", "kp_contribute_skill", "bash")
    for written, offered in (
        ("", ["list_notes", "read_note", "write_note"]),
        ("tools: Read\n", ["read_note"]),
        ("tools: run_agent, bash, Write\n", ["write_note"]),
        ("tools: []\n", []),
    ):
        with provider() as played:
            async with rig(
                tmp_path / str(len(written)), played, text=f"---\nname: Scout\nmodel: m\n{written}---\nx"
            ) as r:
                r.shelf.names = everything
                await r.run()
        assert played.asked[0].tools == offered


async def test_d25_run_agent_is_not_to_be_had_in_a_run(tmp_path: Path) -> None:
    call = Use([("run_agent", {"name": "Scout", "task": "again"}), ("list_agents", {})])
    with provider(call, Say("alone then")) as played:
        async with rig(tmp_path, played, text=FREE) as r:
            r.shelf.names = (*r.shelf.names, "run_agent", "list_agents")
            assert await r.run() == "alone then"
            assert r.shelf.called == []
            assert [record.outcome for record in r.records()] == ["done"]
    assert not {"run_agent", "list_agents"} & set(played.asked[0].tools)
    assert played.asked[1].results == [("There is no such tool now.", True)] * 2


async def test_a_tool_that_is_switched_off_meanwhile_is_refused_and_no_longer_offered(tmp_path: Path) -> None:
    with provider() as played:
        async with rig(tmp_path, played, text=FREE) as r:

            def switch_off(asked: Asked) -> Use:
                r.shelf.off.add("write_note")
                return Use([("write_note", {"path": "A.md"})])

            played.plays(switch_off, Say("ok"))
            await r.run()
            assert r.shelf.called == []
    assert "write_note" in played.asked[0].tools
    assert "write_note" not in played.asked[1].tools
    assert played.asked[1].results == [("There is no such tool now.", True)]


async def test_unknown_tools_and_malformed_arguments_are_told_to_the_model(tmp_path: Path) -> None:
    bad = Use([("Read", {}), ("read_note", "{not json"), ("read_note", "[1]"), ("read_note", "null")])
    with provider(bad, Say("ok")) as played:
        async with rig(tmp_path, played) as r:
            assert await r.run() == "ok"
            assert r.shelf.called == []
    told = "The arguments must be a JSON object."
    assert played.asked[1].results == [("There is no such tool now.", True), (told, True), (told, True), (told, True)]


async def test_no_more_than_ten_calls_at_once(tmp_path: Path) -> None:
    with provider(Use([("read_note", {"path": str(n)}) for n in range(12)]), Say("ok")) as played:
        async with rig(tmp_path, played) as r:
            await r.run()
            assert len(r.shelf.called) == 10
    late = "At most 10 tools can be called at once; this call was not carried out."
    assert [failed for _, failed in played.asked[1].results] == [False] * 10 + [True] * 2
    assert played.asked[1].results[-1] == (late, True)


async def test_a_long_result_is_cut(tmp_path: Path) -> None:
    with provider(Use([("read_note", {})]), Say("ok")) as played:
        async with rig(tmp_path, played) as r:
            r.shelf.text = "ä" * 50_000
            await r.run()
            assert played.asked[1].results == [("ä" * 50_000, False)]
            played.plays(Use([("read_note", {})]), Say("ok"))
            r.shelf.text += "ä"
            await r.run()
    [(text, failed)] = played.asked[1].results
    assert (len(text), failed) == (50_000, False)
    assert text.endswith("ä\n[Result cut at 50,000 characters.]")


async def test_a_long_answer_is_cut_whoever_asked(tmp_path: Path) -> None:
    with provider(Say("ä" * 100_000), Say("ä" * 100_001)) as played:
        async with rig(tmp_path, played) as r:
            assert await r.run() == "ä" * 100_000
            text = await r.run()
            assert [record.chars for record in r.records()] == [100_001, 100_000]
    assert len(text) == 100_000
    assert text.endswith("ä\n[Result cut at 100,000 characters.]")


# how it ends


async def test_turns_have_a_limit_and_the_last_calls_are_not_carried_out(tmp_path: Path) -> None:
    with provider(Use([("read_note", {})])) as played:
        async with rig(tmp_path, played) as r:
            assert await r.refusal(max_turns=3) == "'Scout' stopped after 3 turns without an answer."
            assert (len(played.asked), len(r.shelf.called)) == (3, 2)
            [record] = r.records()
            assert (record.outcome, record.turns, record.tools) == ("turn_limit", 3, {"read_note": 2})
            assert r.progress == [(n, 3, f"Turn {n} of at most 3.") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("call", "written", "setting", "turns"),
    [(None, "", 8, 8), (None, "", 3, 3), (None, "max_turns: 2\n", 8, 2), (4, "max_turns: 2\n", 8, 4), (1, "", 8, 1)],
)
async def test_the_number_of_turns_is_the_calls_else_the_files_else_the_settings(
    tmp_path: Path, call: int | None, written: str, setting: int, turns: int
) -> None:
    with provider(Use([("read_note", {})])) as played:
        text = f"---\nname: Scout\nmodel: m\n{written}---\nx"
        async with rig(tmp_path, played, text=text) as r:
            r.agents._max_turns = setting
            await r.refusal(max_turns=call)
    assert len(played.asked) == turns


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_no_answer_is_an_error(tmp_path: Path, text: str) -> None:
    with provider(Say(text or " ")) as played:
        async with rig(tmp_path, played) as r:
            assert await r.refusal() == "'Scout' gave no answer."
            assert r.records()[0].outcome == "failed"


@pytest.mark.parametrize(
    ("kind", "key"),
    [("openai", None), ("openai", "k-123456"), ("anthropic", "k-123456")],
    ids=["no key", "openai", "anthropic"],
)
async def test_a_turn_that_hangs_ends_the_run(tmp_path: Path, kind: str, key: str | None) -> None:
    with provider(Hang()) as played:
        async with rig(tmp_path, played, kind=kind, key=key, pace=Pace(turn_s=60)) as r:
            refusal = asyncio.create_task(r.refusal())
            await arrived(played)
            pass_time(61)
            assert await refusal == "'Scout' failed: the provider did not answer in 60 seconds."
            assert r.records()[0].outcome == "timeout"
    assert len(played.asked) == 1


async def test_a_run_that_takes_too_long_ends(tmp_path: Path) -> None:
    with provider(Use([("read_note", {})]), Hang()) as played:
        async with rig(tmp_path, played, pace=Pace(turn_s=600, run_s=300)) as r:
            refusal = asyncio.create_task(r.refusal())
            await arrived(played, 2)
            pass_time(301)
            assert await refusal == "'Scout' did not finish in 5 minutes."
            [record] = r.records()
    assert (record.outcome, record.turns, record.tools) == ("timeout", 2, {"read_note": 1})


async def test_a_run_can_be_cancelled_by_its_id_or_an_ending_of_it(tmp_path: Path) -> None:
    with provider(Hang()) as played:
        async with rig(tmp_path, played) as r:
            running = r.begin()
            await arrived(played)
            [record] = r.records()
            assert record.outcome == "running"
            for unknown in ("", "nothing", record.id + "x"):
                with pytest.raises(NotFound):
                    r.agents.cancel(unknown)
            assert r.agents.cancel(record.id[-8:].lower()) == record.id
            with pytest.raises(RunFailed, match="'Scout' was cancelled"):
                await running
            [record] = r.records()
            assert (record.outcome, record.reason) == ("cancelled", "'Scout' was cancelled.")
            with pytest.raises(NotFound):
                r.agents.cancel(record.id)


async def test_a_run_that_is_over_and_tidies_up_cannot_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sidecar.services.agents.conversation import Conversation

    closing, close = asyncio.Event(), asyncio.Event()
    original = Conversation.close

    async def slow(self: Conversation) -> None:
        closing.set()
        await close.wait()
        await original(self)

    monkeypatch.setattr(Conversation, "close", slow)
    with provider() as played:
        async with rig(tmp_path, played) as r:
            running = r.begin()
            async with asyncio.timeout(PATIENCE_S):
                await closing.wait()
            run_id = r.records()[0].id
            with pytest.raises(NotFound):
                r.agents.cancel(run_id)
            close.set()
            assert await asyncio.wait_for(running, PATIENCE_S) == "done"


async def test_who_leaves_ends_the_run_and_it_is_recorded(tmp_path: Path) -> None:
    with provider(Hang()) as played:
        async with rig(tmp_path, played) as r:
            running = r.begin()
            await arrived(played)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert [(each["outcome"], each["reason"]) for each in r.finished] == [("cancelled", "'Scout' was cancelled.")]
        assert r.records()[0].outcome == "cancelled"


async def test_who_leaves_again_and_again_is_recorded_all_the_same(tmp_path: Path) -> None:
    """As a transport's scope does it: each further wait of the run is cancelled too."""
    with provider(Hang()) as played:
        async with rig(tmp_path, played) as r:
            running = r.begin()
            await arrived(played)
            while not running.done():
                running.cancel()
                await asyncio.sleep(0)
        assert r.records()[0].outcome == "cancelled"


# two at the most


async def fill(r: Rig, played: Provider) -> list[asyncio.Task[str]]:
    """Two runs under way."""
    running = [r.begin(), r.begin()]
    await arrived(played, 2)
    return running


async def end(tasks: list[asyncio.Task[str]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


BUSY = "Busy: 2 agents are running already, at most 2 can. Try again later."


async def test_d23_the_third_is_busy_at_once_whoever_asks(tmp_path: Path) -> None:
    with provider(Hang()) as played:
        async with rig(tmp_path, played) as r:
            running = await fill(r, played)
            assert await r.refusal() == BUSY
            for requester in (Requester("bob", "stdio"), Requester("local", "plugin")):
                with pytest.raises(Busy):
                    await r.agents.run("Scout", "x", None, requester, r.report)
            assert [each.outcome for each in r.records()] == ["busy"] * 3 + ["running"] * 2
            assert [each.way for each in r.records()] == ["plugin", "stdio", "mcp", "mcp", "mcp"]
            await end(running)
    assert len(played.asked) == 2


async def test_d23_checks_that_fail_come_before_busy(tmp_path: Path) -> None:
    with provider(Hang()) as played:
        async with rig(tmp_path, played) as r:
            running = await fill(r, played)
            assert "There is no agent" in await r.refusal("Nobody")
            write_agent(r.vault, "Other.md", "x")
            assert "may not be run by clients" in await r.refusal("Other")
            await end(running)


@pytest.mark.parametrize("ending", ["answer", "error", "time-out", "leave", "cancel", "the provider dies"])
async def test_d23_a_slot_is_free_after_every_end(tmp_path: Path, ending: str) -> None:
    step = {"answer": Say("ok"), "error": Fail(401)}.get(ending, Hang())
    pace = Pace(turn_s=60, delays_s=())
    with provider(Hang()) as played:
        async with rig(tmp_path, played, pace=pace) as r:
            if ending in ("leave", "cancel", "the provider dies"):
                running = await fill(r, played)
                if ending == "leave":
                    running[0].cancel()
                elif ending == "cancel":
                    r.agents.cancel(r.records()[0].id)
                else:
                    played.closing.set()  # both connections end
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            else:
                played.plays(step)
                for number in range(1, 4):
                    run = r.begin()
                    if ending == "time-out":
                        await arrived(played, number)
                        pass_time(61)
                    await asyncio.gather(run, return_exceptions=True)
            played.plays(Say("there was room"))
            assert await r.run() == "there was room"
            if ending in ("leave", "cancel", "the provider dies"):
                await end(running)


async def test_s18_of_fifty_at_once_never_more_than_two_run(tmp_path: Path) -> None:
    inside: set[int] = set()
    most = 0

    with provider() as played:
        hold = asyncio.Event()
        async with rig(tmp_path, played, text=FREE) as r:

            class Slow(type(r.shelf)):  # type: ignore[misc]
                async def call(self, name: str, arguments: Any, agent: str) -> Any:
                    nonlocal most
                    inside.add(id(arguments))
                    most = max(most, len(inside))
                    await hold.wait()
                    inside.discard(id(arguments))
                    return await super().call(name, arguments, agent)

            r.agents.toolbox = Slow()
            played.plays(Use([("read_note", {})]), Use([("read_note", {})]), Say("done"))
            tasks = [r.begin(task=f"task {n}") for n in range(50)]
            async with asyncio.timeout(PATIENCE_S):
                while len(inside) < 2 or sum(task.done() for task in tasks) < 48:
                    most = max(most, len(r.agents._running))
                    await asyncio.sleep(0.005)
            hold.set()
            await asyncio.wait(tasks)
            texts = [str(task.exception() or task.result()) for task in tasks]
            records = r.records()
    assert most == 2
    assert (texts.count(BUSY), texts.count("done")) == (48, 2)
    assert len(records) == 50
    assert sorted({record.outcome for record in records}) == ["busy", "done"]
    assert {record.task for record in records} == {f"task {n}" for n in range(50)}


async def test_s18_control_without_the_count_all_fifty_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sidecar.services.agents import agents

    monkeypatch.setattr(agents, "MOST_RUNNING", 1000)
    with provider(Hang()) as played:
        async with rig(tmp_path, played) as r:
            tasks = [r.begin() for _ in range(50)]
            await arrived(played, 50)
            await end(tasks)


async def test_d24_control_without_the_gate_a_client_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sidecar.services.agents import listing

    monkeypatch.setattr(listing, "gate_of", lambda gates, agent: agent)
    with provider() as played:
        async with rig(tmp_path, played, allowed=False) as r:
            assert await r.run() == "done"


async def test_d25_control_without_the_ceiling_the_model_gets_run_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sidecar.services.agents import engagement

    monkeypatch.setattr(engagement, "CEILING", frozenset({"run_agent", "read_note"}))
    with provider(Use([("run_agent", {})]), Say("ok")) as played:
        async with rig(tmp_path, played, text=FREE) as r:
            r.shelf.names = ("read_note", "run_agent")
            await r.run()
            assert [name for name, *_ in r.shelf.called] == ["run_agent"]


# what is kept


async def test_d26_the_record_of_a_run(tmp_path: Path) -> None:
    with provider(Use([("read_note", {}), ("read_note", {})]), Say("four")) as played:
        async with rig(tmp_path, played) as r:
            await r.run(task="Which  notes\nmention heating?")
            [record] = r.records()
            assert r.finished == [record.facts()]
    facts = dataclasses.asdict(record)
    assert list(facts) == [
        *("id", "agent", "task", "client", "caller", "way", "outcome", "reason", "provider", "model"),
        *("started_at", "ended_at", "duration_ms", "turns", "tools", "usage", "chars"),
    ]
    assert len(facts.pop("id")) == 26
    assert facts.pop("duration_ms") >= 0
    assert facts.pop("started_at") <= facts.pop("ended_at")
    assert facts == {
        "agent": "Scout",
        "task": "Which notes mention heating?",
        "client": "tests",
        "caller": "local",
        "way": "mcp",
        "outcome": "done",
        "reason": None,
        "provider": "scripted",
        "model": "claude-sonnet-5-5",
        "turns": 2,
        "tools": {"read_note": 2},
        "usage": {"input_tokens": 20, "output_tokens": 6},
        "chars": 4,
    }


async def test_d26_secrets_in_a_task_are_not_kept(tmp_path: Path) -> None:
    key = "k-very-private-0123456789"
    ours = "vsc_" + "a" * 49
    with provider(Fail(401, f"no such key: {key}")) as played:
        environment = {"KEY": key}
        async with rig(tmp_path, played, environment=environment, key_env="KEY") as r:
            await r.refusal(task=f"use {key} or {ours} or sk-{'b' * 30}, Authorization: Bearer {'c' * 30}")
            await r.refusal(name=f"Agent {key}", task="x" * 190 + key)
            kept = (r.state / "runs.jsonl").read_text()
            told = str(r.finished)
    for secret in (key, key[:12], ours, "b" * 30, "c" * 30):
        assert secret not in kept + told
    assert "use *** or *** or ***, Authorization: ***" in kept


async def test_d26_a_key_in_the_keyring_is_not_kept_either(tmp_path: Path) -> None:
    key = "plain-words-0123456789"
    with provider(Say("done")) as played:
        async with rig(tmp_path, played, key=key) as r:
            await r.run(task=f"use {key}")
            await r.run(task="x" * 188 + key)
            kept = (r.state / "runs.jsonl").read_text() + str(r.finished)
    assert key[:12] not in kept
    assert "use ***" in kept


async def test_d26_control_without_scrubbing_the_key_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sidecar.services.agents import run

    monkeypatch.setattr(run, "scrub", lambda text, secrets: text)
    with provider() as played:
        async with rig(tmp_path, played, environment={"KEY": "k-private-012345"}, key_env="KEY") as r:
            await r.run(task="use k-private-012345")
            assert "k-private-012345" in (r.state / "runs.jsonl").read_text()


async def test_a_call_that_is_all_mistakes_takes_no_more_room_than_others(tmp_path: Path) -> None:
    """Else a few of them would make the file too large to be read, and hide every run from its owner."""
    wrong = "".join(f"x{number}: is not an argument of run_agent.\n" for number in range(100_000))
    async with rig(tmp_path, None) as r:
        await r.agents.refused("n" * (1 << 20), "t " * (1 << 20), CLIENT, wrong)
        [record] = r.records()
        assert (r.state / "runs.jsonl").stat().st_size < 4000
    assert (record.agent, record.task, record.reason) == ("n" * 64, "t " * 100, wrong[:1000])


async def test_records_that_cannot_be_written_fail_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with provider() as played:
        async with rig(tmp_path, played) as r:
            (r.state / "runs.jsonl").mkdir()
            assert await r.run() == "done"
    assert "a run is not recorded" in caplog.text


async def test_the_answer_is_kept_nowhere(tmp_path: Path) -> None:
    with provider(Say("private words")) as played:
        async with rig(tmp_path, played) as r:
            await r.run()
            assert b"private words" not in b"".join(each.read_bytes() for each in r.state.rglob("*") if each.is_file())


# keys


async def test_the_editors_key_goes_before_the_variables_and_that_before_the_keyrings(tmp_path: Path) -> None:
    with provider() as played:
        async with rig(tmp_path, played, key="from-keyring") as r:
            await r.run()
            r.agents.give_key("scripted", "from-editor")
            await r.run()
            r.agents.give_key("scripted", None)
            await r.run()
            with pytest.raises(NotFound):
                r.agents.give_key("other", "x")
        environment = {"KEY": "from-variable"}
        async with rig(tmp_path / "env", played, key="from-keyring", environment=environment, key_env="KEY") as r:
            await r.run()
            r.agents.give_key("scripted", "from-editor")
            await r.run()
            found = aside(r.agents._listing.find, "Scout")
            assert "from-" not in repr(aside(r.agents._providers.target_for, found.agent))
    sent = [asked.headers["authorization"].removeprefix("Bearer from-") for asked in played.asked]
    assert sent == ["keyring", "editor", "keyring", "variable", "editor"]


@pytest.mark.parametrize("wrong", ["schlüssel", "two words", "k-1\nX-Header: 1"])
async def test_a_variable_that_holds_no_key_is_named_and_not_shown(tmp_path: Path, wrong: str) -> None:
    with provider() as played:
        async with rig(tmp_path, played, environment={"KEY": wrong}, key_env="KEY") as r:
            assert await r.refusal() == "'Scout' can't run: what the variable KEY holds is no key."
    assert played.asked == []


async def test_a_variable_that_is_named_and_empty_is_no_key(tmp_path: Path) -> None:
    with provider() as played:
        async with rig(tmp_path, played, kind="anthropic", key="from-keyring", key_env="KEY") as r:
            assert await r.refusal() == "'Scout' can't run: there is no key for the provider 'scripted'."
