"""The embedder `openai`, against a server on a real socket that behaves well and badly."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sidecar.index.embed import service as service_module
from sidecar.index.embed.base import Embedder, EmbedderAway
from sidecar.index.embed.choose import choose
from sidecar.index.wire import EmbedderOptions
from tests.index.embed.service_double import (
    Answer,
    Asked,
    Handler,
    Service,
    dropping,
    hanging,
    of_size,
    refusing,
    saying,
    serving,
)
from tests.index.embedders import vector

KEY = "sk-hush-hush"


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


@pytest.fixture
def embedder(service: Service) -> Iterator[Embedder]:
    with closing(opened(service)) as found:
        service.asked.clear()
        yield found


def opened(service: Service, model: str = "nomic-embed-text", **options: str) -> Embedder:
    return choose(f"openai:{model}", Path(), print, EmbedderOptions(service.base_url, **options))


def test_texts_become_vectors_in_their_order_and_of_length_1(service: Service, embedder: Embedder) -> None:
    wanted = [f"text number {number}" for number in range(40)]
    found = embedder.passages(wanted)
    np.testing.assert_allclose(found, [vector(text) for text in wanted], atol=1e-6)
    assert (found.dtype, embedder.dim) == (np.float32, 64)
    np.testing.assert_allclose(embedder.query("text number 7"), vector("text number 7"), atol=1e-6)
    assert embedder.passages([]).shape == (0, 64)
    assert [len(asked.body["input"]) for asked in service.asked] == [16, 16, 8, 1]
    for asked in service.asked:
        assert (asked.path, asked.body["model"]) == ("/v1/embeddings", "nomic-embed-text")
        assert "authorization" not in asked.headers
    assert service.connections == 2  # one for passages, one for queries


def test_the_key_and_the_prefixes_are_sent(service: Service) -> None:
    with closing(opened(service, key=KEY, query_prefix="query: ", passage_prefix="passage: ")) as embedder:
        service.asked.clear()
        embedder.passages(["one"])
        embedder.query("two")
    assert service.texts == ["passage: one", "query: two"]
    assert [asked.headers["authorization"] for asked in service.asked] == [f"Bearer {KEY}"] * 2
    assert KEY not in repr(EmbedderOptions(service.base_url, KEY))


def test_the_id_tells_model_address_and_prefixes_apart_and_not_the_key(service: Service) -> None:
    def id_of(where: Service, model: str, options: dict[str, str]) -> str:
        with closing(opened(where, model, **options)) as embedder:
            return embedder.id

    with serving() as elsewhere:
        ids = {
            what: id_of(where, model, options)
            for what, where, model, options in (
                ("plain", service, "a", {}),
                ("key", service, "a", {"key": KEY}),
                ("model", service, "b", {}),
                ("prefix", service, "a", {"query_prefix": "q: "}),
                ("address", elsewhere, "a", {}),
            )
        }
    assert ids["plain"] == ids["key"]
    assert ids["plain"].startswith("openai:a@") and ids["plain"].endswith("/64")
    assert len(set(ids.values())) == 4


def test_a_text_no_unicode_encoder_takes_is_sent_nevertheless(service: Service, embedder: Embedder) -> None:
    embedder.passages(["a\0b \ud800 c"])
    assert service.texts == ["a b ? c"]


PASSING = {
    "429 with Retry-After": [refusing(429, Retry_After="1")],
    "429 twice": [refusing(429), refusing(429)],
    "500 twice": [refusing(500), refusing(500)],
    "503": [refusing(503)],
    "drop in mid-body": [dropping],
    "drop and 500": [dropping, refusing(500)],
}


@pytest.mark.parametrize("answers", PASSING.values(), ids=PASSING)
def test_what_passes_is_waited_out(service: Service, embedder: Embedder, answers: list[Answer]) -> None:
    service.answers = list(answers)
    np.testing.assert_allclose(embedder.passages(["one"]), [vector("one")], atol=1e-6)
    assert service.texts == ["one"] * (len(answers) + 1)


AWAY = {
    "key refused": ([refusing(401)], "wants another key (401)", 1),
    "no such model": ([refusing(404)], "no such model or address (404)", 1),
    "odd status": ([refusing(418)], "refused by the embedding service (418)", 1),
    "500 for ever": ([refusing(500)] * 3, "refused by the embedding service (500)", 3),
    "429 for an hour": ([refusing(429, Retry_After="3600")], "refused by the embedding service (429)", 1),
    "drops for ever": ([dropping] * 3, "can't reach the embedding service (IncompleteRead)", 3),
    "no JSON": ([saying(b"<html>")], "something else than JSON", 1),
    "JSON of another form": ([saying(b'{"data": 3}')], "something else than one vector for each text", 1),
    "no object": ([saying(b"[]")], "something else than JSON", 1),
    "deep JSON": ([saying(b"[" * 100_000)], "something else than JSON", 1),
    "too few": ([saying(b'{"data": []}')], "something else than one vector for each text", 1),
    "no numbers": ([saying(b'{"data": [{"index": 0, "embedding": ["x"]}]}')], "one vector for each text", 1),
    "not finite": ([saying(b'{"data": [{"index": 0, "embedding": [1e999]}]}')], "one vector for each text", 1),
    "another size": ([of_size(32)], "vectors of 32 numbers from the embedding service, before they had 64", 1),
}


@pytest.mark.parametrize(("answers", "sentence", "requests"), AWAY.values(), ids=AWAY)
def test_what_does_not_pass_is_told_without_the_text_and_the_key(
    service: Service, answers: list[Answer], sentence: str, requests: int
) -> None:
    with closing(opened(service, key=KEY)) as embedder:
        service.asked.clear()
        service.answers = list(answers)
        with pytest.raises(EmbedderAway) as away:
            embedder.passages(["a private thought"])
        assert sentence in str(away.value)
        assert "private" not in str(away.value) and KEY not in str(away.value)
        assert len(service.asked) == requests
        np.testing.assert_allclose(embedder.passages(["one"]), [vector("one")], atol=1e-6)  # it is usable afterwards


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere(service: Service) -> None:
    with serving() as elsewhere, closing(opened(service, key=KEY)) as embedder:
        service.answers = [refusing(status, Location=f"{elsewhere.base_url}/embeddings") for status in (307, 302)]
        for status in (307, 302):
            with pytest.raises(EmbedderAway, match=rf"sent elsewhere .* does not go there \({status}\)"):
                embedder.passages(["one"])
        assert elsewhere.connections == 0


def test_a_service_that_hangs_is_given_up(
    service: Service, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "_PASSAGES_S", 0.2)
    monkeypatch.setattr(service_module, "_QUERY_S", 0.2)
    service.answers = [hanging, hanging]
    for call in (lambda: embedder.passages(["one"]), lambda: embedder.query("one")):
        with pytest.raises(EmbedderAway, match="no answer from the embedding service in 0"):
            call()


def test_the_limits_of_patience_fit_the_worker() -> None:
    """A service that is slow must be told apart from a worker that hangs, which takes 30 s without a sign."""
    from sidecar.index.patience import Patience

    assert Patience().silent_s > service_module._PASSAGES_S
    assert Patience().start_s > service_module._FIRST_S


def test_a_model_that_takes_no_text_at_all_is_told(service: Service) -> None:
    service.usual = refusing(400)
    with pytest.raises(EmbedderAway, match="refused by the embedding service even one word"):
        opened(service)


def test_a_service_that_is_not_there_is_told(service: Service) -> None:
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        options = EmbedderOptions(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        with pytest.raises(EmbedderAway, match="can't reach the embedding service \\(ConnectionRefusedError\\)"):
            choose("openai:m", Path(), print, options)


def too_long(most: int) -> Answer:
    """A service whose model takes so many characters."""

    def answer(handler: Handler, asked: Asked) -> None:
        if max(map(len, asked.body["input"])) > most:
            refusing(400)(handler, asked)
        else:
            handler.vectors(asked)

    return answer


def test_a_text_that_is_too_long_is_embedded_in_pieces(service: Service, embedder: Embedder) -> None:
    service.usual = too_long(300)
    long = " ".join(f"word{number}" for number in range(120))
    found = embedder.passages(["short", long])
    np.testing.assert_allclose(found[0], vector("short"), atol=1e-6)
    assert np.linalg.norm(found[1]) == pytest.approx(1, abs=1e-5)
    assert found[1] @ vector(long) > 0.9
    alone = [asked.body["input"][0] for asked in service.asked if len(asked.body["input"]) == 1]
    assert "".join(text for text in alone[1:] if len(text) <= 300) == long
    assert np.linalg.norm(embedder.query(long)) == pytest.approx(1, abs=1e-5)


def test_a_text_that_is_refused_in_any_length_gets_zeros_and_the_others_their_vectors(
    service: Service, embedder: Embedder
) -> None:
    def answer(handler: Handler, asked: Asked) -> None:
        (refusing(400) if any("poison" in text for text in asked.body["input"]) else of_size(64))(handler, asked)

    service.usual = answer
    found = embedder.passages(["one", "poison", "two"])
    np.testing.assert_allclose(found[[0, 2]], [vector("one"), vector("two")], atol=1e-6)
    assert not found[1].any()
    assert not embedder.query("poison").any()


def test_a_connection_that_was_closed_meanwhile_is_opened_again(service: Service, embedder: Embedder) -> None:
    def answer_and_close(handler: Handler, asked: Asked) -> None:
        handler.vectors(asked)
        handler.close_connection = True

    service.answers = [answer_and_close]
    for text in ("one", "two"):
        np.testing.assert_allclose(embedder.passages([text]), [vector(text)], atol=1e-6)
    assert service.texts == ["one", "two"]


# other computers


@pytest.mark.parametrize("network", [False, True], ids=["not allowed", "allowed"])
def test_a_name_that_leads_elsewhere_is_noticed_by_the_address(
    service: Service, network: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second case is the control: without the check the text would be sent."""
    real: Callable[[socket.socket], tuple[str, int]] = socket.socket.getpeername
    monkeypatch.setattr(socket.socket, "getpeername", lambda sock: ("192.0.2.7", real(sock)[1]), raising=False)
    options = EmbedderOptions(service.base_url, key=KEY, network=network)
    if network:
        choose("openai:m", Path(), print, options).close()
        assert len(service.asked) == 1
    else:
        with pytest.raises(EmbedderAway, match=r"this computer only for embeddings \(\[index\] embedder_network\)"):
            choose("openai:m", Path(), print, options)
        assert service.asked == []
