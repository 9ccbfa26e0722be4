"""The token's form, and the check of a presented key."""

from __future__ import annotations

import hmac
import re
import secrets
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.bridge.token import (
    Caller,
    Keys,
    check_injected,
    is_token,
    new_local_key,
    new_token,
    read_local_key,
)
from sidecar.errors import BadConfig

TOKEN = new_token()
LOCAL = b"vsl_local"


def test_tokens_have_a_fixed_form_and_all_differ() -> None:
    """T29."""
    tokens = {new_token() for _ in range(10_000)}
    assert len(tokens) == 10_000
    assert all(re.fullmatch(r"vsc_[A-Za-z0-9_-]{49}", token) for token in tokens)
    assert all(map(is_token, tokens))


def test_the_random_part_comes_from_the_system_s_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """T29: 32 bytes, by `secrets`."""
    asked: list[int] = []

    def known(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    monkeypatch.setattr(secrets, "token_bytes", known)
    assert new_token().startswith("vsc_" + "A" * 43)
    assert asked == [32]


@given(st.integers(0, len(TOKEN) - 1), st.characters())
def test_one_wrong_letter_is_noticed(place: int, letter: str) -> None:
    changed = TOKEN[:place] + letter + TOKEN[place + 1 :]
    assert is_token(changed) == (changed == TOKEN)


@pytest.mark.parametrize("text", ["", "vsc_", TOKEN[:-1], TOKEN + "A", TOKEN[4:], "vsl_" + TOKEN[4:], TOKEN.swapcase()])
def test_what_is_not_a_whole_token_is_noticed(text: str) -> None:
    assert not is_token(text)


def test_the_token_and_the_local_key_come_in_and_nothing_else_does() -> None:
    keys = Keys(TOKEN, LOCAL)
    assert keys.check(TOKEN.encode()) == Caller("local", "local", local=False)
    assert keys.check(LOCAL) == Caller("local", "local", local=True)
    wrong = [b"", TOKEN[:-1].encode(), TOKEN.encode() + b"A", TOKEN.swapcase().encode(), b"\xff\xfe", b"x" * 100_000]
    assert [keys.check(key) for key in wrong] == [None] * len(wrong)


def test_keys_are_compared_in_constant_time_as_digests_of_one_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """T24."""
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        assert isinstance(a, bytes)
        assert isinstance(b, bytes)
        compared.append((len(a), len(b)))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    keys = Keys(TOKEN, LOCAL)
    for presented in (TOKEN.encode(), LOCAL, b"", "tökén".encode(), b"x" * 8000):
        keys.check(presented)
    assert compared == [(32, 32)] * 10, "both keys are compared whichever fits"


def test_a_comparison_that_always_agrees_lets_anybody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control of T24: the comparison is what keeps strangers out."""
    monkeypatch.setattr(hmac, "compare_digest", lambda *_: True)
    assert Keys(TOKEN, LOCAL).check(b"anything") is not None


def test_a_replaced_token_is_dead_at_once_and_the_generation_grows() -> None:
    keys = Keys(TOKEN, LOCAL)
    new = new_token()
    before = keys.generation
    keys.replace(new)
    assert keys.generation == before + 1
    assert keys.check(TOKEN.encode()) is None
    assert keys.check(new.encode()) is not None
    assert keys.check(LOCAL) is not None, "the local key belongs to the run, not to the token"


def test_no_repr_holds_a_key() -> None:
    """L11."""
    keys = Keys(TOKEN, LOCAL)
    shown = repr(keys) + repr(vars(keys)) + str(keys)
    assert TOKEN not in shown
    assert LOCAL.decode() not in shown


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        pytest.param(None, "which is not set", id="T20-unset"),
        pytest.param("", "at least 32 characters", id="T18-empty"),
        pytest.param(" " * 40, "at least 32 characters", id="T18-blank"),
        pytest.param("short-" * 5, "at least 32 characters", id="T19-short"),
        pytest.param("x" * 31, "at least 32 characters", id="T19-one-short"),
        pytest.param("s3cr3t" * 6 + "\n", "ASCII letters and signs only", id="newline"),
        pytest.param("s3cr3t " * 6, "ASCII letters and signs only", id="blank-inside"),
        pytest.param("s3cr3té" * 6, "ASCII letters and signs only", id="not-ascii"),
    ],
)
def test_an_injected_token_that_guards_nothing_is_refused(value: str | None, wrong: str) -> None:
    with pytest.raises(BadConfig) as refused:
        check_injected("MY_TOKEN", value)
    assert "MY_TOKEN" in str(refused.value)
    assert wrong in str(refused.value)
    assert refused.value.exit_code != 0
    assert not value or not value.strip() or value.strip() not in str(refused.value), "T20: the value isn't told"


def test_an_injected_token_of_32_characters_will_do() -> None:
    assert check_injected("MY_TOKEN", "x" * 32) == "x" * 32


def test_the_local_key_is_new_at_each_start_and_left_for_its_user_alone(tmp_path: Path) -> None:
    assert read_local_key(tmp_path) is None
    first = new_local_key(tmp_path)
    second = new_local_key(tmp_path)
    assert first != second
    assert read_local_key(tmp_path) == second
    assert (tmp_path / "local.key").stat().st_mode & 0o777 == 0o600
    assert not is_token(second.decode()), "it can't be mistaken for a token"
