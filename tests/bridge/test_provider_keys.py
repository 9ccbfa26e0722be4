"""Keys of providers in the system's keyring."""

from __future__ import annotations

import pytest

from sidecar.bridge.patient_keyring import SERVICE
from sidecar.bridge.provider_keys import ProviderKeys
from sidecar.errors import BadArguments, Unreadable
from tests.bridge.keyrings import Broken, Locked, Memory


def test_a_key_is_kept_under_the_providers_name() -> None:
    backend = Memory()
    keys = ProviderKeys(backend)
    assert keys.find("anthropic") is None
    keys.store("anthropic", " sk-ant-1 \n")
    assert backend.kept == {(SERVICE, "provider:anthropic"): "sk-ant-1"}
    assert ProviderKeys(backend).find("anthropic") == "sk-ant-1"
    keys.store("anthropic", "sk-ant-2")
    assert keys.find("anthropic") == "sk-ant-2"
    assert keys.find("other") is None


def test_a_key_can_be_removed() -> None:
    backend = Memory()
    keys = ProviderKeys(backend)
    assert keys.remove("x") is False
    keys.store("x", "key")
    assert keys.remove("x") is True
    assert backend.kept == {}


@pytest.mark.parametrize("wrong", ["", "  ", "a b", "ä", "a\nb", "a\x1bb", "x" * 1001])
def test_what_is_no_key_is_refused_and_not_shown(wrong: str) -> None:
    with pytest.raises(BadArguments) as refused:
        ProviderKeys(Memory()).store("x", wrong)
    assert not wrong.strip() or wrong not in str(refused.value)


class Keeping(Memory):
    """Never lets go of anything."""

    def delete_password(self, service: str, username: str) -> None:
        raise RuntimeError("no s3cr3t")


class Forgetting(Memory):
    """Takes everything and keeps nothing."""

    def set_password(self, service: str, username: str, password: str) -> None:
        pass


@pytest.mark.parametrize("backend", [Locked, Broken, Forgetting])
def test_a_keyring_that_fails_says_why_and_no_more(backend: type[Memory]) -> None:
    with pytest.raises(Unreadable, match="the system's keyring can't be used") as refused:
        ProviderKeys(backend()).store("x", "key-12345")
    assert "key-12345" not in str(refused.value)
    assert "s3cr3t" not in str(refused.value)


def test_a_key_that_stays_is_told() -> None:
    backend = Keeping()
    ProviderKeys(backend).store("x", "key")
    with pytest.raises(Unreadable):
        ProviderKeys(backend).remove("x")
