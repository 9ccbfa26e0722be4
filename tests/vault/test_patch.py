"""The patch engine: what it writes comes back byte for byte, git reads it the same way, and it forgives nothing."""

from __future__ import annotations

import difflib
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.vault import patch
from sidecar.vault.patch import BadPatch, Drift

PIECES = [
    b"a", b"b", b"word", b" ", b"\t", b"\n", b"\n", b"\n\n", b"\r", b"\r\n", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\0",
    "\u2028".encode(), "\u2029".encode(), "\u0085".encode(), "ü".encode(), b"\xff", b"\xef\xbb\xbf",
    b"--- a/x.md\n", b"+++ b/x.md\n", b"diff --git a/x b/x\n", b"--- /dev/null\n", b"@@ -1 +1 @@\n",
    b"@@ -0,0 +1,2 @@\n",
    b"\\ No newline at end of file\n", b"\\ No newline at end of file", b"-", b"+", b"\\", b"-- \n", b"rename from a\n",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join)


def pairs(count: int, seed: int) -> list[tuple[bytes | None, bytes]]:
    """Old and new texts that differ; most of the new ones are an old one with a few changes."""
    chance = random.Random(seed)
    found: list[tuple[bytes | None, bytes]] = []

    def text() -> bytes:
        return b"".join(chance.choice(PIECES) for _ in range(chance.randrange(30)))

    while len(found) < count:
        old = None if chance.random() < 0.1 else text() * chance.randrange(1, 4)
        if old and chance.random() < 0.7:
            lines = patch.split(old)
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(len(lines) + 1)
                lines[at : at + chance.randrange(3)] = [text()[:20]]
            new = b"".join(lines)
        else:
            new = text()
        if new != (old or b""):
            found.append((old, new))
    return found


def reapplied(old: bytes | None, new: bytes) -> bytes:
    [file] = patch.parse(patch.make("Folder/x.md", old, new))
    assert (file.path, file.creates) == ("Folder/x.md", old is None)
    assert patch.apply(patch.reverse(file), new) == (old or b"")
    return patch.apply(file, old or b"")


def git_apply(diff: bytes, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """What git does with a patch, outside of any repository and without anybody's settings."""
    settled = {
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    git = ["git", "apply", "--whitespace=nowarn"]
    environment = {**os.environ, **settled}
    return subprocess.run(git, input=diff, cwd=folder, env=environment, capture_output=True, check=False)


@settings(max_examples=1000)
@given(TEXTS, TEXTS)
def test_any_pair_comes_back_byte_for_byte(old: bytes, new: bytes) -> None:
    if old != new:
        assert reapplied(old, new) == new


def test_five_thousand_pairs_come_back_byte_for_byte() -> None:
    for old, new in pairs(5000, seed=6):
        assert reapplied(old, new) == new, (old, new)


def test_the_usual_diff_of_python_does_not_come_back() -> None:
    """The control: split everywhere, and without the marker."""
    failures = 0
    for old, new in pairs(300, seed=7):
        before, after = (text.decode("latin-1").splitlines(keepends=True) for text in (old or b"", new))
        diff = "".join(difflib.unified_diff(before, after, "a/x.md", "b/x.md")).encode("latin-1")
        try:
            [file] = patch.parse(diff)
            failures += patch.apply(file, old or b"") != new
        except (BadPatch, Drift, ValueError):
            failures += 1
    assert failures > 100


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_makes_the_same_of_a_sample(tmp_path: Path) -> None:
    """All files of the sample in one patch, as a proposal has them."""
    sample = pairs(250, seed=8)
    parts: list[bytes] = []
    for number, (old, new) in enumerate(sample):
        name = f"Fold er/Nöte {number} (1).md"
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        if old is not None:
            file.write_bytes(old)
        parts.append(patch.make(name, old, new))
    done = git_apply(b"".join(parts), tmp_path)
    assert done.returncode == 0, done.stderr
    for number, (_, new) in enumerate(sample):
        assert (tmp_path / f"Fold er/Nöte {number} (1).md").read_bytes() == new, sample[number]


def test_any_drift_of_what_a_patch_touches_is_refused() -> None:
    """A line more, less or other, in a hunk or before it."""
    chance = random.Random(9)
    refused = 0
    for old, new in pairs(1500, seed=10):
        [file] = patch.parse(patch.make("x.md", old, new))
        hunk = chance.choice(file.hunks)
        lines = patch.split(old or b"")
        at = chance.randrange(hunk.old_start + len(hunk.side(b"-")) + 1)
        drifted = [
            *lines[:at],
            *chance.choice([[b"one more\n", *lines[at : at + 1]], [], [b"other\n"]]),
            *lines[at + 1 :],
        ]
        text = b"".join(drifted)
        now, end = patch.split(text), hunk.old_start + len(hunk.side(b"-"))
        if now[hunk.old_start : end] != lines[hunk.old_start : end] or (end == len(lines) < len(now)):
            refused += 1
            with pytest.raises(Drift):
                patch.apply(file, text)
    assert refused > 1000


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_forgives_an_offset_that_is_refused_here(tmp_path: Path) -> None:
    """The control: a text that moved by one line."""
    old = b"".join(b"line %d\n" % number for number in range(20))
    diff = patch.make("x.md", old, old.replace(b"line 10\n", b"line ten\n"))
    (tmp_path / "x.md").write_bytes(b"new\n" + old)
    with pytest.raises(Drift):
        patch.apply(patch.parse(diff)[0], b"new\n" + old)
    assert git_apply(diff, tmp_path).returncode == 0
    assert b"line ten" in (tmp_path / "x.md").read_bytes()


@pytest.mark.parametrize(
    ("now", "says"),
    [
        pytest.param(b"1\n2\n3\n4\n5\n6\n7\n8\n9\n", None, id="as it was"),
        pytest.param(b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", "line 2 is not what it was", id="moved by one line"),
        pytest.param(b"1\n2\n3\n4\nfive\n6\n7\n8\n9\n", "line 5 is not what it was", id="the removed line"),
        pytest.param(b"1\n2\n3 \n4\n5\n6\n7\n8\n9\n", "line 3 is not what it was", id="a blank in the context"),
        pytest.param(
            b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n", "line 2 is not what it was", id="other line ends"
        ),
        pytest.param(b"1\n2\n3\n4\n5\n6\n7\n8", "line 8 is not what it was", id="no last line end"),
        pytest.param(b"1\n2\n3\n", "line 4 is not what it was", id="cut off"),
        pytest.param(b"", "line 2 is not what it was", id="empty"),
        pytest.param(b"1\n2\n3\n4\n5\n6\n7\n8\n9\nten", None, id="more behind"),
        pytest.param(b"one\n2\n3\n4\n5\n6\n7\n8\n9\n", None, id="another line above the context"),
    ],
)
def test_there_is_no_fuzz_and_no_offset(now: bytes, says: str | None) -> None:
    [file] = patch.parse(patch.make("x.md", b"1\n2\n3\n4\n5\n6\n7\n8\n9\n", b"1\n2\n3\n4\nV\n6\n7\n8\n9\n"))
    if says is None:
        assert patch.apply(file, now) == now.replace(b"5", b"V")
        return
    with pytest.raises(Drift, match=says):
        patch.apply(file, now)


def test_a_patch_has_the_usual_form() -> None:
    old, new = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15", b"1\n2\n3\n4\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n"
    assert patch.make("A b/ü.md", old, new).decode().splitlines() == [
        "--- a/A b/ü.md", "+++ b/A b/ü.md",
        "@@ -2,7 +2,6 @@", " 2", " 3", " 4", "-5", " 6", " 7", " 8",
        "@@ -12,4 +11,4 @@", " 12", " 13", " 14", "-15", "\\ No newline at end of file", "+15",
    ]  # fmt: skip
    assert patch.make("n.md", None, b"one\ntwo") == (
        b"--- /dev/null\n+++ b/n.md\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n"
    )
    assert patch.make("n.md", b"one\n", b"") == b"--- a/n.md\n+++ b/n.md\n@@ -1 +0,0 @@\n-one\n"


def test_short_lines_that_are_equal_are_kept_once() -> None:
    """There may be four million of them in a proposal."""
    [file] = patch.parse(patch.make("x.md", None, b"\n" * 1000 + b"longer\n" * 2 + b"\n"))
    assert len({id(line) for line in file.hunks[0].lines}) == 3


GOOD = b"--- a/x.md\n+++ b/x.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"", "line 1: its end is missing", id="empty"),
        pytest.param(GOOD[:-1], "line 6: a line that the head", id="cut in the last line"),
        pytest.param(GOOD[:-3], "line 6: its end is missing", id="a line short"),
        pytest.param(GOOD + b" three\n", "line 7: no '--- a/'", id="a line more"),
        pytest.param(GOOD + b"\n", "line 7: no '--- a/'", id="an empty line more"),
        pytest.param(GOOD + GOOD, "'x.md' is in it twice", id="a file twice"),
        pytest.param(GOOD.replace(b"+++ b/x", b"+++ b/y"), "line 2: it renames a file", id="rename"),
        pytest.param(GOOD.replace(b"+++ b/x.md", b"+++ /dev/null"), "line 2: it deletes a file", id="delete"),
        pytest.param(b"diff --git a/x.md b/x.md\n" + GOOD, "line 1: no '--- a/'", id="git's head"),
        pytest.param(GOOD.replace(b"a/x.md", b"a/x.md\t2026-11-30"), "line 2: it renames a file", id="a date"),
        pytest.param(GOOD.replace(b"a/x.md", b'"a/x.md"'), "line 1: no '--- a/'", id="quoted"),
        pytest.param(GOOD.replace(b"x.md", b"\xff.md"), "line 1: a path that is not UTF-8", id="bytes in a path"),
        pytest.param(GOOD.replace(b"@@\n", b"@@ heading\n"), "line 3: no head of a hunk", id="heading"),
        pytest.param(GOOD.replace(b"-1,2", b"-0,2"), "line 3: no head of a hunk", id="line 0"),
        pytest.param(GOOD.replace(b"-1,2", b"-01,2"), "line 3: no head of a hunk", id="leading zero"),
        pytest.param(GOOD.replace(b"-1,2", b"-" + b"9" * 5000 + b",2"), "line 3: no head", id="5,000 digits"),
        pytest.param(GOOD.replace(b"-1,2", b"-1,1"), "line 5: a line that the head", id="too many"),
        pytest.param(GOOD.replace(b" one", b"one"), "line 4: a line that the head", id="no mark"),
        pytest.param(GOOD.replace(b"+1,2", b"+1,1"), "line 6: no '--- a/'", id="too many new ones"),
        pytest.param(b"--- a/x.md\n+++ b/x.md\n@@ -0,0 +0,0 @@\n", "line 3: no head of a hunk", id="nothing"),
        pytest.param(
            b"--- a/x.md\n+++ b/x.md\n@@ -1 +1 @@\n one\n", "line 4: a hunk that changes nothing", id="context"
        ),
        pytest.param(b"--- a/x.md\n+++ b/x.md\n", "line 3: its end is missing", id="no hunk"),
        pytest.param(GOOD.replace(b"\n", b"\r\n"), "line 2: it renames|line 3: no head", id="other line ends"),
    ],
)
def test_a_patch_of_another_form_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(BadPatch, match=says.replace("(", r"\(")):
        patch.parse(data)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"@@ -1 +1 @@\n-one\n+1\n@@ -1 +2 @@\n-one\n+1\n", id="hunks that overlap"),
        pytest.param(b"@@ -2 +2 @@\n-two\n+2\n", id="too little context"),
        pytest.param(b"@@ -1 +2 @@\n-one\n+1\n", id="another new line"),
        pytest.param(b"@@ -1 +1,2 @@\n+1\n\\ No newline at end of file\n one\n", id="no line end in the middle"),
    ],
)
def test_a_patch_that_contradicts_itself_is_refused(body: bytes) -> None:
    [file] = patch.parse(b"--- a/x.md\n+++ b/x.md\n" + body)
    with pytest.raises(BadPatch):
        patch.apply(file, b"one\n")


def test_what_was_added_at_the_end_is_not_put_above_newer_lines() -> None:
    [file] = patch.parse(patch.make("x.md", b"one\ntwo\n", b"one\ntwo\nthree\n"))
    with pytest.raises(Drift, match="line 3 is new, and its end was above"):
        patch.apply(file, b"one\ntwo\nsomebody's\n")


@settings(max_examples=300)
@given(TEXTS, TEXTS, st.data())
def test_a_damaged_patch_never_brings_a_mistake_of_ours(old: bytes, new: bytes, data: st.DataObject) -> None:
    if old == new:
        return
    raw = bytearray(patch.make("x.md", old, new))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from(b"\n-+ @\\0123,a"))
    try:
        for file in patch.parse(bytes(raw)):
            patch.apply(file, old)
    except (BadPatch, Drift):
        pass
