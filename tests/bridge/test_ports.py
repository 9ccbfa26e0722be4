"""Which port is tried, and what a taken one leads to."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from sidecar.bridge import ports, settings
from sidecar.errors import PortTaken


def bind(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise PortTaken("taken") from error
    return listener


def test_a_new_vault_gets_the_first_free_port_and_keeps_it() -> None:
    choice = ports.choose_port(None)
    assert choice.candidates[:3] == (24783, 24784, 24785)
    assert choice.pin
    taken = {24783, 24784}
    tried: list[int] = []

    def attempt(port: int) -> int:
        tried.append(port)
        if port in taken:
            raise PortTaken("taken")
        return port

    assert ports.listen(choice, attempt) == 24785
    assert tried == [24783, 24784, 24785]


def test_a_named_port_that_is_taken_is_never_swapped_for_another() -> None:
    """D04."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        choice = ports.choose_port(port)
        assert choice.candidates == (port,)
        with pytest.raises(PortTaken, match=f"port {port} is in use by another program"):
            ports.listen(choice, bind)


def test_random_ports_are_in_range_new_and_never_kept() -> None:
    choice = ports.choose_port(0)
    assert len(set(choice.candidates)) == 10
    assert all(10_000 <= port <= 65_535 for port in choice.candidates)
    assert not choice.pin
    assert ports.choose_port(0).candidates != choice.candidates
    ports.listen(choice, bind).close()


def test_the_port_of_this_run_goes_over_the_pinned_one_and_is_not_kept() -> None:
    assert ports.choose_port(24790, 24800).candidates == (24800,)
    assert len(ports.choose_port(24790, 0).candidates) == 10
    assert not ports.choose_port(None, 24800).pin
    assert not ports.choose_port(None, 0).pin


def test_when_all_are_taken_the_choices_own_sentence_is_said() -> None:
    def never(port: int) -> None:
        raise PortTaken("taken")

    for choice in (ports.choose_port(None), ports.choose_port(0), ports.choose_port(5000)):
        with pytest.raises(PortTaken) as refused:
            ports.listen(choice, never)
        assert str(refused.value) == choice.refusal


def test_a_pinned_port_is_a_setting(tmp_path: Path) -> None:
    ports.pin_port(tmp_path, 24790)
    assert settings.read_settings(tmp_path) == {"http": {"port": 24790}}
