"""The registry of databases: which names and folders are taken, and what becomes of its file."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import BadArguments, NotFound, SidecarError, Unreadable
from sidecar.services.database_registry import Entry, Registry, index_of, remove_index, sweep
from sidecar.services.database_rules import Ground, name_of

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground(tmp_path / "root" / "state", tmp_path / "home" / "vault", tmp_path / "home")
    for folder in (ground.state_dir, ground.vault):
        folder.mkdir(parents=True)
    return ground


@pytest.fixture
def docs(ground: Ground) -> Path:
    folder = ground.home / "docs"
    folder.mkdir()
    return folder


def refusal(registry: Registry, ground: Ground, name: str, folder: Path | str) -> str:
    with pytest.raises(BadArguments) as refused:
        registry.add(name, str(folder), ground)
    assert list(registry.entries()) == []
    return str(refused.value)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("notes", "notes"),
        ("my notes", "my_notes"),
        ("a\tb\u00a0c", "a_b_c"),
        ("Отчёты-2026", "Отчёты-2026"),
        ("文档", "文档"),
        ("हिन्दी", "हिन्दी"),
        ("cafe\u0301", "caf\u00e9"),
        ("v1.2_x", "v1.2_x"),
        ("-", "-"),
        ("x" * 64, "x" * 64),
    ],
)
def test_names_that_are_taken(raw: str, name: str) -> None:
    assert name_of(raw) == name
    assert name_of(name) == name


@pytest.mark.parametrize("raw", ["", "../x", ".hidden", "..", "a/b", "a\\b", "x" * 65, "a\0", "a:b", "%", "a*", "😀"])
def test_names_that_are_refused(raw: str) -> None:
    with pytest.raises(BadArguments) as refused:
        name_of(raw)
    shown = "a\\u0000" if "\0" in raw else raw
    assert str(refused.value) == f"'{shown}' is not a database name; use letters, digits, _ . and -."


@given(st.text(max_size=70))
def test_a_name_is_safe_as_it_is_or_refused(raw: str) -> None:
    try:
        name = name_of(raw)
    except BadArguments:
        return
    assert 1 <= len(name) <= 64
    assert name_of(name) == name
    assert name.isprintable() and not set(name) & set('/\\:*?"<>|%') and not name.startswith(".")


def test_databases_stand_in_the_order_of_their_registration(ground: Ground, docs: Path) -> None:
    registry = Registry(ground.state_dir)
    assert list(registry.entries()) == []
    for name in ("zebra", "apple", "my docs"):
        registry.add(name, str(docs), ground)
    entries = Registry(ground.state_dir).entries()
    assert [entry.db for entry in entries] == ["zebra", "apple", "my_docs"]
    assert {entry.folder for entry in entries} == {str(docs)}
    raw = json.loads((ground.state_dir / "db.json").read_text())
    assert set(raw[0]) == {"db", "createAt", "folder"}
    if sys.platform != "win32":
        assert stat.S_IMODE((ground.state_dir / "db.json").stat().st_mode) == 0o600
    registry.remove("apple")
    assert [entry.db for entry in registry.entries()] == ["zebra", "my_docs"]
    with pytest.raises(NotFound, match="'apple' does not exist"):
        registry.remove("apple")


@pytest.mark.parametrize("again", ["Reports", "reports", "REPORTS"])
def test_a_name_is_given_once_whatever_its_case(ground: Ground, docs: Path, again: str) -> None:
    registry = Registry(ground.state_dir)
    registry.add("Reports", str(docs), ground)
    with pytest.raises(BadArguments) as refused:
        registry.add(again, str(docs), ground)
    assert str(refused.value) == f"'{again}' exists already."
    assert len(registry.entries()) == 1


def test_what_is_no_folder_is_refused(ground: Ground, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(ground.state_dir)
    (docs / "file.txt").write_text("x")
    monkeypatch.chdir(docs.parent)
    for path in (docs / "missing", docs / "file.txt", "docs", "", f"{docs}\0"):
        assert refusal(registry, ground, "x", path) == "There is no folder at that path."


def test_folders_that_hold_too_much_or_secrets_are_refused(ground: Ground) -> None:
    registry = Registry(ground.state_dir)
    other = ground.state_dir.parent / "other"
    inside = ground.state_dir / "databases"
    for folder in (other / "chroma", inside, ground.home / ".config"):
        folder.mkdir(parents=True)
    for name in ("local.key", "lock"):
        (other / name).touch()
    wanted = {
        Path(ground.home.anchor): "it is a root folder",
        ground.home: "it is the home folder",
        ground.home.parent: "the home folder lies in it",
        ground.state_dir: "it holds the state of vault-sidecar, or lies in it",
        ground.state_dir.parent: "it holds the state of vault-sidecar, or lies in it",
        inside: "it holds the state of vault-sidecar, or lies in it",
        other / "chroma": "it lies in the state of vault-sidecar for another vault",
        ground.home / ".config": "its name starts with a dot",
    }
    for folder, why in wanted.items():
        assert refusal(registry, ground, "x", folder) == f"That folder can't be a database: {why}."


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are UTF-8, and paths shorter")
def test_a_path_that_no_answer_could_name_is_refused_and_a_long_one_is_looked_at(ground: Ground) -> None:
    registry = Registry(ground.state_dir)
    odd = Path(os.fsdecode(os.fsencode(ground.home) + b"/caf\xe9"))
    (odd / "inner").mkdir(parents=True)
    for folder in (odd, odd / "inner"):
        assert refusal(registry, ground, "x", folder) == "That folder can't be a database: its path is not UTF-8."
    long = ground.home
    while len(str(long)) < 4_000:
        long /= "x" * 80
    long /= "y" * (4_090 - len(str(long)))  # so long that no file in it has a path
    long.mkdir(parents=True)
    assert registry.add("x", str(long), ground).folder == str(long)


def test_a_folder_in_the_vault_is_taken_but_not_a_hidden_one(ground: Ground) -> None:
    registry = Registry(ground.state_dir)
    hidden = ground.vault / ".obsidian" / "plugins"
    shown = ground.vault / "Papers"
    for folder in (hidden, shown):
        folder.mkdir(parents=True)
    assert refusal(registry, ground, "x", hidden).endswith("in a folder of the vault whose name starts with a dot.")
    assert registry.add("papers", str(shown), ground).folder == str(shown)


@needs_links
def test_a_link_is_refused_and_links_above_it_are_resolved(ground: Ground, docs: Path) -> None:
    registry = Registry(ground.state_dir)
    (ground.home / "link").symlink_to(docs)
    (ground.home / "dangling").symlink_to(docs / "nowhere")
    for name in ("link", "dangling"):
        assert refusal(registry, ground, "x", ground.home / name) == "That folder can't be a database: it is a link."
    (docs / "inner").mkdir()
    (ground.vault.parent / "to-home").symlink_to(ground.home)
    assert refusal(registry, ground, "x", ground.home / "to-home" / ".." / "home").endswith("it is the home folder.")
    assert registry.add("x", str(ground.home / "link" / "inner"), ground).folder == str(docs / "inner")


@needs_links
def test_the_state_is_known_under_every_spelling_of_its_path(ground: Ground) -> None:
    (ground.home / "way").symlink_to(ground.state_dir.parent)
    assert "holds the state" in refusal(Registry(ground.state_dir), ground, "x", ground.home / "way" / "state")


DAMAGES = {
    "no JSON": b"{",
    "no list": b"{}",
    "another key": b'[{"db": "x", "createAt": "2026-01-01T00:00:00Z", "folder": "/tmp", "more": 1}]',
    "a number": b'[{"db": 5, "createAt": "2026-01-01T00:00:00Z", "folder": "/tmp"}]',
    "a name nobody could give": b'[{"db": "../x", "createAt": "2026-01-01T00:00:00Z", "folder": "/tmp"}]',
    "a name twice": json.dumps(
        [{"db": db, "createAt": "2026-01-01T00:00:00Z", "folder": "/tmp"} for db in ("x", "X")]
    ).encode(),
    "a relative folder": b'[{"db": "x", "createAt": "2026-01-01T00:00:00Z", "folder": "tmp"}]',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("content", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_registry_is_told_and_not_overwritten(ground: Ground, docs: Path, content: bytes) -> None:
    file = ground.state_dir / "db.json"
    file.write_bytes(content)
    file.chmod(0o600)
    registry = Registry(ground.state_dir)
    for call in (registry.entries, lambda: registry.add("x", str(docs), ground), lambda: registry.remove("x")):
        with pytest.raises(SidecarError) as refused:
            call()
        assert isinstance(refused.value, Unreadable) and "db.json" in str(refused.value)
    assert file.read_bytes() == content


def test_an_index_belongs_to_one_registration_only(ground: Ground) -> None:
    first = Entry("x", "2026-01-01T00:00:00Z", "/one")
    others = [Entry("x", "2026-01-01T00:00:01Z", "/one"), Entry("x", "2026-01-01T00:00:00Z", "/two")]
    assert first.key not in {other.key for other in others}
    for entry in (first, *others):
        index_of(ground.state_dir, entry).mkdir(parents=True)
        (index_of(ground.state_dir, entry) / "manifest.sqlite").touch()
    (ground.state_dir / "databases" / "endpoint").touch()
    remove_index(ground.state_dir, others[0])
    sweep(ground.state_dir, [first])
    assert sorted(os.listdir(ground.state_dir / "databases")) == sorted(["endpoint", first.key])
