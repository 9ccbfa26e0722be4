from __future__ import annotations

import gc
import os
import random
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sidecar.errors import BadPath, NotFound, SidecarError, TooLarge, Unreadable
from sidecar.vault.contents import is_elsewhere
from sidecar.vault.ignore import IgnoreRules
from sidecar.vault.jail import FileStat, Found, Jail, Trouble
from sidecar.vault.paths import VaultPath
from sidecar.vault.respelled import differs_in_case
from tests.vault.conftest import CANARY, EVERYTHING, Ground, read, shows, walked
from tests.vault.test_paths import NO_NOTES, NO_PATH, REFUSED

GONE = "The vault folder is missing, or another one is in its place."
A_LINK = "it is a link, and links are not followed"


def refusal(call: Callable[[], object]) -> str:
    """The sentence of a refused call; the canary is in none."""
    with pytest.raises(SidecarError) as refused:
        call()
    sentence = str(refused.value)
    assert CANARY.decode() not in sentence
    return sentence


# reading


def test_a_note_is_read_byte_for_byte_with_its_status(ground: Ground, jail: Jail) -> None:
    data = "\ufeffa\r\nb\u2028".encode() + b"\xff\x00"
    file = ground.write("Projects/Über 50%.md", data)
    note = jail.read(VaultPath.note("Projects/Über 50%.md"), max_bytes=100)
    status = file.stat()
    assert note.data == data
    assert note.stat == FileStat(status.st_mtime_ns, len(data), status.st_ctime_ns, status.st_ino)
    assert jail.stat(VaultPath.note("Projects/Über 50%.md")) == note.stat


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 300_000])
def test_every_size_is_read_whole(ground: Ground, jail: Jail, size: int) -> None:
    data = random.Random(size).randbytes(size)
    ground.write("a.md", data)
    assert read(jail, "a.md") == data


def test_a_note_over_the_limit_is_refused_and_one_at_the_limit_read(ground: Ground, jail: Jail) -> None:
    ground.write("Big.md", bytes((1 << 20) + 1))
    sentence = refusal(lambda: read(jail, "Big.md", max_bytes=1 << 20))
    assert sentence == "'Big.md' is larger than 1 MiB."
    with pytest.raises(TooLarge, match=r"is larger than 0\.5 MiB"):
        read(jail, "Big.md", max_bytes=1 << 19)
    assert len(read(jail, "Big.md", max_bytes=(1 << 20) + 1)) == (1 << 20) + 1


@shows("N16")
def test_100_mib_are_refused_without_reading_them(ground: Ground, jail: Jail, monkeypatch: pytest.MonkeyPatch) -> None:
    with ground.write("N16.md").open("wb") as file:
        file.truncate(100 << 20)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("nothing may be read"))
    assert refusal(lambda: read(jail, "N16.md", max_bytes=32 << 20)) == "'N16.md' is larger than 32 MiB."


def test_a_note_that_changes_while_it_is_read_is_read_again(
    ground: Ground, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ground.write("a.md", b"old text")
    plain_read = os.read

    def read_and_save_in_place(descriptor: int, size: int) -> bytes:
        monkeypatch.setattr(os, "read", plain_read)
        half = plain_read(descriptor, 4)
        file.write_bytes(b"a newer and longer text")
        return half + plain_read(descriptor, size)

    monkeypatch.setattr(os, "read", read_and_save_in_place)
    note = jail.read(VaultPath.note("a.md"), max_bytes=100)
    assert note.data == b"a newer and longer text"
    assert note.stat == jail.stat(VaultPath.note("a.md"))


def test_a_note_that_never_rests_is_given_as_last_read_and_looks_changed(
    ground: Ground, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ground.write("a.md", b"")
    plain_read = os.read
    reads = 0

    def read_and_append(descriptor: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        data = plain_read(descriptor, size)
        with file.open("ab") as more:
            more.write(b"x")
        return data

    monkeypatch.setattr(os, "read", read_and_append)
    note = jail.read(VaultPath.note("a.md"), max_bytes=100)
    assert 0 < reads < 20
    assert note.data == b"x" * (reads - 1)
    assert note.stat != jail.stat(VaultPath.note("a.md"))


def test_a_note_that_grows_over_the_limit_while_it_is_read_is_refused(
    ground: Ground, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ground.write("a.md", b"x" * 90)
    plain_read = os.read

    def grow_and_read(descriptor: int, size: int) -> bytes:
        file.write_bytes(b"y" * 100_000)
        return plain_read(descriptor, size)

    monkeypatch.setattr(os, "read", grow_and_read)
    with pytest.raises(TooLarge):
        read(jail, "a.md", max_bytes=100)


# rows of the catalogue


@pytest.mark.parametrize("raw", [*REFUSED, *NO_NOTES])
def test_what_is_refused_as_text_is_refused_by_the_door_as_well(ground: Ground, jail: Jail, raw: str) -> None:
    ground.write("b.md")
    ground.write("a/b.md")
    with pytest.raises((BadPath, NotFound)):
        read(jail, raw)
    with pytest.raises((NotFound, Unreadable)):
        jail.read(VaultPath(raw), max_bytes=100)  # as if the check of the text had been forgotten


@shows("J05-J06")
def test_absolute_paths_are_refused_also_of_notes_in_the_vault(ground: Ground, jail: Jail) -> None:
    inside = ground.write("a.md")
    for path in (inside, ground.outside / "canary.md", ground.outside / "none.md"):
        assert NO_PATH in refusal(lambda path=path: read(jail, str(path)))
        with pytest.raises(NotFound):
            jail.read(VaultPath(str(path)), max_bytes=100)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param("~/x.md", id="J08"),
        pytest.param("$HOME/x.md", id="J08-variable"),
        pytest.param("%2e%2e/canary.md", id="J13"),
        pytest.param("OBSIDI~1/x.md", id="J31"),
        pytest.param("a／..／..／x.md", id="J37"),
        pytest.param("a/x.md/y.md", id="file-as-folder"),
        pytest.param("A/X.MD", id="other-case"),
    ],
)
def test_odd_names_are_taken_literally_and_are_not_found(ground: Ground, jail: Jail, raw: str) -> None:
    ground.write("a/x.md")
    ground.write(".obsidian/x.md")
    assert refusal(lambda: read(jail, raw)) == f"There is no note '{raw}'."
    assert jail.kind(VaultPath.note(raw)) == "missing"


def links(ground: Ground) -> None:
    ground.write("in.md")
    ground.write("sub/a.md")
    for name, target in {
        "J18.md": ground.outside / "canary.md",
        "J19": ground.outside,
        "J20.md": Path("in.md"),
        "J20": Path("sub"),
        "J21.md": Path("J21.md"),
        "J21": Path("."),
        "J21-a": Path("J21-b"),
        "J21-b": Path("J21-a"),
        "J22.md": ground.outside / "none.md",
    }.items():
        (ground.vault / name).symlink_to(target)


@pytest.mark.parametrize("raw", ["J18.md", "J20.md", "J21.md", "J22.md"])
def test_a_link_is_not_followed(ground: Ground, jail: Jail, raw: str) -> None:
    links(ground)
    assert refusal(lambda: read(jail, raw)) == f"'{raw}' can't be read: {A_LINK}."
    assert refusal(lambda: jail.stat(VaultPath.note(raw))) == f"'{raw}' can't be read: {A_LINK}."
    assert jail.kind(VaultPath.note(raw)) == "other"


@pytest.mark.parametrize("raw", ["J19/canary.md", "J19/none.md", "J20/a.md", "J21/in.md", "J21-a/in.md", "J18.md/x.md"])
def test_a_folder_that_is_a_link_leads_nowhere(ground: Ground, jail: Jail, raw: str) -> None:
    links(ground)
    path = VaultPath.note(raw)
    assert refusal(lambda: read(jail, raw)) == f"There is no note '{raw}'."
    assert refusal(lambda: jail.stat(path)) == f"There is no note '{raw}'."
    assert jail.kind(path) == "missing"
    folder = path.parent.text
    assert refusal(lambda: walked(jail, folder)) == f"There is no folder '{folder}' in the vault."


@shows("J23")
def test_a_vault_given_as_a_link_is_resolved_once(ground: Ground, tmp_path: Path) -> None:
    ground.write("J23.md", "inside")
    link = tmp_path / "link"
    link.symlink_to(ground.vault)
    jail = Jail(link)
    link.unlink()
    link.symlink_to(ground.outside)
    assert jail.root == ground.vault.resolve()
    assert read(jail, "J23.md") == b"inside"
    jail.close()


def special_files(vault: Path) -> Iterator[str]:
    """FIFO, socket and, where it is allowed, a device; all named like notes."""
    os.mkfifo(vault / "J24.md")
    yield "J24.md"
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(vault)  # a socket's path must be short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("J25.md")
    finally:
        os.fchdir(here)
        os.close(here)
    yield "J25.md"
    try:
        os.mknod(vault / "J25-device.md", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        return
    yield "J25-device.md"


@shows("J24-J25")
@pytest.mark.timeout(60)
def test_what_is_no_regular_file_is_refused_at_once(ground: Ground, jail: Jail) -> None:
    names = list(special_files(ground.vault))
    for name in names:
        # a device may also be refused by the mount
        assert refusal(lambda name=name: read(jail, name)).startswith(f"'{name}' can't be read: ")
        assert refusal(lambda name=name: jail.stat(VaultPath.note(name))).endswith("it is not a regular file.")
        assert jail.kind(VaultPath.note(name)) == "other"
    assert refusal(lambda: read(jail, "J24.md")) == "'J24.md' can't be read: it is not a regular file."
    notes, troubles = walked(jail)
    assert notes == set()
    assert {(trouble.shown, trouble.reason, trouble.lost) for trouble in troubles} == {
        (name, "it is not a regular file", False) for name in names
    }


@shows("J26")
def test_a_folder_with_the_name_of_a_note_is_no_note(ground: Ground, jail: Jail) -> None:
    ground.write("J26.md/inside.md", "inside")
    assert refusal(lambda: read(jail, "J26.md")) == "'J26.md' can't be read: it is a folder."
    assert jail.kind(VaultPath.note("J26.md")) == "folder"
    assert read(jail, "J26.md/inside.md") == b"inside"
    assert walked(jail) == ({"J26.md/inside.md"}, [])


@shows("J36")
def test_a_name_that_is_not_utf8_is_skipped_with_one_trouble(ground: Ground, jail: Jail) -> None:
    ground.write("a.md")
    try:
        (ground.vault / os.fsdecode(b"J36-\xff.md")).write_bytes(b"x")
        (ground.vault / os.fsdecode(b"J36-\xfe")).mkdir()
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    (ground.vault / os.fsdecode(b"J36-\xfd.png")).write_bytes(b"x")
    notes, troubles = walked(jail)
    assert notes == {"a.md"}
    assert {(trouble.path, trouble.shown, trouble.reason, trouble.lost) for trouble in troubles} == {
        (None, "J36-\\xff.md", "its name is not UTF-8", False),
        (None, "J36-\\xfe", "its name is not UTF-8", False),
    }


@shows("J38")
def test_the_other_unicode_form_never_reaches_a_second_note(ground: Ground, jail: Jail) -> None:
    ground.write("J38 \u00e9.md", "nfc")
    try:
        found = read(jail, "J38 e\u0301.md")
    except NotFound:
        return
    assert found == b"nfc"


@contextmanager
def a_folder_on_another_device(device: Path) -> Iterator[Path]:
    """A folder with a note on what is mounted at `device`."""
    if not device.is_dir() or device.stat().st_dev == device.parent.stat().st_dev or not os.access(device, os.W_OK):
        pytest.skip(f"{device} is no mount that can be written to")
    with tempfile.TemporaryDirectory(dir=device) as folder:
        (Path(folder) / "J39.md").write_bytes(b"elsewhere")
        yield Path(folder)


@shows("J39")
def test_another_device_is_refused_unless_it_is_allowed() -> None:
    with a_folder_on_another_device(Path("/dev/shm")) as folder:
        raw = f"shm/{folder.name}/J39.md"
        path = VaultPath.note(raw)
        jail = Jail(Path("/dev"))
        assert refusal(lambda: read(jail, raw)) == f"'{raw}' can't be read: it is on another device."
        assert refusal(lambda: jail.stat(path)) == f"'{raw}' can't be read: it is on another device."
        assert (jail.kind(path), jail.kind(path.parent)) == ("other", "other")
        with pytest.raises(NotFound):
            walked(jail, path.parent.text)
        jail.close()
        jail = Jail(Path("/dev"), other_devices=True)
        assert read(jail, raw) == b"elsewhere"
        assert (jail.kind(path), jail.kind(path.parent)) == ("note", "folder")
        assert walked(jail, path.parent.text) == ({raw}, [])
        jail.close()


@shows("J39")
def test_a_walk_reports_what_is_mounted_inside() -> None:
    with a_folder_on_another_device(Path("/dev/shm")):
        jail = Jail(Path("/dev"))
        notes, troubles = walked(jail)
        assert not any(note.startswith("shm/") for note in notes)
        assert ("shm", "it is on another device", False) in {(t.shown, t.reason, t.lost) for t in troubles}
        jail.close()


@shows("J40")
def test_a_hard_link_to_an_outside_file_can_be_read(ground: Ground, jail: Jail) -> None:
    (ground.outside / "J40.md").write_bytes(b"shared")
    os.link(ground.outside / "J40.md", ground.vault / "J40.md")
    assert read(jail, "J40.md") == b"shared"


@contextmanager
def without_rights(ground: Ground) -> Iterator[Jail]:
    """A jail used by somebody whom permissions concern: root becomes nobody for a moment."""
    if os.geteuid() != 0:
        jail = Jail(ground.vault)
        yield jail
        jail.close()
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        vault = Path(folder) / "vault"
        ground.vault.rename(vault)
        vault.chmod(0o755)
        os.seteuid(65534)
        try:
            if not os.access(vault, os.R_OK, effective_ids=True):
                pytest.skip("nobody can't reach the temporary folder")
            jail = Jail(vault)
            yield jail
            jail.close()
        finally:
            os.seteuid(0)


@shows("J43")
def test_an_unreadable_note_is_an_error_and_nothing_else(ground: Ground) -> None:
    ground.write("J43.md").chmod(0)
    ground.write("b.md", "readable").chmod(0o644)
    with without_rights(ground) as jail:
        assert refusal(lambda: read(jail, "J43.md")) == "'J43.md' can't be read: permission denied."
        assert jail.kind(VaultPath.note("J43.md")) == "note"
        assert read(jail, "b.md") == b"readable"
        assert walked(jail) == ({"J43.md", "b.md"}, [])


def test_an_unreadable_folder_means_that_the_walk_has_lost_something(ground: Ground) -> None:
    ground.write("closed/a.md")
    ground.write("listed only/a.md")
    ground.write("b.md")
    (ground.vault / "closed").chmod(0)
    (ground.vault / "listed only").chmod(0o444)
    with without_rights(ground) as jail:
        notes, troubles = walked(jail)
        assert notes == {"b.md"}
        assert {(trouble.shown, trouble.reason, trouble.lost) for trouble in troubles} == {
            ("closed", "permission denied", True),
            ("listed only/a.md", "permission denied", True),
        }
        assert refusal(lambda: read(jail, "closed/a.md")) == "'closed/a.md' can't be read: permission denied."
        assert refusal(lambda: jail.kind(VaultPath.note("closed/a.md"))).endswith("permission denied.")


def test_a_vault_that_can_not_be_opened_is_an_error(ground: Ground) -> None:
    file = ground.write("a.md")
    loop = ground.vault / "loop"
    loop.symlink_to(loop)
    for root in (ground.vault / "none", file, loop):
        sentence = refusal(lambda root=root: Jail(root))
        assert str(ground.vault) not in sentence


@shows("J44")
def test_errors_do_not_tell_what_exists_outside(ground: Ground, jail: Jail) -> None:
    (ground.vault / "link").symlink_to(ground.outside)
    (ground.vault / "there.md").symlink_to(ground.outside / "canary.md")
    (ground.vault / "nowhere.md").symlink_to(ground.outside / "none.md")
    for there, nowhere in [
        ("../canary.md", "../none.md"),
        (str(ground.outside / "canary.md"), str(ground.outside / "none.md")),
        ("link/canary.md", "link/none.md"),
        ("there.md", "nowhere.md"),
    ]:
        first, second = (
            refusal(lambda there=there: read(jail, there)),
            refusal(lambda nowhere=nowhere: read(jail, nowhere)),
        )
        assert first.replace(there, "") == second.replace(nowhere, "")


def test_no_call_leaves_a_descriptor_behind(ground: Ground, jail: Jail) -> None:
    links(ground)
    list(special_files(ground.vault))
    ground.write("a/b/c.md")

    asked = ("in.md", "a/b/c.md", "none.md", "a/none/x.md", "J18.md", "J19/canary.md", "J24.md", "J25.md", "a.md/x")

    def everything() -> None:
        for raw in asked:
            for call in (jail.kind, jail.stat, lambda path: jail.read(path, max_bytes=2)):
                with suppress(SidecarError):
                    call(VaultPath(raw))
        walked(jail)
        next(jail.walk(VaultPath.root(), EVERYTHING))

    everything()
    gc.collect()  # what tests before this one left open is not closed meanwhile
    before = os.listdir("/dev/fd")
    everything()
    assert os.listdir("/dev/fd") == before


def test_content_that_is_elsewhere_is_told_by_the_flags_of_the_file() -> None:
    assert is_elsewhere(0x40000000, 0)
    assert is_elsewhere(0, 0x00400000)
    assert is_elsewhere(0, 0x00001020)
    assert not is_elsewhere(0x00008020, 0x00000020)


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="this system does not tell holes in files")
def test_a_file_with_a_size_and_no_content_is_a_place_holder(jail: Jail, ground: Ground) -> None:
    hollow = ground.write("hollow.md", b"")
    os.truncate(hollow, 5000)
    if hollow.stat().st_blocks:
        pytest.skip("this file system fills holes")
    with pytest.raises(Unreadable, match="it is not downloaded to this computer"):
        jail.read(VaultPath("hollow.md"), max_bytes=1 << 20)
    with hollow.open("r+b") as file:
        file.write(b"here again")
    assert jail.read(VaultPath("hollow.md"), max_bytes=1 << 20).data == b"here again".ljust(5000, b"\0")


def test_another_case_is_told_from_another_name() -> None:
    assert differs_in_case(("Projects", "Plan.md"), ("projects", "plan.md"))
    assert differs_in_case(("Ü.md",), ("u\u0308.md",))
    assert not differs_in_case(("Projects", "Plan.md"), ("Projects", "Plan.md"))
    assert not differs_in_case(("U\u0308.md",), ("Ü.md",))
    assert not differs_in_case(("Other.md",), ("Plan.md",))  # a hard link


# walking


@shows("W32")
def test_a_walk_finds_the_notes_and_nothing_else(ground: Ground, jail: Jail) -> None:
    wanted = {
        "a.md", "SHOUT.MD", "Projects/Plan.md", "folder.md/inside.md", "Projects/Über/x.md", "12:30 meeting.md",
        "back\\slash.md", "new\nline.md", "a..b/c.. .md", " lead.md", "\u202egpj.evil.md",
    }  # fmt: skip
    unwanted = (
        ".hidden.md", "..md", ".obsidian/a.md", ".trash/x.md", ".kp/proposals/1/a.md", "Projects/.x/y.md", "a.txt",
        "b.md~", "c.md.tmp", "board.canvas", ".Plan.md.icloud", ".x.md.7f3a.tmp", "\u200b.hidden/x.md",
    )  # fmt: skip
    for path in (*wanted, *unwanted):
        ground.write(path)
    (ground.vault / "empty").mkdir()
    assert walked(jail) == (wanted, [])
    assert walked(jail, "Projects/") == ({"Projects/Plan.md", "Projects/Über/x.md"}, [])
    assert walked(jail, "empty") == (set(), [])


def test_the_status_of_a_walk_is_the_status_of_a_read(ground: Ground, jail: Jail) -> None:
    ground.write("a/b.md")
    (found,) = jail.walk(VaultPath.root(), EVERYTHING)
    assert isinstance(found, Found)
    assert found.stat == jail.read(found.path, max_bytes=100).stat


@shows("J42")
def test_links_are_not_walked_and_those_named_like_notes_are_reported(ground: Ground, jail: Jail) -> None:
    links(ground)
    notes, troubles = walked(jail)
    assert notes == {"in.md", "sub/a.md"}
    assert {(trouble.shown, trouble.reason, trouble.lost) for trouble in troubles} == {
        (name, A_LINK, False) for name in ("J18.md", "J20.md", "J21.md", "J22.md")
    }


def test_what_kpignore_names_is_not_walked(ground: Ground, jail: Jail) -> None:
    for path in ("a.md", "Templates/t.md", "x/Templates/t.md", "x/b.draft.md", "x/c.md"):
        ground.write(path)
    (ground.vault / "link.draft.md").symlink_to("a.md")
    rules = IgnoreRules.parse("Templates/\n*.draft.md\n")
    assert walked(jail, ignored=rules) == ({"a.md", "x/c.md"}, [])


@shows("N30")
def test_a_walk_ends_in_200_folders_and_stops_before_paths_get_too_deep(ground: Ground, jail: Jail) -> None:
    deep = ground.vault.joinpath(*["N30"] * 200)
    deep.mkdir(parents=True)
    (deep / "a.md").write_bytes(b"deep")
    path = "N30/" * 200 + "a.md"
    assert walked(jail) == ({path}, [])
    assert read(jail, path) == b"deep"
    deeper = deep.joinpath(*["x"] * 55)  # 255 folders
    deeper.mkdir(parents=True)
    (deeper / "b.md").write_bytes(b"deeper")
    (deeper / "x").mkdir()
    notes, (trouble,) = walked(jail)
    lowest = "N30/" * 200 + "x/" * 55 + "b.md"
    assert notes == {path, lowest}
    assert read(jail, lowest) == b"deeper"
    assert (trouble.reason, trouble.lost) == ("it lies too deep", False)


def make_long(root: Path, name: str, folders: int) -> str:
    """A note below so many folders of this name, made without ever saying its path; the path."""
    folder = os.open(root, os.O_RDONLY)
    for _ in range(folders):
        os.mkdir(name, dir_fd=folder)
        below = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("a.md", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    return f"{name}/" * folders + "a.md"


def test_a_walk_finds_no_path_that_is_longer_than_one_may_ask_for(ground: Ground, jail: Jail) -> None:
    fits = make_long(ground.vault, "x" * 250, 16)
    too_long = make_long(ground.vault, "é" * 125, 17)
    notes, troubles = walked(jail)
    assert notes == {fits}
    assert read(jail, fits) == b""
    assert [(trouble.reason, trouble.lost) for trouble in troubles] == [("it lies too deep", False)]
    with pytest.raises(BadPath):
        VaultPath.found(too_long)


def test_a_walk_that_begins_too_deep_finds_nothing(ground: Ground, jail: Jail) -> None:
    path = VaultPath(make_long(ground.vault, "x", 300)).parent
    found = list(jail.walk(path, EVERYTHING))
    assert [(entry.reason, entry.lost) for entry in found if isinstance(entry, Trouble)] == [
        ("it lies too deep", False)
    ]
    assert not [entry for entry in found if isinstance(entry, Found)]


@shows("J41")
def test_a_folder_that_is_missing_or_no_folder_can_not_be_walked(ground: Ground, jail: Jail) -> None:
    ground.write("file")
    ground.write("note.md")
    (ground.vault / "link").symlink_to(ground.outside)
    for folder in ("Projcts", "file", "note.md", "link", "link/x"):
        assert refusal(lambda folder=folder: walked(jail, folder)) == f"There is no folder '{folder}' in the vault."


def test_what_vanishes_during_a_walk_is_left_out(ground: Ground, jail: Jail) -> None:
    for number in range(20):
        ground.write(f"{number}/a.md")
    walk = jail.walk(VaultPath.root(), EVERYTHING)
    first = next(walk)
    assert isinstance(first, Found)
    for number in range(20):
        if first.path.parent.text != str(number):
            (ground.vault / str(number) / "a.md").unlink()
            (ground.vault / str(number)).rmdir()
    assert list(walk) == []


def test_the_ignore_file_is_read_through_the_jail(ground: Ground, jail: Jail) -> None:
    with pytest.raises(NotFound):
        jail.read_ignore_file()
    ground.write(".kpignore", "Templates/\n")
    assert jail.read_ignore_file() == b"Templates/\n"
    (ground.vault / ".kpignore").unlink()
    (ground.vault / ".kpignore").symlink_to(ground.outside / "canary.md")
    assert refusal(jail.read_ignore_file) == f"'.kpignore' can't be read: {A_LINK}."


# the vault itself goes away


def every_call(jail: Jail) -> list[Callable[[], object]]:
    path = VaultPath.note("a.md")
    return [lambda: read(jail, "a.md"), lambda: jail.stat(path), lambda: jail.kind(path), lambda: walked(jail)]


def test_a_vault_that_is_moved_away_is_an_error_until_it_is_back(ground: Ground, jail: Jail, tmp_path: Path) -> None:
    ground.write("a.md")
    ground.vault.rename(tmp_path / "moved")
    assert {refusal(call) for call in every_call(jail)} == {GONE}
    assert refusal(jail.reopen) == GONE
    (tmp_path / "moved").rename(ground.vault)
    assert walked(jail) == ({"a.md"}, [])
    assert read(jail, "a.md") == b"text\n"


def test_a_vault_that_is_replaced_is_an_error_until_it_is_opened_again(
    ground: Ground, jail: Jail, tmp_path: Path
) -> None:
    ground.write("a.md")
    ground.vault.rename(tmp_path / "moved")
    ground.vault.mkdir()
    assert {refusal(call) for call in every_call(jail)} == {GONE}
    ground.write("b.md", "new")
    jail.reopen()
    assert walked(jail) == ({"b.md"}, [])
    assert read(jail, "b.md") == b"new"


def test_a_vault_that_becomes_a_link_is_an_error_and_is_not_opened_again(
    ground: Ground, jail: Jail, tmp_path: Path
) -> None:
    ground.write("a.md")
    ground.vault.rename(tmp_path / "moved")
    ground.vault.symlink_to(ground.outside)
    assert {refusal(call) for call in every_call(jail)} == {GONE}
    assert CANARY.decode() not in refusal(jail.reopen)
    assert {refusal(call) for call in every_call(jail)} == {GONE}


@contextmanager
def jail_below(above: Path) -> Iterator[Jail]:
    """The jail of `above / "vault"`, which has one note."""
    (above / "vault").mkdir(parents=True)
    (above / "vault/a.md").write_text("text")
    jail = Jail(above / "vault")
    try:
        yield jail
    finally:
        jail.close()


def lay_another(elsewhere: Path) -> None:
    """A folder that looks like the vault of `jail_below`, with a secret in it."""
    (elsewhere / "vault").mkdir(parents=True)
    (elsewhere / "vault/a.md").write_bytes(CANARY)


def test_a_link_in_the_place_of_a_folder_above_leads_to_no_other_vault(tmp_path: Path) -> None:
    above = tmp_path / "above"
    lay_another(tmp_path / "elsewhere")
    with jail_below(above) as jail:
        above.rename(tmp_path / "moved")
        above.symlink_to(tmp_path / "elsewhere")
        for _ in range(2):
            assert {refusal(call) for call in every_call(jail)} == {GONE}
            assert refusal(jail.reopen) == GONE
        above.unlink()
        (tmp_path / "moved").rename(above)
        jail.reopen()
        assert read(jail, "a.md") == b"text"


@pytest.mark.skipif(os.name != "posix", reason="Windows goes by final paths")
def test_a_vault_whose_folder_above_was_moved_is_the_same_behind_a_link(tmp_path: Path) -> None:
    """As who moves a folder to another place in the cloud's, and leaves a link."""
    above = tmp_path / "above"
    with jail_below(above) as jail:
        above.rename(tmp_path / "moved")
        above.symlink_to(tmp_path / "moved")
        jail.reopen()
        assert read(jail, "a.md") == b"text"
        assert walked(jail) == ({"a.md"}, [])


def test_a_deleted_vault_is_an_error_and_never_an_empty_one(ground: Ground, jail: Jail) -> None:
    assert walked(jail) == (set(), [])
    ground.vault.rmdir()
    assert {refusal(call) for call in every_call(jail)} == {GONE}
    ground.vault.mkdir()
    assert {refusal(call) for call in every_call(jail)} == {GONE}


def test_a_vault_that_vanishes_during_a_walk_makes_the_walk_fail(ground: Ground, jail: Jail, tmp_path: Path) -> None:
    ground.write("a/b.md")
    walk = jail.walk(VaultPath.root(), EVERYTHING)
    next(walk)
    ground.vault.rename(tmp_path / "moved")
    assert refusal(lambda: list(walk)) == GONE


def test_reads_during_a_reopening_never_leave_the_vault(ground: Ground, jail: Jail) -> None:
    ground.write("x.md", "inside")
    stop = threading.Event()
    failures: list[object] = []

    def read_on() -> None:
        while not stop.is_set():
            try:
                if read(jail, "x.md") != b"inside":
                    failures.append("a byte from elsewhere")
            except SidecarError as bad:
                failures.append(bad)

    reader = threading.Thread(target=read_on)
    reader.start()
    for _ in range(300):
        jail.reopen()
        os.close(os.open(ground.outside, os.O_RDONLY))  # takes any number that was given up
    stop.set()
    reader.join()
    assert failures == []
