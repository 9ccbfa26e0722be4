"""Addresses that answer to GET from the services of a surface."""

from __future__ import annotations

import logging

import pytest

from sidecar.arguments import Shape, check
from sidecar.contract import Route, Text
from sidecar.web import rest
from tests import wire
from tests.lab import SECRET_PATH, Running


def ask(
    lab: Running, target: str, method: str = "GET", token: str | None = None, body: bytes = b"", **more: str
) -> wire.Reply:
    token = lab.token if token is None else token
    headers = {"Host": f"127.0.0.1:{lab.port}"} | ({"Authorization": f"Bearer {token}"} if token else {}) | more
    with wire.Wire(lab.port) as client:
        client.send(wire.request(method, target, headers, body))
        return client.reply(bodiless=method == "HEAD")


def test_a_shape_is_answered_as_json_and_text_as_text(lab: Running) -> None:
    found = ask(lab, "/lab/api/add?a=2&b=40")
    assert (found.status, found.header("Content-Type"), found.json()) == (
        200,
        "application/json",
        {"total": 42, "remark": None},
    )
    text = ask(lab, "/lab/api/well")
    assert (text.status, text.header("Content-Type"), text.body) == (200, "text/plain; charset=utf-8", b"OK")
    assert ask(lab, "/lab/api/well?").body == b"OK"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("text=winter%20plan", "winter plan"),
        ("text=a+b%2Bc", "a b+c"),
        ("text=%E9%A8%8E%E8%A1%8C", "騎行"),
        ("text=5", "5"),
        ("text=a%26b%3Dc", "a&b=c"),
        ("text=", ""),
    ],
)
def test_arguments_are_text(lab: Running, query: str, said: str) -> None:
    assert ask(lab, f"/lab/api/echo?{query}").body.decode() == said


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("", "a: is required."),
        ("a=x", "a: must be a whole number from 0 to 100."),
        ("a=1.5", "a: must be a whole number from 0 to 100."),
        ("a=", "a: must be a whole number from 0 to 100."),
        ("a=%D9%A3", "a: must be a whole number from 0 to 100."),
        ("a=1e1", "a: must be a whole number from 0 to 100."),
        ("a=-1", "a: must be a whole number from 0 to 100."),
        ("a=" + "9" * 5000, "a: must be a whole number from 0 to 100."),
        ("a=1&colour=red", "colour: is not an argument of /lab/api/add."),
        ("a=1&a=1", "a: is given twice."),
        ("a=%FF", "The query string is not well-formed."),
        ("&".join(f"p{number}=1" for number in range(101)), "The query string is not well-formed."),
    ],
)
def test_a_mistake_is_400_with_its_sentence(lab: Running, query: str, sentence: str) -> None:
    reply = ask(lab, f"/lab/api/add?{query}")
    assert (reply.status, reply.json()) == (400, {"error": sentence})


class Free(Shape):
    """A whole number without bounds."""

    n: int


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-7", -7), ("007", 7), ("0" * 40 + "7", 7), ("-" + "0" * 40, 0), ("123456789012345", 123456789012345)],
)
def test_digits_are_the_number_that_they_write(text: str, number: int) -> None:
    assert given(text).n == number


@pytest.mark.parametrize("text", ["9" * 16, "1" + "0" * 30, "9" * 8000, "-" + "9" * 8000])
def test_a_huge_whole_number_is_one_beyond_every_bound(text: str) -> None:
    assert abs(given(text).n) >= 10**14
    assert (given(text).n < 0) == text.startswith("-")


def given(text: str) -> Free:
    async def run(*_: object) -> Text:
        return Text("")

    return check(Free, rest._given(Route("/free", Free, None, run), f"n={text}"), owner="/free")


def test_a_refusal_is_400_and_a_mistake_of_ours_500_without_details(
    lab: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    refused = ask(lab, "/lab/api/refuse")
    assert (refused.status, refused.json()) == (400, {"error": "There is no note 'Plan.md'."})
    assert not [record for record in caplog.records if record.name.startswith("sidecar.")]
    failed = ask(lab, "/lab/api/crash")
    assert (failed.status, failed.json()) == (500, {"error": "internal error"})
    assert SECRET_PATH in caplog.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_405(lab: Running, method: str) -> None:
    reply = ask(lab, "/lab/api/add?a=1", method)
    assert (reply.status, reply.header("Allow")) == (405, "GET")


@pytest.mark.parametrize("target", ["/lab/api/add?a=1", "/lab/api/add", "/lab/api/well", "/lab/api/crash"])
def test_head_is_answered_like_get(lab: Running, target: str) -> None:
    whole, head = ask(lab, target), ask(lab, target, "HEAD")
    assert head.status == whole.status
    for name in ("Content-Type", "Content-Length"):
        assert head.header(name) == whole.header(name)
    with wire.Wire(lab.port) as client:  # and no body comes after it
        headers = {"Host": f"127.0.0.1:{lab.port}", "Authorization": f"Bearer {lab.token}"}
        client.send(wire.request("HEAD", target, headers) + wire.request("GET", "/lab/api/well", headers))
        client.reply(bodiless=True)
        assert client.reply().body == b"OK"


def test_the_caller_is_known_and_progress_goes_nowhere(lab: Running) -> None:
    assert ask(lab, "/lab/api/who").body == b"local of local"
    assert ask(lab, "/lab/api/work?steps=3").body == b"done"


@pytest.mark.parametrize("path", ["/lab/api/well", "/lab/api/add", "/lab/api/nothing"])
def test_nobody_is_answered_without_a_token(lab: Running, path: str) -> None:
    for token in ("", "wrong" * 9):
        for method in ("GET", "HEAD", "POST"):
            assert ask(lab, path, method, token).status == 401
    assert lab.lab.calls == 0


@pytest.mark.parametrize("target", ["/lab/api/", "/lab/api", "/lab/api/well/", "/lab/api/%77ell", "//lab/api/well"])
def test_a_path_has_one_spelling(lab: Running, target: str) -> None:
    assert ask(lab, target).status == 404
