"""Who came lately, as status tells it."""

from __future__ import annotations

from sidecar.bridge.token import Caller
from sidecar.web.visitors import Visitors

OWNER = Caller("local", "local", local=False)
BOB = Caller("bob", "home", local=False)


def test_clients_are_told_apart_by_their_name_and_their_token_newest_first() -> None:
    visitors = Visitors()
    for caller, agent in ((OWNER, "curl/8"), (BOB, "curl/8"), (BOB, "claude-code/2"), (OWNER, "curl/8")):
        visitors.served(caller, agent)
    found = [(client["agent"], client["token"]) for client in visitors.facts()["clients"]]
    assert found == [("curl/8", "local"), ("claude-code/2", "bob"), ("curl/8", "bob")]


def test_our_own_programs_are_no_clients_and_the_list_is_bounded() -> None:
    visitors = Visitors()
    visitors.served(Caller("local", "local", local=True), "vault-sidecar")
    assert visitors.facts() == {"clients": [], "last_refused": None}
    for number in range(60):
        visitors.served(OWNER, f"client/{number}")
    clients = visitors.facts()["clients"]
    assert (len(clients), clients[0]["agent"], clients[-1]["agent"]) == (50, "client/59", "client/10")


def test_the_last_refused_client_stays_until_the_next_one() -> None:
    visitors = Visitors()
    visitors.refused("no_token", 401, "curl/8")
    visitors.refused("wrong_token", 401, "")
    refused = visitors.facts()["last_refused"]
    assert refused.pop("at").endswith("Z")
    assert refused == {"reason": "wrong_token", "status": 401, "agent": ""}
