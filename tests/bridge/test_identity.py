"""The identity proof: what it covers, and what is no nonce."""

from __future__ import annotations

import base64
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.bridge import identity

KEY = b"k" * 32


def test_a_proof_is_accepted_for_its_own_question_only() -> None:
    nonce = identity.new_nonce()
    proof = identity.prove(KEY, nonce, 24783, "abc")
    assert identity.verify(KEY, nonce, 24783, "abc", proof)
    assert not identity.verify(b"another key", nonce, 24783, "abc", proof)
    assert not identity.verify(KEY, identity.new_nonce(), 24783, "abc", proof)
    assert not identity.verify(KEY, nonce, 24784, "abc", proof), "D10: another port"
    assert not identity.verify(KEY, nonce, 24783, "abd", proof), "D10: another instance"
    assert not identity.verify(KEY, nonce, 24783, "abc", "")
    assert not identity.verify(KEY, nonce, 24783, "abc", proof + "A")
    assert not identity.verify(KEY, nonce, 24783, "abc", "pröof\ud800")


def test_a_proof_reveals_nothing_of_the_key() -> None:
    """D11."""
    proof = identity.prove(KEY, identity.new_nonce(), 24783, "abc")
    assert len(base64.urlsafe_b64decode(proof + "=")) == 32
    assert base64.urlsafe_b64decode(proof + "=") != KEY


def test_nonces_and_instances_are_well_formed_and_new_each_time() -> None:
    nonces = {identity.new_nonce() for _ in range(1000)}
    assert len(nonces) == 1000
    assert all(map(identity.valid_nonce, nonces))
    instances = {identity.new_instance() for _ in range(1000)}
    assert len(instances) == 1000
    identity.prove(KEY, identity.new_nonce(), 1, instances.pop())


GOOD = "A" * 43


@pytest.mark.parametrize(
    "nonce",
    [
        pytest.param("", id="D11-missing"),
        pytest.param("A" * 42, id="D11-short"),
        pytest.param("A" * 44, id="D11-long"),
        pytest.param(GOOD + "=", id="padded"),
        pytest.param("A" * 42 + "B", id="spare-bits"),
        pytest.param("+" + "A" * 42, id="plain-base64"),
        pytest.param("|" + "A" * 42, id="separator"),
        pytest.param("A" * 42 + "\n", id="newline"),
        pytest.param("é" + "A" * 42, id="no-ascii"),
        pytest.param("\ud800" + "A" * 42, id="surrogate"),
    ],
)
def test_what_is_no_nonce_is_neither_valid_nor_answered(nonce: str) -> None:
    assert identity.valid_nonce(GOOD)
    assert not identity.valid_nonce(nonce)
    with pytest.raises(ValueError, match="nonce"):
        identity.prove(KEY, nonce, 24783, "abc")
    assert not identity.verify(KEY, nonce, 24783, "abc", "x")


@pytest.mark.parametrize("instance", ["", "a|b", "a b", "é", "a" * 65, "a\n"])
def test_an_instance_that_could_blur_the_message_is_refused(instance: str) -> None:
    with pytest.raises(ValueError, match="instance"):
        identity.prove(KEY, GOOD, 24783, instance)


@given(st.binary(max_size=64))
def test_exactly_32_bytes_make_a_nonce(raw: bytes) -> None:
    text = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    assert identity.valid_nonce(text) == (len(raw) == 32)


questions = st.tuples(st.sampled_from([1, 11, 2478, 24783]), st.sampled_from(["1", "11", "83-1", "1-1", "a"]))


@given(questions, questions)
def test_two_questions_have_one_answer_only_if_they_are_one(first: tuple[int, str], second: tuple[int, str]) -> None:
    nonce = base64.urlsafe_b64encode(bytes(32)).rstrip(b"=").decode()
    same = identity.prove(KEY, nonce, *first) == identity.prove(KEY, nonce, *second)
    assert same == (first == second)


def test_keys_of_any_length_work() -> None:
    for length in (1, 32, 200):
        key = secrets.token_bytes(length)
        assert identity.verify(key, GOOD, 1, "i", identity.prove(key, GOOD, 1, "i"))
