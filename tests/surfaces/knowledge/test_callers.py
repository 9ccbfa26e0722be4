"""Who sees what over HTTP, by the token that was sent; and that nothing leaves this computer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.services.knowledge.examples import SKILL, procedure, skill, trace
from tests.surfaces.knowledge.conftest import AGENTS, HERMIT, Hub

SEEN = {
    "private": {"anna"},
    "org": {"anna", "arne"},
    "network": {"anna", "arne", "bert", "carl", "dora", "local"},
}


@pytest.mark.parametrize("visibility", SEEN)
def test_visibility_of_units_by_token(hub: Hub, visibility: str) -> None:
    word = f"peculiar{visibility}"
    unit = trace(id=f"kp:trace:{word}", task={"objective": f"{word} objective"})
    unit_id = hub.call("kp_contribute_knowledge", "anna", unit=unit, visibility=visibility)["id"]
    skill_id = hub.call(
        "kp_contribute_skill", "anna", skill_md_content=skill(word, body=f"\n{word}\n"), visibility=visibility
    )["id"]
    for agent in (*AGENTS, "local"):
        seen = agent in SEEN[visibility]
        assert hub.ids("kp_search_knowledge", agent, query=word, min_quality=0) == [unit_id] * seen
        assert hub.ids("kp_search_skill", agent, query=word, min_quality=0) == [skill_id] * seen
        for known in (unit_id, unit["id"]):
            answer = hub.raw("kp_validate_unit", agent, unit_id=known, valid=True)
            if seen:
                assert answer.json()["result"]["structuredContent"] == {"validated": True}
                continue
            unknown = known[:-1] + ("0" if known[-1] != "0" else "1")
            stranger = hub.raw("kp_validate_unit", agent, unit_id=unknown, valid=True)
            assert answer.body.replace(known.encode(), b"ID") == stranger.body.replace(unknown.encode(), b"ID")


def test_what_others_may_not_see_is_in_no_count(hub: Hub) -> None:
    hub.call("kp_contribute_knowledge", HERMIT, unit=procedure(), visibility="private")
    hidden = hub.raw("kp_reputation_query", "anna", agent_id=HERMIT)
    unknown = hub.raw("kp_reputation_query", "anna", agent_id="nobody")
    assert hidden.body == unknown.body
    assert hub.call("kp_reputation_query", "anna", agent_id=HERMIT) == {"score": 0, "contributions": 0}
    assert hub.call("kp_reputation_query", HERMIT, agent_id=HERMIT) == {"score": 0.07, "contributions": 1}


def test_the_owner_sees_everything_and_no_token_does(hub: Hub) -> None:
    skill_id = hub.call("kp_contribute_skill", "bert", skill_md_content=skill("berts-own"), visibility="private")["id"]
    assert skill_id in [item["id"] for item in hub.admin("knowledge")["items"]]
    assert hub.admin("knowledge/show", id=skill_id)["content"].startswith("---\nname: berts-own")
    assert skill_id not in str(hub.call("kp_search_skill", query="review a pull request", limit=20, min_quality=0))


def test_the_caller_is_the_token_and_no_argument(hub: Hub) -> None:
    assert "agent_id: is not an argument" in hub.refusal(
        "kp_contribute_skill", "anna", skill_md_content=SKILL, agent_id="local"
    )


def test_the_tokens_themselves_are_not_stored(hub: Hub) -> None:
    tokens = [*hub.tokens.values(), hub.daemon.token]
    body = "\n".join(tokens)
    skill_id = hub.call("kp_contribute_skill", skill_md_content=skill("leaky", body=f"\n{body}\n"))["id"]
    unit = trace(knowledge_graph_delta={token: token for token in tokens})
    hub.call("kp_contribute_knowledge", unit=unit, visibility="org")
    content = hub.admin("knowledge/show", id=skill_id)["content"]
    assert content.count("[removed: secret]") == len(tokens)
    [database] = hub.state.rglob("knowledge.db")
    for path in (database, *database.parent.glob("knowledge.db-*")):
        assert path.stat().st_mode & 0o777 == 0o600
        assert not [token for token in tokens if token.encode() in path.read_bytes()]


def test_p15_nothing_is_sent_anywhere(hub: Hub) -> None:
    for level in SEEN:
        hub.call("kp_contribute_skill", skill_md_content=skill(f"sent-{level}"), visibility=level)
        hub.call("kp_contribute_knowledge", unit=trace(task={"objective": f"sent {level}"}), visibility=level)
    unit_id = hub.ids("kp_search_knowledge", query="sent network", min_quality=0)[0]
    hub.call("kp_validate_unit", unit_id=unit_id, valid=True, feedback="see https://example.com/x")
    hub.call("kp_reputation_query", agent_id="https://example.com/agent")
    assert not hub.watched.exists() or hub.watched.read_text() == ""


def test_p15_control_a_connection_is_noticed(hub: Hub, tmp_path: Any) -> None:
    import os
    import subprocess
    import sys

    [watch] = hub.watched.parent.glob("watch")
    log = tmp_path / "watched"
    code = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', 9))"
    env = {**os.environ, "PYTHONPATH": str(watch), "WATCHED": str(log)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=30)
    assert "socket.connect" in log.read_text()


def test_p12_a_name_like_a_path_makes_no_file(hub: Hub) -> None:
    before = sorted(str(path) for path in hub.state.parent.rglob("*"))
    skill_id = hub.call("kp_contribute_skill", skill_md_content=skill("../../x"))["id"]
    assert re.fullmatch(r"skill-[0-9a-hjkmnp-tv-z]{26}", skill_id)
    assert sorted(str(path) for path in hub.state.parent.rglob("*")) == before


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "unit, sentence",
    [
        pytest.param(trace(colour=1), "unit.colour: is not a key of the schema.", id="P13-extra key"),
        pytest.param(
            trace(outcome={"result_summary": "x" * (10 << 20), "confidence": 1}),
            "unit: at most 1 MiB.",
            id="P13-10 MiB",
        ),
        pytest.param(
            trace() | {"knowledge_graph_delta": {"x": nested(500)}},
            "unit: at most 100 levels deep.",
            id="P13-depth 500",
        ),
    ],
)
def test_units_that_no_store_can_take(hub: Hub, unit: dict[str, Any], sentence: str) -> None:
    assert hub.refusal("kp_contribute_knowledge", unit=unit, visibility="network") == sentence


def test_p13_a_number_that_is_none_does_not_even_arrive(hub: Hub) -> None:
    from tests import wire

    body = wire.tool("kp_contribute_knowledge", unit=trace(), visibility="org").replace(b"0.9", b"NaN")
    assert b"NaN" in body
    assert wire.post(hub.daemon.port, hub.daemon.token, body, "/mcp/knowledge").status == 400


@pytest.mark.parametrize("unit_id", [pytest.param("ku-unknown", id="P16-unknown"), pytest.param("../x", id="P16-path")])
def test_an_id_of_no_unit(hub: Hub, unit_id: str) -> None:
    sentence = f"No knowledge unit has the id '{unit_id}'. Find ids with kp_search_knowledge."
    assert hub.refusal("kp_validate_unit", unit_id=unit_id, valid=True) == sentence


def test_p17_an_agent_id_with_signs_of_sql_is_an_agent_id(hub: Hub) -> None:
    for agent_id in ("%' OR 1=1 --", "%", "*", "_", "'"):
        assert hub.call("kp_reputation_query", agent_id=agent_id) == {"score": 0, "contributions": 0}
    unit = trace(task={"objective": "credit"})
    unit["metadata"]["agent_id"] = "%' OR 1=1 --"
    hub.call("kp_contribute_knowledge", unit=unit, visibility="network")
    assert hub.call("kp_reputation_query", agent_id="%' OR 1=1 --")["contributions"] == 1


def test_an_error_repeats_no_secret(hub: Hub) -> None:
    for tool, given in (
        ("kp_validate_unit", {"unit_id": "ku-x password=hunter2", "valid": True}),
        ("kp_contribute_knowledge", {"unit": trace(**{"password=hunter2": 1}), "visibility": "org"}),
    ):
        sentence = hub.refusal(tool, **given)
        assert "hunter2" not in sentence
        assert "[removed: secret]" in sentence


def test_twenty_repeats_at_once_over_http(hub: Hub) -> None:
    from concurrent.futures import ThreadPoolExecutor

    unit = trace(task={"objective": "twenty at once"})
    before = hub.call("kp_reputation_query", "carl", agent_id="carl")["contributions"]
    with ThreadPoolExecutor(20) as threads:
        answers = list(
            threads.map(
                lambda _: json.dumps(
                    hub.call("kp_contribute_knowledge", "carl", unit=unit, visibility="network"), sort_keys=True
                ),
                range(20),
            )
        )
    assert len(set(answers)) == 1
    assert hub.call("kp_reputation_query", "carl", agent_id="carl")["contributions"] == before + 1
