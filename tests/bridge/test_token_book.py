"""The tokens of a vault on disk: rotation, and tokens with names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sidecar.bridge import former_tokens, named_tokens, token_book
from sidecar.bridge.named_tokens import MOST, NamedToken
from sidecar.bridge.token import Caller, Keys, digest, fingerprint, is_token, new_token
from sidecar.bridge.token_book import TokenBook
from sidecar.bridge.token_store import FileStore, InjectedToken
from sidecar.errors import BadArguments, NotFound, Overridden, Unreadable


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    FileStore(folder, tmp_path / "vault").store(new_token())
    return folder


def opened(state: Path) -> TokenBook:
    """The book, as a process that starts now sees it."""
    store = FileStore(state, state.parent / "vault")
    return TokenBook(state, store, fingerprint(store.load() or ""))


def keys_of(state: Path) -> Keys:
    """The keys of a daemon that starts now."""
    book = opened(state)
    return Keys(book.main_token() or "", b"vsl_local", named_tokens.callers(book.named))


def test_a_named_token_lets_its_agent_in_after_a_start_too(state: Path) -> None:
    facts = opened(state).add("bob", "home")
    assert is_token(facts["token"])
    assert (facts["agent"], facts["org"]) == ("bob", "home")
    caller = keys_of(state).check(facts["token"].encode())
    assert caller == Caller("bob", "home", local=False)
    assert keys_of(state).check((opened(state).main_token() or "").encode()) == Caller("local", "local", local=False)


def test_only_the_digest_of_a_named_token_is_kept(state: Path) -> None:
    token = opened(state).add("bob", "local")["token"]
    [record] = json.loads((state / "tokens.json").read_text())["tokens"]
    assert record == {"agent": "bob", "org": "local", "digest": digest(token.encode()).hex(), "made": record["made"]}
    assert not any(token.encode() in path.read_bytes() for path in state.iterdir())
    assert (state / "tokens.json").stat().st_mode & 0o777 == 0o600
    assert opened(state).listed()["tokens"] == [{"agent": "bob", "org": "local", "made": record["made"]}]


def test_a_removed_token_lets_nobody_in_and_leaves_the_others(state: Path) -> None:
    book = opened(state)
    bob, eve = (book.add(agent, "local")["token"] for agent in ("bob", "eve"))
    assert book.remove("bob") == {"removed": "bob"}
    assert keys_of(state).check(bob.encode()) is None
    assert keys_of(state).check(eve.encode()) == Caller("eve", "local", local=False)
    with pytest.raises(NotFound, match="token list"):
        book.remove("bob")
    again = book.add("bob", "local")["token"]
    assert again != bob


@pytest.mark.parametrize("agent", ["", "local", "a b", "a/b", "é", "x" * 65, "agent:x", "a\n", "٣"])
def test_what_is_no_name_gets_no_token(state: Path, agent: str) -> None:
    with pytest.raises(BadArguments, match=r"^AGENT: "):
        opened(state).add(agent, "local")
    assert not (state / "tokens.json").exists()


def test_both_names_are_judged_and_local_may_be_an_org(state: Path) -> None:
    with pytest.raises(BadArguments) as refused:
        opened(state).add("a b", "")
    assert str(refused.value).splitlines() == [
        "AGENT: must be 1 to 64 of letters a to z, digits and _ . -",
        "ORG: must be 1 to 64 of letters a to z, digits and _ . -",
    ]
    opened(state).add("x" * 64, "local")
    opened(state).add("A-z_0.9", "x" * 64)


def test_a_name_has_one_token_and_their_number_is_bounded(state: Path) -> None:
    book = opened(state)
    book.add("a0", "local")
    with pytest.raises(BadArguments, match="'a0' has a token already"):
        book.add("a0", "other")
    for number in range(1, MOST):
        book.add(f"a{number}", "local")
    with pytest.raises(BadArguments, match=f"at most {MOST}"):
        book.add("one-more", "local")
    assert len(opened(state).named) == MOST, "as many as there may be can be read again"


def test_rotation_revokes_the_named_tokens_in_the_same_step(state: Path) -> None:
    book = opened(state)
    old, bob = book.main_token() or "", book.add("bob", "local")["token"]
    left = (state / "tokens.json").read_bytes()
    seen: list[tuple[str, str]] = []

    def publish(token: str) -> None:
        seen.append((token, opened(state).main_token() or ""))

    facts = book.rotate(publish)
    assert seen == [(facts["token"], facts["token"])], "it is on disk when it is published, once"
    assert facts["revoked"] == ["bob"]
    assert facts["kept_in"] == "a file of mode 0600 in the state folder"
    (state / "tokens.json").write_bytes(left)  # as if the daemon had ended before it threw them away
    keys = keys_of(state)
    assert [keys.check(token.encode()) for token in (old, bob)] == [None, None]
    assert keys.check(facts["token"].encode()) is not None
    assert book.named == opened(state).named == ()


def test_without_the_main_tokens_name_beside_them_they_would_outlive_it(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control of the test before: one name for all main tokens."""
    monkeypatch.setattr(token_book, "fingerprint", lambda _: "same")
    store = FileStore(state, state.parent / "vault")
    book = TokenBook(state, store, "same")
    book.add("bob", "local")
    left = (state / "tokens.json").read_bytes()
    book.rotate()
    (state / "tokens.json").write_bytes(left)
    assert [record.agent for record in TokenBook(state, store, "same").named] == ["bob"]


def test_an_injected_token_can_not_be_replaced_but_have_named_ones_beside_it(state: Path) -> None:
    injected = InjectedToken("MY_TOKEN", "x" * 40)
    book = TokenBook(state, injected, fingerprint("x" * 40))
    book.add("bob", "local")
    with pytest.raises(Overridden, match="MY_TOKEN; change it there and restart"):
        book.rotate()
    assert len(TokenBook(state, injected, fingerprint("x" * 40)).named) == 1
    assert TokenBook(state, injected, fingerprint("y" * 40)).named == (), "another value is another token"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw | {"tokens": [raw["tokens"][0] | {"agent": "local"}]},
        lambda raw: raw | {"tokens": [raw["tokens"][0] | {"agent": 5}]},
        lambda raw: raw | {"tokens": [raw["tokens"][0] | {"digest": "00"}]},
        lambda raw: raw | {"tokens": [raw["tokens"][0] | {"more": "x"}]},
        lambda raw: raw | {"tokens": [{}]},
        lambda raw: {"tokens": raw["tokens"]},
        lambda raw: [],
        lambda raw: None,
    ],
    ids=["local", "type", "digest", "key", "empty", "unbound", "list", "null"],
)  # fmt: skip
def test_damaged_records_let_nobody_in_and_stop_no_start(
    state: Path, caplog: pytest.LogCaptureFixture, spoil: object
) -> None:
    token = opened(state).add("bob", "local")["token"]
    path = state / "tokens.json"
    path.write_text(json.dumps(spoil(json.loads(path.read_text()))))  # type: ignore[operator]  # of the table
    assert keys_of(state).check(token.encode()) is None
    assert "tokens.json is damaged" in caplog.text
    opened(state).add("bob", "local")
    assert len(opened(state).named) == 1


def test_records_that_others_may_write_are_not_believed(state: Path) -> None:
    opened(state).add("bob", "local")
    (state / "tokens.json").chmod(0o666)
    with pytest.raises(Unreadable, match=r"tokens.json may be written by other users"):
        opened(state)


def test_a_disk_that_refuses_changes_nothing(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = opened(state)
    book.add("bob", "local")
    before = {path.name: path.read_bytes() for path in state.iterdir()}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", full)
    for change in (lambda: book.add("eve", "local"), lambda: book.remove("bob"), book.rotate):
        with pytest.raises(Unreadable, match="No space left"):
            change()
    assert [record.agent for record in book.named] == ["bob"]
    assert {path.name: path.read_bytes() for path in state.iterdir()} == before


def test_a_record_says_nothing_of_the_token() -> None:
    token = new_token()
    record = NamedToken("bob", "local", digest(token.encode()).hex(), "2026-11-30T11:12:00Z")
    assert token not in repr(record)
    assert fingerprint(token) in record.digest, "the name of a keyring's entry is half a digest"


def test_of_former_tokens_the_newest_hundred_fingerprints_are_kept_and_no_token(state: Path) -> None:
    book, tokens = opened(state), [opened(state).main_token() or ""]
    for _ in range(101):
        tokens.append(book.rotate()["token"])
    assert former_tokens.read(state) == [fingerprint(token) for token in tokens[1:-1]]
    content = (state / former_tokens.FILE_NAME).read_text()
    assert not any(token in content for token in tokens)
    assert (state / former_tokens.FILE_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["{", "{}", "[1, null]", "[" * 100_000])
def test_damaged_former_tokens_are_none_and_stand_in_no_ones_way(state: Path, content: str) -> None:
    (state / former_tokens.FILE_NAME).write_text(content)
    assert former_tokens.read(state) == []
    before = opened(state).main_token() or ""
    opened(state).rotate()
    assert former_tokens.read(state) == [fingerprint(before)]


def test_a_place_for_former_tokens_that_is_taken_fails_no_rotation(state: Path) -> None:
    (state / former_tokens.FILE_NAME).mkdir()
    token = opened(state).rotate()["token"]
    assert opened(state).main_token() == token
