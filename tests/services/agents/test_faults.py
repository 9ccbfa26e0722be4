"""What providers do wrong, and what the caller is told: the right sentence for each, and no key in any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidecar.services.agents.turns import Pace
from tests.agents import NoWait, rig
from tests.provider import Fail, Raw, Say, Step, Use, provider

KEY = "k-0123456789-private"
KINDS = pytest.mark.parametrize(
    ("kind", "key"), [("openai", None), ("openai", KEY), ("anthropic", KEY)], ids=["no key", "openai", "anthropic"]
)


async def told(tmp_path: Path, kind: str, key: str | None, *script: Step) -> tuple[str, int, list[float]]:
    """The refusal, how often the provider was asked, and the waits in between."""
    wait = NoWait()
    with provider(*script) as played:
        async with rig(tmp_path, played, kind=kind, key=key, pace=Pace(sleep=wait)) as r:
            sentence = await r.refusal()
            assert r.records()[0].reason == sentence
            assert KEY not in str(r.records()) + sentence
    return sentence, len(played.asked), wait.waited


@KINDS
async def test_a_key_that_is_refused(tmp_path: Path, kind: str, key: str | None) -> None:
    sentence, tries, _ = await told(tmp_path, kind, key, Fail(401, "invalid key"))
    assert (sentence, tries) == ("'Scout' failed: the provider answered 401 (invalid key).", 1)


@KINDS
async def test_too_many_requests_wait_as_long_as_the_provider_says(tmp_path: Path, kind: str, key: str | None) -> None:
    busy = Fail(429, "slow down", (("Retry-After", "7"),))
    sentence, tries, waits = await told(tmp_path, kind, key, busy)
    assert (sentence, tries) == ("'Scout' failed: the provider answered 429 (slow down).", 3)
    assert waits == [7, 7]


async def test_a_provider_that_wants_to_rest_for_longer_is_not_asked_again(tmp_path: Path) -> None:
    sentence, tries, waits = await told(tmp_path, "openai", None, Fail(429, "", (("Retry-After", "21"),)))
    assert (sentence, tries, waits) == ("'Scout' failed: the provider answered 429.", 1, [])


@KINDS
async def test_two_failures_and_then_a_good_answer(tmp_path: Path, kind: str, key: str | None) -> None:
    wait = NoWait()
    with provider(Fail(500), Fail(529), Say("at last")) as played:
        async with rig(tmp_path, played, kind=kind, key=key, pace=Pace(sleep=wait)) as r:
            assert await r.run() == "at last"
            assert r.records()[0].turns == 1
    assert wait.waited == [0.5, 2.0]
    assert len({json.dumps(asked.body) for asked in played.asked}) == 1


@KINDS
async def test_a_connection_that_breaks_off(tmp_path: Path, kind: str, key: str | None) -> None:
    half = Raw(b'{"id": "x", "choi', promised=5000)
    sentence, tries, _ = await told(tmp_path, kind, key, half)
    assert (sentence, tries) == ("'Scout' failed: the connection to the provider broke.", 3)


async def test_nobody_listens(tmp_path: Path) -> None:
    with provider() as played:
        pass
    async with rig(tmp_path, played) as r:
        assert await r.refusal() == "'Scout' failed: the provider can't be reached."
        assert r.wait.waited == [0.5, 2.0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@KINDS
async def test_a_redirect_is_not_followed_and_carries_no_key(
    tmp_path: Path, kind: str, key: str | None, status: int
) -> None:
    with provider() as elsewhere:
        moved = Raw(b"", status, headers=(("Location", f"{elsewhere.url}/chat/completions"),))
        sentence, tries, _ = await told(tmp_path, kind, key, moved)
    assert sentence == f"'Scout' failed: the provider answered {status} (redirects are not followed)."
    assert (tries, elsewhere.asked) == (1, [])


@KINDS
async def test_an_answer_without_end_is_not_read_to_it(tmp_path: Path, kind: str, key: str | None) -> None:
    sentence, tries, _ = await told(tmp_path, kind, key, Raw(b'{"id": "' + b"x" * (10 << 20) + b'"}'))
    assert (sentence, tries) == ("'Scout' failed: the provider's answer is larger than 8 MiB.", 1)


async def test_a_compressed_answer_is_not_unpacked(tmp_path: Path) -> None:
    packed = Raw(b"\x1f\x8b", headers=(("Content-Encoding", "gzip"),))
    sentence, tries, _ = await told(tmp_path, "openai", None, packed)
    assert sentence == "'Scout' failed: the provider's answer is compressed, which was not asked for."
    assert tries == 1


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"", b"{}", b"null", b'{"choices": []}', b'{"choices": 1}'])
@KINDS
async def test_what_is_no_answer(tmp_path: Path, kind: str, key: str | None, body: bytes) -> None:
    sentence, *_ = await told(tmp_path, kind, key, Raw(body))
    assert sentence in (
        "'Scout' failed: the provider's answer can't be understood.",
        "'Scout' failed: the provider reports an error.",
        "'Scout' gave no answer.",
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'{"error": {"message": "model \\"x\\" not found, try pulling it first"}}',
            ' (model "x" not found, try pulling it first)',
        ),
        (b'{"error": "no such model"}', " (no such model)"),
        (b'{"message": "a\\n b\\u001b[2J."}', " (a b\\u001b[2J)"),
        (b"<html><body>Bad gateway</body></html>", ""),
        (b"plain words", " (plain words)"),
        (b"", ""),
        (json.dumps({"error": {"message": f"wrong: {KEY} and {KEY[:11]}…"}}).encode(), " (wrong: *** and ***…)"),
        (b'{"error": {"message": "' + b"long " * 200 + b'"}}', f" ({('long ' * 60).strip()})"),
    ],
    ids=["object", "text", "lines", "page", "plain", "empty", "key", "long"],
)
async def test_the_providers_own_words(tmp_path: Path, body: bytes, message: str) -> None:
    sentence, *_ = await told(tmp_path, "openai", KEY, Raw(body, 400))
    assert sentence == f"'Scout' failed: the provider answered 400{message}."


async def test_what_was_done_before_the_fault_is_recorded(tmp_path: Path) -> None:
    with provider(Use([("read_note", {})]), Fail(400, "no")) as played:
        async with rig(tmp_path, played) as r:
            await r.refusal()
            [record] = r.records()
    assert (record.outcome, record.turns, record.tools) == ("failed", 2, {"read_note": 1})
    assert record.usage == {"input_tokens": 10, "output_tokens": 3}
