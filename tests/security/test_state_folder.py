"""Rows L04 to L08: what lies in the state folder of a real daemon, and what of it is not believed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.bridge.token import new_token
from tests import wire
from tests.daemons import Daemon
from tests.lab import wait_until
from tests.security.starts import Site

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes and owners say nothing on Windows")

OPEN_UMASK = 0
OF_THE_BRIDGE = {"endpoint.json", "local.key", "lock", "token"}
OF_THE_INDEX = {"manifest.sqlite", "manifest.sqlite-wal", "manifest.sqlite-shm", "bm25.snap", "bm25.log"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(Site(tmp_path)) as made:
        yield made


def indexed(site: Site, daemon: Daemon) -> None:
    """Wait until a search finds the vault's note."""
    query = wire.tool("search_notes", query="sun")
    wait_until(lambda: b"Plum" in wire.post(daemon.port, daemon.token, query).body)


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Indexed by a daemon that still runs, begun by somebody whose umask keeps nothing from others."""
    with closing(Site(tmp_path_factory.mktemp("careless"))) as site:
        (site.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n")
        daemon = site.start(port=None, umask=OPEN_UMASK, **site.write_down())
        indexed(site, daemon)
        yield site
        assert daemon.stop() == 0


def test_l04_token_and_folders_are_private_from_their_first_moment(careless: Site) -> None:
    assert mode(careless.state / "token") == "0o600"
    assert (careless.state / "token").stat().st_uid == os.geteuid()
    assert mode(careless.root) == mode(careless.state) == "0o700"
    assert careless.events("os.chmod") == [], "nothing had to be closed after it was made"


def test_l05_every_file_is_private_and_a_key_lies_in_its_own_file_only(careless: Site) -> None:
    files = {path.name: path for path in careless.root.rglob("*") if path.is_file()}
    assert set(files) >= OF_THE_BRIDGE | OF_THE_INDEX | {"settings.json"}
    assert {name: mode(path) for name, path in files.items()} == dict.fromkeys(files, "0o600")
    assert {mode(path) for path in careless.root.rglob("*") if path.is_dir()} == {"0o700"}
    for key in ("token", "local.key"):
        secret = files[key].read_bytes().strip()
        assert len(secret) >= 43
        assert [name for name, path in files.items() if secret in path.read_bytes()] == [key]
    assert not list(careless.vault.rglob("*.sqlite*")) and os.listdir(careless.vault) == ["Plum.md"]


def test_without_a_umask_of_its_own_the_index_would_be_open(site: Site) -> None:
    """Control of L04 and L05: files are made by libraries too, and then with the umask alone."""
    code = "import os\nos.umask = lambda mask: 0"
    daemon = site.start(umask=OPEN_UMASK, **site.run_first(code))
    assert mode(site.state / "manifest.sqlite") == "0o644"
    assert mode(site.state / "token") == "0o600"
    assert daemon.stop() == 0


@pytest.mark.parametrize("found", [0o644, 0o640], ids=["L06-all-read", "L06-group-reads"])
def test_a_token_that_others_could_read_is_closed_and_told(site: Site, found: int) -> None:
    token = new_token()
    site.put("token", token, mode=found)
    daemon = site.start()
    assert daemon.token == token
    assert wire.post(daemon.port, token, wire.INITIALIZE).status == 200
    assert daemon.stop() == 0
    assert mode(site.state / "token") == "0o600"
    warned = "sidecar.bridge.private_files: token could be read by other users; its mode is now 0600"
    assert daemon.stderr().count(warned) == 1
    assert token not in daemon.stderr()


@pytest.mark.parametrize("name", ["token", "tokens.json", "settings.json", "lock"])
@pytest.mark.parametrize("found", [0o666, 0o620], ids=["L06-all-write", "L06-group-writes"])
def test_what_others_could_write_is_not_believed(site: Site, name: str, found: int) -> None:
    content = new_token() if name == "token" else "{}"
    path = site.put(name, content, mode=found)
    ended = site.refused(**site.write_down())
    sentence = f"{name} may be written by other users; look at it, then delete it or set its mode to 0600"
    assert (ended.code, ended.out, last_line(ended.err)) == (1, "", f"vault-sidecar: {sentence}")
    assert (path.read_text(), mode(path)) == (content, oct(found))
    assert site.events("socket.bind") == []


def test_without_the_look_at_its_mode_an_open_token_stays_open(site: Site) -> None:
    """Control of L06."""
    site.put("token", new_token(), mode=0o666)
    blind = "from sidecar.bridge import private_files\nprivate_files.make_private = lambda *_: None"
    daemon = site.start(**site.run_first(blind))
    assert mode(site.state / "token") == "0o666"
    assert daemon.stop() == 0


def last_line(err: str) -> str:
    """Warnings may stand before it: where the tests run there is no keyring."""
    return err.splitlines()[-1]


def linked(site: Site, name: str, content: str) -> Path:
    """A private file elsewhere that a link in the state folder points to."""
    elsewhere = site.put(name, content).rename(site.folder / f"other {name}")
    (site.state / name).symlink_to(elsewhere)
    return elsewhere


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        pytest.param("token", new_token(), "token is a link; it must be a plain file", id="L07"),
        pytest.param("settings.json", "{}", "settings.json is a link; it must be a plain file", id="L07-settings"),
        pytest.param("tokens.json", "{}", "tokens.json is a link; it must be a plain file", id="L07-named"),
        pytest.param(
            "lock",
            "",
            f"the file lock in the state folder can't be used: {os.strerror(errno.ELOOP)}",
            id="L07-lock",
        ),
    ],
)
def test_a_link_is_not_followed(site: Site, name: str, content: str, sentence: str) -> None:
    elsewhere = linked(site, name, content)
    ended = site.refused(**site.write_down())
    assert (ended.code, ended.out, last_line(ended.err)) == (1, "", f"vault-sidecar: {sentence}")
    assert elsewhere.read_text() == content
    assert (site.state / name).is_symlink()
    assert site.events("socket.bind") == []


def test_l07_a_link_in_the_place_of_what_is_made_anew_is_replaced(site: Site) -> None:
    targets = [linked(site, name, "canary") for name in ("endpoint.json", "local.key")]
    daemon = site.start()
    assert not any((site.state / name).is_symlink() for name in ("endpoint.json", "local.key"))
    assert daemon.stop() == 0
    assert [target.read_text() for target in targets] == ["canary", "canary"]


def test_without_the_flag_against_links_a_linked_token_is_believed(site: Site) -> None:
    """Control of L07."""
    token = new_token()
    linked(site, "token", token)
    daemon = site.start(**site.run_first("import os\nos.O_NOFOLLOW = 0"))
    assert wire.post(daemon.port, token, wire.INITIALIZE).status == 200
    assert daemon.stop() == 0


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("vault", id="L08"),
        pytest.param("vault/.hidden/deep", id="L08-deep"),
        pytest.param("link/state", id="L08-by-a-link"),
    ],
)
def test_keys_are_never_put_into_the_vault(site: Site, place: str) -> None:
    (site.folder / "link").symlink_to(site.vault, target_is_directory=True)
    ended = site.refused("--state", str(site.folder / place), **site.write_down())
    sentence = "the state folder must not lie in the vault, where it would be synchronised; choose another"
    assert (ended.code, ended.out, ended.err) == (2, "", f"vault-sidecar: {sentence}\n")
    assert os.listdir(site.vault) == []
    assert site.events("socket.bind") == []


def test_without_the_look_at_its_place_the_token_lies_in_the_vault(site: Site) -> None:
    """Control of L08."""
    blind = "from sidecar.bridge import places\nplaces._is_within = lambda *_: False"
    daemon = site.start("--state", str(site.vault / "state"), **site.run_first(blind))
    assert len(list(site.vault.rglob("token"))) == 1
    assert daemon.stop() == 0
