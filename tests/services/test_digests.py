"""Digests over a real vault: what they pick, how they are proposed, and that they are made once."""

from __future__ import annotations

import asyncio
import json
import sys
import time as clocks
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import sidecar
from sidecar.config import DigestConfig
from sidecar.index.cards import Card
from sidecar.services import digest_log
from sidecar.services.digest_log import DigestLog, Entry
from sidecar.services.digest_note import EXTRACT_CHARS, Item, extract_of, write
from sidecar.services.digests import Digests, last_slot, next_slot
from sidecar.services.proposal_store import ProposalStore
from tests.index.vaults import embedded, settled, until
from tests.surfaces.tools import Tools, open_tools

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
ONCE_MORE = "The digest of 2026-11-30 exists already."


def put(vault: Path, notes: dict[str, str]) -> Path:
    for path, text in notes.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / ".draft").write_text(text)
        (vault / ".draft").replace(vault / path)  # else it would be empty for a moment
    return vault


NOTES = {
    "now.md": "heat pump heat pump boiler",
    "House/Pump.md": "---\ntags: [house]\nupdated: 2026-11-29\n---\n# Pump\n\nThe heat pump replaces the boiler.\n",
    "House/Attic.md": "---\ntags: [house]\nupdated: 2026-11-29\n---\nInsulation of the attic.\n",
    "Sea.md": "---\nupdated: 2026-11-29\n---\nPoetry of the sea.\n",
    "Clip.md": "---\nsource: https://example.org/a\ncreated: 2026-11-01\n---\nA clipped page.\n",
    "digests/2026-11-01.md": "---\nkp_id: kp:old\ntitle: old digest\ntags: [digest]\n---\nold\n",
}


@asynccontextmanager
async def making(vault: Path, state: Path, *, embedder: str | None = None, **settings: object) -> AsyncIterator[Tools]:
    async with open_tools(vault, state, embedder=embedder, digest=DigestConfig.model_validate(settings)) as tools:
        if embedder:
            await embedded(tools.corpus)
        yield tools


async def apply(tools: Tools, proposal: str) -> None:
    settled_one = await tools.core.proposals.apply(proposal, "cli")
    assert settled_one.proposal.status == "applied"
    await settled(tools.corpus)


async def proposed(tools: Tools, vault: Path, now: datetime = NOW) -> str:
    """The text of the digest that a run proposes."""
    outcome = await tools.core.digests.run(now)
    assert outcome.proposal and outcome.path, outcome
    await apply(tools, outcome.proposal)
    return (vault / outcome.path).read_text()


async def test_a_digest_is_null_until_a_person_applied_it(tmp_path: Path) -> None:
    vault = put(tmp_path / "vault", {"a.md": "One new note.\n"})
    async with making(vault, tmp_path / "state") as tools:
        assert await tools.facts("kp_digest_latest") == {"digest": None}
        outcome = await tools.core.digests.run(NOW)
        assert outcome.path == "digests/2026-11-30.md"
        assert outcome.said == (
            f"Proposed the digest of 2026-11-30, 1 note: 'vault-sidecar proposals apply {outcome.proposal}'."
        )
        assert await tools.facts("kp_digest_latest") == {"digest": None}
        assert not (vault / "digests").exists()
        record = json.loads((vault / ".kp/proposals" / str(outcome.proposal) / "proposal.json").read_text())
        assert (record["author"], record["title"]) == ("librarian", "Daily digest 2026-11-30")
        await apply(tools, str(outcome.proposal))
        digest = (await tools.facts("kp_digest_latest"))["digest"]
        assert (digest["title"], digest["path"]) == ("Daily digest 2026-11-30", "digests/2026-11-30.md")
        assert digest["created"] == "2026-11-30T06:00:00Z"
        assert digest["id"].startswith("kp:")
        assert "[[a|a]] – One new note." in digest["content"]
        assert "---" not in digest["content"]


async def test_a_second_run_and_one_without_news_change_nothing(tmp_path: Path) -> None:
    vault = put(tmp_path / "vault", {"a.md": "x"})
    async with making(vault, tmp_path / "state") as tools:
        first = await tools.core.digests.run(NOW)
        assert (await tools.core.digests.run(NOW)).said == ONCE_MORE
        assert (await tools.core.digests.run(NOW + timedelta(days=1))).said == "Nothing new since the last digest."
        assert len((await tools.core.proposals.listed(True))["proposals"]) == 1
        await apply(tools, str(first.proposal))
        assert (await tools.core.digests.run(NOW)).said == ONCE_MORE
        # the digest itself is no news, but what was indexed in the same second as the last note that was looked at is
        assert (await tools.core.digests.run(NOW + timedelta(days=1))).said == "Nothing new since the last digest."
        put(vault, {"b.md": "y"})
        await until(tools.corpus, lambda: "b.md" in tools.corpus.names())
        await settled(tools.corpus)
        assert "[[b|b]]" in (text := await proposed(tools, vault, NOW + timedelta(days=1)))
        assert "[[a|a]]" not in text
        assert (await tools.facts("kp_digest_latest"))["digest"]["path"] == "digests/2026-12-01.md"


async def test_a_day_whose_log_was_lost_has_its_digest_all_the_same(tmp_path: Path) -> None:
    """As where the disk of the state folder was full: every further try would be one more proposal."""
    vault, state = put(tmp_path / "vault", {"a.md": "x"}), tmp_path / "state"
    async with making(vault, state) as tools:
        assert (await tools.core.digests.run(NOW)).proposal
        await asyncio.to_thread((state / digest_log.FILE_NAME).unlink)
        assert (await tools.core.digests.run(NOW)).said == ONCE_MORE
        assert len((await tools.core.proposals.listed(True))["proposals"]) == 1


async def test_a_run_whose_caller_leaves_goes_on_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault, state = put(tmp_path / "vault", {"a.md": "x"}), tmp_path / "state"
    loop, add = asyncio.get_running_loop(), ProposalStore.add

    def left(*args: Any) -> None:
        add(*args)
        loop.call_soon_threadsafe(run.cancel)  # before the loop hears that it is stored

    async with making(vault, state) as tools:
        monkeypatch.setattr(ProposalStore, "add", left)
        run = asyncio.create_task(tools.core.digests.run(NOW))
        with pytest.raises(asyncio.CancelledError):
            await run
    [entry] = (await asyncio.to_thread(digest_log.read, state)).entries
    assert entry.day == "2026-11-30"


async def test_notes_are_gone_through_beside_the_loop(tmp_path: Path) -> None:
    on_the_loop = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal on_the_loop
        on_the_loop += event == "call" and frame.f_code is extract_of.__code__

    async with making(put(tmp_path / "vault", {"a.md": "x"}), tmp_path / "state") as tools:
        sys.setprofile(look)  # of this thread
        try:
            assert (await tools.core.digests.run(NOW)).proposal
            assert on_the_loop == 0
            extract_of("the control")
            assert on_the_loop == 1
        finally:
            sys.setprofile(None)


async def test_a_digest_that_came_from_elsewhere_counts_as_the_days(tmp_path: Path) -> None:
    vault = put(tmp_path / "vault", {"a.md": "x", "digests/2026-11-30.md": "---\nkp_id: kp:1\n---\nfrom elsewhere"})
    async with making(vault, tmp_path / "state") as tools:
        assert (await tools.core.digests.run(NOW)).said == ONCE_MORE
        assert (await tools.facts("kp_digest_latest"))["digest"]["content"] == "from elsewhere"


async def test_the_latest_digest_is_the_last_made_that_is_still_there_else_the_last_by_path(tmp_path: Path) -> None:
    vault = put(tmp_path / "vault", {**NOTES, "digests/2099-01-01.md": "---\nkp_id: kp:later\n---\nlater by its path"})
    async with making(vault, tmp_path / "state") as tools:
        assert (await tools.facts("kp_digest_latest"))["digest"]["id"] == "kp:later"
        await proposed(tools, vault)
        assert (await tools.facts("kp_digest_latest"))["digest"]["path"] == "digests/2026-11-30.md"
        (vault / "digests/2026-11-30.md").rename(vault / "Moved digest.md")
        await until(tools.corpus, lambda: "Moved digest.md" in tools.corpus.names())
        await settled(tools.corpus)
        assert (await tools.facts("kp_digest_latest"))["digest"]["path"] == "Moved digest.md"
        with (vault / "Moved digest.md").open("a") as file:
            file.write("\nRead.\n")
        put(vault, {"b.md": "y"})
        await until(tools.corpus, lambda: "b.md" in tools.corpus.names())
        await settled(tools.corpus)
        after = await tools.core.digests.run(NOW + timedelta(days=1))
        assert after.proposal
        assert "1 note:" in after.said  # a digest is no news where it lies now
        (vault / "Moved digest.md").unlink()
        await until(tools.corpus, lambda: "Moved digest.md" not in tools.corpus.names())
        assert (await tools.facts("kp_digest_latest"))["digest"]["id"] == "kp:later"


async def test_notes_close_to_the_anchor_come_first_in_groups_by_name(tmp_path: Path) -> None:
    vault = put(tmp_path / "vault", NOTES)
    async with making(vault, tmp_path / "state", embedder="hash") as tools:
        text = await proposed(tools, vault)
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## example.org", "## house", "## notes"]
    links = [line.split("]]")[0] for line in text.splitlines() if line.startswith("- ")]
    assert links == ["- [[Clip|Clip", "- [[House/Pump|Pump", "- [[House/Attic|Attic", "- [[Sea|Sea"]
    assert "- [[House/Pump|Pump]] – The heat pump replaces the boiler.\n  Why: closeness 0." in text
    assert "to the anchor note, updated 2026-11-29." in text
    assert "by their age alone" not in text
    assert "old digest" not in text and "[[now" not in text


@pytest.mark.parametrize(
    ("notes", "embedder", "remark"),
    [
        ({"a.md": "x"}, "hash", "There is no anchor note now.md, so the notes are ranked by their age alone."),
        (
            {"a.md": "x", "now.md": "heat"},
            None,
            "There are no vectors for the anchor note, so the notes are ranked by their age alone.",
        ),
    ],
    ids=["no anchor", "no vectors"],
)
async def test_without_an_anchor_age_alone_counts_and_the_digest_says_so(
    tmp_path: Path, notes: dict[str, str], embedder: str | None, remark: str
) -> None:
    fresh = {
        "z.md": "---\nupdated: 2026-11-29\ntags: [t]\n---\nfresh",
        "b.md": "---\nupdated: 2026-10-01\ntags: [t]\n---\nold",
    }
    vault = put(tmp_path / "vault", {**notes, **fresh})
    async with making(vault, tmp_path / "state", embedder=embedder) as tools:
        text = await proposed(tools, vault)
    assert remark in text
    assert "closeness" not in text
    assert text.index("[[z|z]]") < text.index("[[b|b]]")


async def test_equal_input_gives_equal_bytes_and_a_valid_block(tmp_path: Path) -> None:
    texts = []
    for run in ("one", "two"):
        vault = put(tmp_path / run / "vault", NOTES)
        async with making(vault, tmp_path / run / "state", embedder="hash") as tools:
            texts.append(await proposed(tools, vault))
    assert texts[0] == texts[1]
    block = yaml.safe_load(texts[0].split("---\n")[1])
    schema = json.loads((Path(sidecar.__file__).parent / "schemas/kp-note.v1.json").read_text())
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(block)
    assert block["kp_id"][3 + 14] == "7"  # the version of the UUID


async def test_only_the_best_are_taken_however_many_are_new(tmp_path: Path) -> None:
    vault = put(tmp_path / "vault", {})
    vault.mkdir()
    async with making(vault, tmp_path / "state", top_k=3) as tools:
        for first in range(0, 3 * 190, 190):  # more than are looked at in one go, and fewer than make processes start
            numbers = range(first, first + 190)
            put(vault, {f"{n:04}.md": f"---\nupdated: 2026-{1 + n % 11:02}-15\n---\nnote {n}" for n in numbers})
            await until(tools.corpus, lambda last=numbers[-1]: f"{last:04}.md" in tools.corpus.names())
            await settled(tools.corpus)
        assert len(tools.corpus.names()) == 570
        text = await proposed(tools, vault)
    assert text.count("\n- [[") == 3
    assert all(f"[[{number:04}|" in text for number in (10, 21, 32))


async def test_a_day_is_one_of_local_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    clocks.tzset()
    try:
        async with making(put(tmp_path / "vault", {"a.md": "x"}), tmp_path / "state") as tools:
            outcome = await tools.core.digests.run(datetime(2026, 11, 29, 20, tzinfo=UTC))
            assert outcome.path == "digests/2026-11-30.md"
    finally:
        monkeypatch.undo()
        clocks.tzset()


ENTRY = b'{"day": "2026-11-30", "note_id": "kp:1", "path": "x.md", "proposal": "01"}'
RUBBISH = [
    b"{", b"[]", b'{"entries": [{"x": 1}]}', b"\xff", b"[" * 100_000, b'{"entries": [1]}',
    b'{"entries": [], "last_run": null, "seen_until": Infinity, "seen_then": []}',
    b'{"entries": [], "last_run": "soon", "seen_until": 1, "seen_then": []}',
    b'{"entries": [], "last_run": "2026-11-30T06:00:00", "seen_until": 1, "seen_then": []}',
    b'{"entries": [' + ENTRY.replace(b"kp:1", b"x") + b'], "last_run": null, "seen_until": 1, "seen_then": []}',
]  # fmt: skip


async def test_a_log_that_is_no_good_is_begun_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vault, state = put(tmp_path / "vault", {"a.md": "x"}), tmp_path / "state"
    async with making(vault, state) as tools:
        for rubbish in RUBBISH:
            await asyncio.to_thread((state / digest_log.FILE_NAME).write_bytes, rubbish)
            assert await tools.facts("kp_digest_latest") == {"digest": None}
            assert await asyncio.to_thread(digest_log.read, state) == DigestLog()
        assert caplog.text.count("digests begin anew") == 2 * len(RUBBISH)
        assert (await tools.core.digests.run(NOW)).proposal


def test_a_log_comes_back_as_it_was_written(tmp_path: Path) -> None:
    log = DigestLog(last_run="2026-11-30T06:00:00Z").with_entry(Entry("2026-11-30", "kp:1", "d/x.md", "01"), 17, ["a"])
    digest_log.write(tmp_path, log)
    assert digest_log.read(tmp_path) == log


# the text


def card(**changes: object) -> Card:
    facts: dict[str, object] = {
        "path": "Note.md", "note_id": "path:Note.md", "title": "Note", "tags": (), "source": None, "created": None,
        "updated": None, "checksum": "", "ingested_at": 0,
    }  # fmt: skip
    return Card(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "extract"),
    [
        ("---\ntitle: x\n---\n# Head\n\nFirst words\nof two lines.\n\nSecond.", "First words of two lines."),
        ("", ""),
        ("# Only a heading\n", ""),
        ("```\ncode\n```\nBehind code.", "Behind code."),
        (
            "![[picture.png]]\n\nWords with [[Link|a link]], [[Other]] and [one](x.md).",
            "Words with a link, Other and one.",
        ),
        ("**Bold** `code` ~~gone~~ ==mark== #tag <b>html</b> %%x%%", "Bold code gone mark tag html x"),
        ("a\x1b[0m\u2028b", "a\\u001b0m b"),
        ("x" * 200, "x" * EXTRACT_CHARS + "…"),
    ],
)
def test_an_extract_is_the_first_paragraph_as_plain_text(text: str, extract: str) -> None:
    assert extract_of(text) == extract


@pytest.mark.parametrize("length", [20_000, 200_000])
def test_hostile_text_is_cut_before_it_is_cleaned(length: int) -> None:
    for text in ("[[" * length, "![](" * length, "<a" * length, "[" * length, "%%" * length):
        assert len(extract_of(text)) <= EXTRACT_CHARS + 1


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"title": "a]] [[b|c", "path": "A.md"}, "- [[A|a bc]] – text"),
        ({"path": "x]]y#z.md", "title": "t"}, "- [t](x%5D%5Dy%23z.md) – text"),
        ({"path": "a\nb.md", "title": "t"}, "- [t](a%0Ab.md) – text"),
        ({"path": "<!-- curio:managed:begin.md", "title": "t"}, "- [t](%3C%21--%20curio%3Amanaged%3Abegin.md) – text"),
        ({"path": "`a.md", "title": "t"}, "- [t](%60a.md) – text"),
        ({"title": "`**"}, "- [[Note|note]] – text"),
    ],
)
def test_N23_links_stay_well_formed_whatever_notes_are_called(facts: dict[str, object], line: str) -> None:
    _, text = write(NOW.date(), NOW, [Item(card(**facts), "text", None)], None)
    assert line in text.splitlines()


@pytest.mark.parametrize(
    ("facts", "group"),
    [
        ({}, "notes"),
        ({"tags": ("a/b", "c")}, "a/b"),
        ({"source": "https://Example.org:80/x"}, "example.org"),
        ({"source": "http://[broken"}, "notes"),
        ({"source": "a book"}, "notes"),
        ({"tags": ("<b>",)}, "notes"),
    ],
)
def test_a_note_is_in_the_group_of_its_first_tag_or_of_its_source(facts: dict[str, object], group: str) -> None:
    _, text = write(NOW.date(), NOW, [Item(card(**facts), "", None)], None)
    assert f"\n## {group}\n\n- [[Note|Note]]\n  Why: indexed 1970-01-01.\n" in text


# every day


def test_the_slots_of_a_daily_time_lie_around_now() -> None:
    at = time(6)
    for hour in (0, 5, 6, 7, 23):
        now = datetime(2026, 11, 30, hour, 30).astimezone()
        assert last_slot(now, at) <= now < next_slot(now, at)
        assert next_slot(now, at) - last_slot(now, at) == timedelta(days=1)
        assert last_slot(now, at).astimezone().time() == at
    exactly = datetime(2026, 11, 30, 6).astimezone()
    assert last_slot(exactly, at) == exactly


async def until_logged(state: Path, entries: int) -> list[Entry]:
    async with asyncio.timeout(30):
        while True:
            log = await asyncio.to_thread(digest_log.read, state)
            if len(log.entries) >= entries:
                return list(log.entries)
            await asyncio.sleep(0.02)


async def test_a_missed_run_is_made_up_once_and_counts_for_its_day(tmp_path: Path) -> None:
    vault, state = put(tmp_path / "vault", {"a.md": "x"}), tmp_path / "state"
    moment = datetime(2026, 11, 30, 5, 0).astimezone()

    async with open_tools(vault, state) as tools:
        core = tools.core
        settings = DigestConfig(at="06:00")

        def daily() -> Digests:
            return Digests(tools.corpus, core.library, core.proposals, settings, state, clock=lambda: moment)

        async with daily():
            [entry] = await until_logged(state, 1)
        assert entry.day == "2026-11-29"  # what was due at six o'clock yesterday
        put(vault, {"b.md": "y"})
        await until(tools.corpus, lambda: "b.md" in tools.corpus.names())
        await settled(tools.corpus)
        again = daily()
        async with again:
            assert await again._run_if_due(time(6)) == 300.0  # looks again soon, though it is due in an hour
        assert len(await until_logged(state, 1)) == 1
        moment = datetime(2026, 11, 30, 6, 0).astimezone()
        async with daily():
            entries = await until_logged(state, 2)
        assert [one.day for one in entries] == ["2026-11-29", "2026-11-30"]
