"""Group J of the security catalogue over HTTP: whatever a caller asks for, only notes of the vault come back.

Every answer is searched for the canary, and before and after each row the
vault and what lies around it are the same.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.vault.paths import echo
from tests import wire
from tests.daemons import Daemon
from tests.lab import wait_until
from tests.security.ground import INSIDE, LURE, Ground, served, served_at, write
from tests.security.lures import ELSEWHERE, OUTSIDE_WORD, lay_links, lay_lures, lay_special_files, other_device

# What read_note says, and what list_notes says of the same text as a folder.
_NO_FOLDER = "There is no folder '{}' in the vault."
NO_PATH = (
    "'{}' is not a path inside the vault; use one like 'Folder/Note.md'.",
    "'{}' is not a folder inside the vault; use one like 'Projects'.",
)
HIDDEN = (NO_PATH[0], _NO_FOLDER)
NO_SUFFIX = ("'{}' is not a note; notes end in .md.", _NO_FOLDER)
NO_NOTE = ("There is no note '{}'.", _NO_FOLDER)
A_LINK = ("'{}' can't be read: it is a link, and links are not followed.", _NO_FOLDER)
NOT_REGULAR = ("'{}' can't be read: it is not a regular file.", _NO_FOLDER)

AT_ONCE_S = 1.0  # ten times what the catalogue allows


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A vault with lures, links and special files, and with another device where mounting is allowed."""
    base = tmp_path_factory.mktemp("jail") / "base"
    lay_lures(base)
    lay_links(base)
    lay_special_files(base / "vault")
    with other_device(base / "vault" / "J39"):
        yield base


@pytest.fixture(scope="module")
def both(base: Path) -> Iterator[tuple[Ground, Daemon]]:
    """`~` and `$HOME` of this daemon lead to a secret."""
    with served(base, base.with_name("state"), env={"HOME": str(base / "home")}) as both:
        yield both


@pytest.fixture(scope="module")
def ground(both: tuple[Ground, Daemon]) -> Ground:
    return both[0]


@pytest.fixture(scope="module")
def second(base: Path) -> Iterator[Ground]:
    """The same vault, given as a link that leads elsewhere now; and other devices are allowed."""
    link = base.with_name("link")
    link.symlink_to(base / "vault")
    allowed = {"VAULT_SIDECAR_NOTES_OTHER_DEVICES": "true"}
    with served_at(link, base, base.with_name("second state"), env=allowed) as (ground, _):
        link.unlink()
        link.symlink_to(base / "outside")
        yield ground


@pytest.fixture(autouse=True)
def unchanged(ground: Ground) -> Iterator[None]:
    """No row changes a byte, a name, a mode or a time."""
    before = ground.tree()
    yield
    assert ground.tree() == before


@contextmanager
def for_a_moment(*files: Path, seen_by: Sequence[Ground]) -> Iterator[None]:
    """These files are made inside the block; afterwards they were never there, and those who saw them know it."""
    folders = {file.parent: file.parent.stat() for file in files}
    try:
        yield
    finally:
        for file in files:
            file.unlink(missing_ok=True)
        for folder, status in folders.items():
            os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))
    for ground in seen_by:
        paths = {file.relative_to(ground.vault).as_posix() for file in files}
        wait_until(lambda ground=ground, paths=paths: paths.isdisjoint(ground.listed()))


# paths as text

ROWS = [
    pytest.param("../canary.md", NO_PATH, id="J01"),
    pytest.param("a/../../canary.md", NO_PATH, id="J02"),
    pytest.param("a/../b.md", NO_PATH, id="J03"),
    pytest.param("./a.md", NO_PATH, id="J04-1"),
    pytest.param("a/./b.md", NO_PATH, id="J04-2"),
    pytest.param("a//b.md", NO_PATH, id="J04-3"),
    pytest.param("BASE/canary.md", NO_PATH, id="J05"),
    pytest.param("BASE/vault/a.md", NO_PATH, id="J06"),
    pytest.param("//etc/hosts", NO_PATH, id="J07-1"),
    pytest.param("///x", NO_PATH, id="J07-2"),
    pytest.param("/BASE/canary.md", NO_PATH, id="J07-3"),
    pytest.param("~/x.md", NO_NOTE, id="J08-1"),
    pytest.param("$HOME/x.md", NO_NOTE, id="J08-2"),
    pytest.param("${HOME}/x.md", NO_NOTE, id="J08-3"),
    pytest.param("C:\\x.md", NO_PATH, id="J09-1"),
    pytest.param("C:x.md", NO_PATH, id="J09-2"),
    pytest.param("c:/x.md", NO_PATH, id="J09-3"),
    pytest.param("\\\\server\\share\\x.md", NO_PATH, id="J10-1"),
    pytest.param("//server/share/x.md", NO_PATH, id="J10-2"),
    pytest.param("\\\\?\\C:\\x.md", NO_PATH, id="J11-1"),
    pytest.param("\\\\.\\pipe\\x", NO_PATH, id="J11-2"),
    pytest.param("..\\canary.md", NO_PATH, id="J12-1"),
    pytest.param("a\\..\\..\\canary.md", NO_PATH, id="J12-2"),
    pytest.param("a/..\\..\\canary.md", NO_PATH, id="J12-3"),
    pytest.param("%2e%2e/canary.md", NO_NOTE, id="J13-1"),
    # a name that begins with a dot does not exist for callers, whatever follows
    pytest.param("..%2fcanary.md", HIDDEN, id="J13-2"),
    pytest.param("a.md\0.txt", NO_PATH, id="J14-1"),
    pytest.param("\0", NO_PATH, id="J14-2"),
    pytest.param("../canary.md\0.md", NO_PATH, id="J14-3"),
    pytest.param("file:///etc/hosts", NO_PATH, id="J15-1"),
    pytest.param("path:/etc/hosts", NO_SUFFIX, id="J15-2"),
    pytest.param("path:../x", NO_SUFFIX, id="J15-3"),
    pytest.param("file://BASE/canary.md", NO_PATH, id="J15-4"),
    pytest.param("path:BASE/canary.md", NO_NOTE, id="J15-5"),
    pytest.param("path:../canary.md", NO_NOTE, id="J15-6"),
    pytest.param(".", NO_PATH, id="J16-2"),
    pytest.param("..", NO_PATH, id="J16-3"),
    pytest.param("/", NO_PATH, id="J16-4"),
    pytest.param("  \u3000", NO_PATH, id="J16-5"),
    pytest.param("../vault-secret/x.md", NO_PATH, id="J17-1"),
    pytest.param("BASE/vault-secret/x.md", NO_PATH, id="J17-2"),
    pytest.param("J18.md", A_LINK, id="J18-1"),
    pytest.param("J18-relative.md", A_LINK, id="J18-2"),
    pytest.param("J19/x.md", NO_NOTE, id="J19-1"),
    pytest.param("J19/deep/x.md", NO_NOTE, id="J19-2"),
    pytest.param("J20.md", A_LINK, id="J20-1"),
    pytest.param("J20/b.md", NO_NOTE, id="J20-2"),
    pytest.param("J21.md", A_LINK, id="J21-1"),
    pytest.param("J21-one.md", A_LINK, id="J21-2"),
    pytest.param("J21/" * 40 + "a.md", NO_NOTE, id="J21-3"),
    pytest.param("J22.md", A_LINK, id="J22"),
    pytest.param("J24.md", NOT_REGULAR, id="J24"),
    pytest.param("J25.md", NOT_REGULAR, id="J25-1"),
    pytest.param("J25-device.md", NOT_REGULAR, id="J25-2"),
    pytest.param(".obsidian/app.json", HIDDEN, id="J27-1"),
    pytest.param(".obsidian/plugins/p/data.json", HIDDEN, id="J27-2"),
    pytest.param(".obsidian/x.md", HIDDEN, id="J27-3"),
    pytest.param(".git/config", HIDDEN, id="J28-1"),
    pytest.param(".trash/x.md", HIDDEN, id="J28-2"),
    pytest.param(".env", HIDDEN, id="J28-3"),
    pytest.param(".hidden.md", HIDDEN, id="J28-4"),
    pytest.param("a/.b/c.md", HIDDEN, id="J28-5"),
    pytest.param(".OBSIDIAN/x.md", HIDDEN, id="J29-1"),
    pytest.param(".Git/config", HIDDEN, id="J29-2"),
    pytest.param(".ob\u200csidian/x.md", HIDDEN, id="J30-1"),
    pytest.param("\u200c.obsidian/x.md", HIDDEN, id="J30-2"),
    pytest.param("OBSIDI~1/x.md", NO_NOTE, id="J31-1"),
    pytest.param("GIT~1/config", NO_SUFFIX, id="J31-2"),
    pytest.param("note.md:stream", NO_SUFFIX, id="J32-1"),
    pytest.param("note.md::$DATA", NO_SUFFIX, id="J32-2"),
    pytest.param("image.png", NO_SUFFIX, id="J33-1"),
    pytest.param("main.js", NO_SUFFIX, id="J33-2"),
    pytest.param("x.md.exe", NO_SUFFIX, id="J33-3"),
    pytest.param("x", NO_SUFFIX, id="J33-4"),
    pytest.param("x" * 253 + ".md", NO_PATH, id="J34-1"),
    pytest.param("/".join(["x" * 250] * 20) + ".md", NO_PATH, id="J34-2"),
    pytest.param("/".join(["x"] * 300) + ".md", NO_PATH, id="J34-3"),
    pytest.param("x" * 1_000_000 + ".md", NO_PATH, id="J34-4"),
    pytest.param("a\uff0f..\uff0f..\uff0fx.md", NO_NOTE, id="J37-1"),  # fullwidth slashes
    pytest.param("\u2024\u2024/x.md", NO_NOTE, id="J37-2"),  # one-dot leaders
    pytest.param("\u2025/x.md", NO_NOTE, id="J37-3"),  # a two-dot leader
]  # fmt: skip


def fill(raw: str, ground: Ground) -> str:
    """The row's text; BASE in it stands for the folder around the vault."""
    return raw.replace("BASE", str(ground.base))


@pytest.mark.parametrize("raw, why", ROWS)
def test_read_note_refuses(ground: Ground, raw: str, why: tuple[str, str]) -> None:
    raw = fill(raw, ground)
    if raw == "J25-device.md" and not os.path.lexists(ground.vault / raw):
        pytest.skip("only root may make a device")
    said = ground.call("read_note", path=raw)
    assert said.is_error
    assert said.text == why[0].format(echo(raw))


@pytest.mark.parametrize("raw, why", ROWS)
def test_list_notes_refuses_as_a_folder(ground: Ground, raw: str, why: tuple[str, str]) -> None:
    raw = fill(raw, ground)
    said = ground.call("list_notes", folder=raw)
    assert said.is_error
    assert said.text == why[1].format(echo(raw))


NO_ID = "No note has the id 'path:{}'. Find ids with kp_search or kp_recent."


@pytest.mark.parametrize("tool", ["kp_get_note", "kp_related"])
@pytest.mark.parametrize(
    "raw, why",
    [*ROWS, pytest.param("a/", NO_PATH, id="J04-4"), pytest.param("J26.md", NO_NOTE, id="J26")],
)
def test_an_id_leads_no_further_than_its_path(ground: Ground, tool: str, raw: str, why: tuple[str, str]) -> None:
    raw = fill(raw, ground)
    said = ground.call(tool, id=f"path:{raw}")
    assert said.is_error
    if why in (NO_NOTE, A_LINK, NOT_REGULAR):  # what is no indexed note has no id, and nothing on the disk is told
        assert said.text == NO_ID.format(echo(f"path:{raw}").removeprefix("path:"))
    else:
        assert said.text == why[0].format(echo(raw))


@pytest.mark.parametrize("tool", ["kp_get_note", "kp_related"])
@pytest.mark.parametrize("raw", [pytest.param("path:", id="J16-1"), pytest.param("/etc/hosts", id="J16-7")])
def test_an_id_without_a_path_is_none(ground: Ground, tool: str, raw: str) -> None:
    said = ground.call(tool, id=raw)
    assert (said.is_error, said.text) == (
        True,
        f"'{raw}' is not a note id; use curio:…, zotero:…, kp:… or path:Folder/Note.md.",
    )


@pytest.mark.parametrize("rows", ["J44"])
def test_an_id_does_not_tell_what_lies_outside(ground: Ground, rows: str) -> None:
    there, missing = str(ground.base / "canary.md"), str(ground.base / "nothing.md")
    for one, other in ((there, missing), ("../canary.md", "../nothing.md"), ("J18.md", "J99.md")):
        told = [ground.call("kp_get_note", id=f"path:{raw}").text.replace(echo(raw), "X") for raw in (one, other)]
        assert told[0] == told[1]


# what is a folder, or nothing, is a mistake for read_note alone


@pytest.mark.parametrize(
    "raw, sentence, listed",
    [
        pytest.param("a/", NO_PATH[0].format("a/"), ["a/b.md", "a/x.md"], id="J04-4"),
        pytest.param("J26.md", "'J26.md' can't be read: it is a folder.", ["J26.md/inside.md"], id="J26"),
    ],
)
def test_a_folder_is_listed_and_not_read(ground: Ground, raw: str, sentence: str, listed: list[str]) -> None:
    said = ground.call("read_note", path=raw)
    assert (said.is_error, said.text) == (True, sentence)
    assert ground.call("list_notes", folder=raw).text.split("\n")[1:] == listed


@pytest.mark.parametrize("arguments", [pytest.param({"path": ""}, id="J16-1"), pytest.param({}, id="J16-6")])
def test_no_path_at_all_is_a_mistake(ground: Ground, arguments: dict[str, str]) -> None:
    said = ground.call("read_note", **arguments)
    assert (said.is_error, said.text) == (True, "path: is required.")


@pytest.mark.parametrize(
    "escaped",
    [
        pytest.param(rb"\ud800.md", id="J35-1"),
        pytest.param(rb"a/\udcff.md", id="J35-2"),
        pytest.param(rb"\ude00\ud83d.md", id="J35-3"),  # halves in the wrong order
        pytest.param(b"\xed\xa0\x80.md", id="J35-4"),
        pytest.param(b"J36-\xff.md", id="J35-5"),  # the bytes of a name on the disk
    ],
)
def test_half_a_character_is_refused_before_any_tool(ground: Ground, escaped: bytes) -> None:
    for tool, argument in (("read_note", "path"), ("list_notes", "folder"), ("search_notes", "query")):
        reply = ground.post(wire.tool(tool, **{argument: "@"}).replace(b"@", escaped))
        assert reply.status == 400
        assert reply.json()["error"]["code"] == -32700


# what the disk holds


@pytest.mark.parametrize(
    "raw", [pytest.param("J21.md", id="J21"), pytest.param("J24.md", id="J24"), pytest.param("J25.md", id="J25")]
)
def test_nothing_that_waits_is_opened(ground: Ground, raw: str) -> None:
    seconds: list[float] = []
    for _ in range(3):  # one of them may meet a busy machine
        begin = time.monotonic()
        assert ground.call("read_note", path=raw).is_error
        seconds.append(time.monotonic() - begin)
    assert min(seconds) < AT_ONCE_S


def test_the_list_holds_notes_of_the_vault_and_nothing_else(ground: Ground) -> None:
    assert [path for path in ground.listed() if not path.startswith("J39")] == [
        "J26.md/inside.md", "J40.md", "Notes/r\u00e9sum\u00e9.md", "a.md", "a/b.md", "a/x.md", "b.md", "note.md",
    ]  # fmt: skip


@pytest.mark.parametrize("row", ["J36"])
@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8 exist on Linux only")
def test_a_name_that_is_not_utf8_is_skipped_with_one_warning(both: tuple[Ground, Daemon], row: str) -> None:
    ground, daemon = both
    skipped = ground.skipped()
    for shown in ("J36-\\xff.md", "J36-\\xfe"):
        assert skipped[shown] == "its name is not UTF-8"
        assert daemon.stderr().count(f"skipped {shown}: ") == 1
        assert ground.call("read_note", path=shown).is_error


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param("Notes/re\u0301sume\u0301.md", id="J38-1"),
        pytest.param("Notes/r\u00e9sume\u0301.md", id="J38-2"),
    ],
)
def test_another_unicode_form_finds_the_same_note(ground: Ground, raw: str) -> None:
    other, own = ground.call("read_note", path=raw), ground.call("read_note", path="Notes/r\u00e9sum\u00e9.md")
    assert not own.is_error
    assert (other.text, other.meta) == (own.text, own.meta)
    by_id = ground.call("kp_get_note", id=f"path:{raw}")
    assert json.loads(by_id.text)["id"] == "path:Notes/r\u00e9sum\u00e9.md"


@pytest.mark.parametrize("raw", [pytest.param("J40.md", id="J40")])
def test_a_hard_link_is_a_file_of_the_vault(ground: Ground, raw: str) -> None:
    assert ground.call("read_note", path=raw).text == OUTSIDE_WORD
    assert ground.found(OUTSIDE_WORD) == [raw]


@pytest.mark.parametrize(
    "raw, why",
    [
        pytest.param("..", NO_PATH, id="J41-1"),
        pytest.param("/", NO_PATH, id="J41-2"),
        pytest.param(".obsidian", HIDDEN, id="J41-3"),
        pytest.param("J19", HIDDEN, id="J41-4"),
        pytest.param("J19/deep", HIDDEN, id="J41-5"),
        pytest.param("J20", HIDDEN, id="J41-6"),
        pytest.param("J21", HIDDEN, id="J41-7"),
        pytest.param("../", NO_PATH, id="J41-8"),
        pytest.param("a/..", NO_PATH, id="J41-9"),
        pytest.param("a/.b", HIDDEN, id="J41-10"),
        pytest.param("../outside", NO_PATH, id="J41-11"),
        pytest.param("BASE/outside", NO_PATH, id="J41-12"),
        pytest.param(".obsidian/plugins", HIDDEN, id="J41-13"),
    ],
)
def test_a_folder_that_is_no_folder_of_the_vault_is_not_listed(ground: Ground, raw: str, why: tuple[str, str]) -> None:
    test_list_notes_refuses_as_a_folder(ground, raw, why)


@pytest.mark.parametrize("row", ["J42"])
def test_nothing_behind_a_link_is_indexed(ground: Ground, row: str) -> None:
    links = {f"{row}.md": ground.outside / "x.md", row: ground.outside, f"a/{row}": Path("../../outside")}
    made = [*links, f"{row}-later.md"]
    with for_a_moment(*(ground.vault / name for name in made), seen_by=[ground]):
        for name, target in links.items():
            (ground.vault / name).symlink_to(target)
        write(ground.vault, f"{row}-later.md", "later 5521")
        ground.until_found("later 5521", [f"{row}-later.md"])  # what came before it was seen, too
        ground.settled()
        assert ground.found(LURE) == []
        assert ground.admin(f"search?k=100&q={LURE}")["results"] == []
        assert json.loads(ground.call("kp_search", query=LURE).text)["results"] == []
        recent = json.loads(ground.call("kp_recent").text)["notes"]
        assert {note["path"] for note in recent} <= set(ground.listed())
        assert not [path for path in ground.listed() if "deep" in path or "canary" in path or path == f"{row}.md"]
        assert "link" in ground.skipped()[f"{row}.md"]


@pytest.mark.parametrize(
    "there, nowhere",
    [
        pytest.param("../canary.md", "../nowhere.md", id="J44-1"),
        pytest.param("BASE/canary.md", "BASE/nowhere.md", id="J44-2"),
        pytest.param("../canary.md", "BASE/canary.md", id="J44-3"),
        pytest.param("J19/x.md", "J19/nowhere.md", id="J44-4"),
        pytest.param("J19/x.md", "nowhere/x.md", id="J44-5"),
        pytest.param("J18.md", "J22.md", id="J44-6"),
        pytest.param(".obsidian/x.md", ".obsidian/nowhere.md", id="J44-7"),
        pytest.param(".hidden.md", ".nowhere.md", id="J44-8"),
        pytest.param("image.png", "nowhere.png", id="J44-9"),
        pytest.param("~/x.md", "~/nowhere.md", id="J44-10"),
    ],
)
def test_an_error_does_not_tell_what_exists(ground: Ground, there: str, nowhere: str) -> None:
    for tool, argument in (("read_note", "path"), ("list_notes", "folder")):
        sentences: set[str] = set()
        for raw in (fill(there, ground), fill(nowhere, ground)):
            said = ground.call(tool, **{argument: raw})
            assert said.is_error
            sentences.add(said.text.replace(echo(raw), "PATH"))
        assert len(sentences) == 1


@pytest.mark.parametrize("row", ["J23"])
def test_a_vault_given_as_a_link_is_resolved_once(ground: Ground, second: Ground, row: str) -> None:
    assert second.call("read_note", path="a.md").text == INSIDE
    for path in ("x.md", "canary.md"):  # where the link leads now
        assert second.call("read_note", path=path).text == NO_NOTE[0].format(path)
    assert second.found(LURE) == []
    with for_a_moment(second.vault / f"{row}.md", seen_by=[ground, second]):
        write(second.vault, f"{row}.md", "later 3307")
        second.until_found("later 3307", [f"{row}.md"])  # the watcher did not follow it either
        ground.until_found("later 3307", [f"{row}.md"])


@pytest.fixture
def device(ground: Ground) -> str:
    """A note on another device."""
    if not (ground.vault / "J39").exists():
        pytest.skip("mounting is not permitted here")
    return "J39/x.md"


@pytest.mark.parametrize("row", ["J39-1"])
def test_another_device_in_the_vault_is_refused(ground: Ground, device: str, row: str) -> None:
    said = ground.call("read_note", path=device)
    assert (said.is_error, said.text) == (True, f"'{device}' can't be read: it is on another device.")
    assert ground.call("list_notes", folder="J39").text == NO_NOTE[1].format("J39")
    assert device not in ground.listed()
    assert ground.found(ELSEWHERE) == []
    assert "another device" in ground.skipped()["J39"]


@pytest.mark.parametrize("row", ["J39-2"])
def test_another_device_is_read_where_the_setting_allows_it(second: Ground, device: str, row: str) -> None:
    assert second.call("read_note", path=device).text == ELSEWHERE
    assert second.call("list_notes", folder="J39").text.split("\n")[1:] == [device]
    assert second.found(ELSEWHERE) == [device]


def permissions_bite() -> Sequence[str]:
    """A command under which root meets permissions, too."""
    if os.geteuid() != 0:
        return ()
    if not shutil.which("setpriv"):
        pytest.skip("permissions do not bind root, and setpriv is not here to change that")
    rights = "-dac_override,-dac_read_search"
    return ("setpriv", "--bounding-set", rights, "--inh-caps", rights)


@pytest.mark.parametrize("row", ["J43"])
def test_what_can_not_be_read_is_an_error_and_nothing_else(tmp_path: Path, row: str) -> None:
    base = tmp_path / "base"
    closed = write(base / "vault", f"{row}.md", "closed 2281")
    folder = write(base / "vault", "closed/x.md", "closed 2281").parent
    write(base / "vault", "a.md")
    closed.chmod(0)
    folder.chmod(0)
    with served(base, tmp_path / "state", under=permissions_bite()) as (ground, _):
        for path in (f"{row}.md", "closed/x.md"):
            said = ground.call("read_note", path=path)
            assert (said.is_error, said.text) == (True, f"'{path}' can't be read: permission denied.")
        assert ground.call("list_notes", folder="closed").text == "No notes in closed."
        assert ground.call("read_note", path="a.md").text == INSIDE
        assert ground.found("closed 2281") == []
        assert set(ground.skipped()) == {f"{row}.md", "closed"}
        folder.chmod(0o700)
        closed.chmod(0o600)
        ground.until_found("closed 2281", [f"{row}.md", "closed/x.md"])
