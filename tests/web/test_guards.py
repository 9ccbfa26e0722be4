"""The guards as a function of a request's head: order, exact lists, one bearer."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.bridge.token import Keys
from sidecar.web import answers
from sidecar.web.answers import Refusal
from sidecar.web.guards import Entry, Guards
from tests.strange import strange_texts

TOKEN = "t" * 43
LOCAL = b"l" * 43
PORT = 24783
ORIGIN = "app://obsidian.md"

Header = tuple[bytes, bytes]
HOST: Header = (b"Host", b"127.0.0.1:24783")
BEARER: Header = (b"Authorization", b"Bearer " + TOKEN.encode())


def guards(keys: Keys | None = None, port: int = PORT) -> Guards:
    return Guards(keys or Keys(TOKEN, LOCAL), port, [ORIGIN])


def admit(*headers: Header, method: str = "POST", target: str = "/mcp") -> Entry | Refusal:
    return guards().admit(method, target, headers)


def test_a_good_request_is_let_in_with_its_caller() -> None:
    entry = admit(HOST, BEARER)
    assert isinstance(entry, Entry) and entry.access is not None
    assert entry.access.caller.agent_id == "local" and not entry.access.caller.local
    assert entry.origin is None


def test_the_local_key_makes_a_local_caller() -> None:
    entry = admit(HOST, (b"authorization", b"bearer " + LOCAL))
    assert isinstance(entry, Entry) and entry.access is not None and entry.access.caller.local


EVIL_HOST: Header = (b"Host", b"evil.example")
EVIL_ORIGIN: Header = (b"Origin", b"https://evil.example")
CROSS_SITE: Header = (b"Sec-Fetch-Site", b"cross-site")
WRONG: Header = (b"Authorization", b"Bearer wrong")


@pytest.mark.parametrize(
    "headers, target, expected",
    [
        ([HOST, EVIL_HOST, EVIL_ORIGIN], "http://evil.example/", answers.BAD_REQUEST),
        ([EVIL_HOST, EVIL_ORIGIN, CROSS_SITE], "/mcp", answers.FORBIDDEN_HOST),
        ([HOST, EVIL_ORIGIN, CROSS_SITE], "/mcp", answers.FORBIDDEN_ORIGIN),
        ([HOST, CROSS_SITE], "/mcp", answers.FORBIDDEN_ORIGIN),
        ([HOST], "/no/such/path", answers.NO_TOKEN),
        ([HOST, WRONG], "/no/such/path", answers.WRONG_TOKEN),
    ],
    ids=["form", "host", "origin", "sec-fetch", "no token", "wrong token"],
)
def test_the_first_failing_check_answers(headers: list[Header], target: str, expected: Refusal) -> None:
    assert guards().admit("POST", target, headers) is expected


@pytest.mark.parametrize(
    "target", ["/identity", "/register", "/.well-known/x", "/.well-known/oauth-protected-resource/mcp"]
)
def test_open_paths_pass_without_a_token_but_not_without_the_other_checks(target: str) -> None:
    entry = admit(HOST, method="GET", target=target)
    assert isinstance(entry, Entry) and entry.access is None
    assert admit(EVIL_HOST, method="GET", target=target) is answers.FORBIDDEN_HOST
    assert admit(HOST, EVIL_ORIGIN, method="GET", target=target) is answers.FORBIDDEN_ORIGIN


@pytest.mark.parametrize(
    "method, target",
    [
        ("POST", "/identity"),
        ("HEAD", "/identity"),
        ("GET", "/identity/"),
        ("GET", "//identity"),
        ("GET", "/register/x"),
        ("GET", "/.well-known"),
        ("GET", "/mcp/.well-known/x"),
        ("GET", "/%69dentity"),
        ("GET", "/mcp#/identity"),
        ("GET", "/mcp?/identity"),
    ],
)
def test_nothing_near_an_open_path_is_open(method: str, target: str) -> None:
    assert admit(HOST, method=method, target=target) is answers.NO_TOKEN


def test_a_missing_port_is_the_port_80() -> None:
    for host in (b"127.0.0.1", b"LOCALHOST", b"localhost:80"):
        assert isinstance(guards(port=80).admit("POST", "/mcp", [(b"Host", host), BEARER]), Entry)
        assert guards(port=81).admit("POST", "/mcp", [(b"Host", host), BEARER]) is answers.FORBIDDEN_HOST


@pytest.mark.parametrize(
    "site, allowed", [(b"none", True), (b"same-origin", False), (b"same-site", False), (b"", False)]
)
def test_a_browser_without_an_origin_must_have_been_asked_by_the_person(site: bytes, allowed: bool) -> None:
    entry = admit(HOST, BEARER, (b"Sec-Fetch-Site", site))
    assert isinstance(entry, Entry) is allowed
    assert isinstance(admit(HOST, BEARER, (b"Origin", ORIGIN.encode()), (b"Sec-Fetch-Site", site)), Entry)


@pytest.mark.parametrize(
    "codings, allowed",
    [
        ([b"chunked"], True),
        ([b"Chunked"], True),
        ([b"gzip, chunked"], False),
        ([b"chunked", b"chunked"], False),
        ([b"x"], False),
    ],
)
def test_a_transfer_coding_is_chunked_or_refused(codings: list[bytes], allowed: bool) -> None:
    entry = admit(HOST, BEARER, *((b"Transfer-Encoding", coding) for coding in codings))
    assert isinstance(entry, Entry) if allowed else entry is answers.BAD_REQUEST


# F03: the accepted hosts and origins are the lists, whatever else is tried


def test_f03_only_the_two_names_with_the_port_are_hosts() -> None:
    good, guard = (b"127.0.0.1:24783", b"localhost:24783"), guards()
    accepted: set[bytes] = set()
    for host in [*good, b"LOCALHOST:24783", *strange_texts(1)]:
        entry = guard.admit("POST", "/mcp", [(b"Host", host), BEARER])
        assert isinstance(entry, Entry) is (host.lower() in good), host
        accepted |= {host} if isinstance(entry, Entry) else set()
    assert len(accepted) > 2


def test_f03_only_the_listed_origin_is_an_origin() -> None:
    guard = guards()
    for origin in [ORIGIN.encode(), b"app://OBSIDIAN.md", b"app://obsidian.md/", *strange_texts(2)]:
        entry = guard.admit("POST", "/mcp", [HOST, BEARER, (b"Origin", origin)])
        assert isinstance(entry, Entry) is (origin == ORIGIN.encode()), origin


@given(st.binary(max_size=100))
@example(b"Bearer " + TOKEN.encode())
@example(b"Bearer  " + TOKEN.encode())
@example(b"Bearer\t" + TOKEN.encode())
@example(TOKEN.encode())
def test_only_scheme_blank_token_is_a_bearer(value: bytes) -> None:
    entry = admit(HOST, (b"Authorization", value))
    scheme, _, rest = value.partition(b" ")
    assert isinstance(entry, Entry) is (scheme.lower() == b"bearer" and rest == TOKEN.encode())


def test_two_authorization_headers_are_none() -> None:
    assert admit(HOST, BEARER, WRONG) is answers.WRONG_TOKEN
    assert admit(HOST, WRONG, BEARER) is answers.WRONG_TOKEN
    assert admit(HOST, BEARER, BEARER) is answers.WRONG_TOKEN


def test_t24_the_token_is_compared_as_digests_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def count(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return real(left, right)

    monkeypatch.setattr(hmac, "compare_digest", count)
    for presented in (b"x", b"x" * 5000, b"\xff\xfe", TOKEN.encode()):
        compared.clear()
        admit(HOST, (b"Authorization", b"Bearer " + presented))
        assert compared
        assert {len(side) for pair in compared for side in pair} == {32}


def test_access_is_valid_until_its_own_key_is_replaced() -> None:
    keys = Keys(TOKEN, LOCAL)
    client = guards(keys).admit("POST", "/mcp", [HOST, BEARER])
    owner = guards(keys).admit("POST", "/mcp", [HOST, (b"Authorization", b"Bearer " + LOCAL)])
    assert isinstance(client, Entry) and client.access and isinstance(owner, Entry) and owner.access
    assert client.access.valid() and owner.access.valid()
    keys.replace("n" * 43)
    assert not client.access.valid()
    assert owner.access.valid()


def test_access_does_not_show_its_key() -> None:
    entry = admit(HOST, BEARER)
    assert TOKEN not in repr(entry)
