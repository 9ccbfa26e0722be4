"""Rows R08 and S07: a rotation that is killed at each of its steps, in a command and in the daemon."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from keyring.backends import fail

from sidecar.bridge import named_tokens, private_files
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.token import Keys, fingerprint
from sidecar.bridge.token_book import TokenBook
from sidecar.bridge.token_store import FileStore, TokenStore, open_token
from tests import wire
from tests.bridge.keyrings import OnDisk
from tests.conftest import REPOSITORY
from tests.daemons import STOP_S, environment
from tests.security import owner
from tests.security.owner import opens
from tests.security.starts import Site

# Wraps a function of the process so that it kills itself there, but only once a rotation has begun.
_KILLED = """
import os, signal
from sidecar.bridge import keyring_store, private_files, token, token_book, token_store
from tests.bridge import keyrings

rotating = []

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def killed(where, name, *, after, first=lambda *_: None):
    real = getattr(where, name)

    def wrapped(*args, **kwargs):
        if not rotating:
            return real(*args, **kwargs)
        if after:
            real(*args, **kwargs)
        first(*args)
        die()

    setattr(where, name, wrapped)

real_rotate = token_book.TokenBook.rotate

def rotate(*args):
    rotating.append(1)
    return real_rotate(*args)

token_book.TokenBook.rotate = rotate
"""

_OPENED = """
real_open = os.open

def opened(path, *args, **kwargs):
    descriptor = real_open(path, *args, **kwargs)
    if rotating and str(path).endswith(".tmp"):
        die()
    return descriptor

os.open = opened
"""

_IN_FILES = {
    "begun": "killed(token_book, 'new_token', after=True)",
    "temp-opened": _OPENED,
    "half-written": "killed(os, 'fsync', after=False, first=lambda fd: os.ftruncate(fd, os.fstat(fd).st_size // 2))",
    "synced": "killed(os, 'fsync', after=True)",
    "renamed": "killed(os, 'replace', after=True)",
    "folder-synced": "killed(private_files, '_sync_folder', after=True)",
    "token-stored": "for s in (token_store.FileStore, keyring_store.KeyringStore): killed(s, 'store', after=True)",
    "tidied": "for s in (token_store.FileStore, keyring_store.KeyringStore): killed(s, 'tidy', after=True)",
    "named-removed": "killed(private_files, 'remove', after=True)",
}
_IN_KEYRING = {
    "entry-begun": "killed(keyrings.OnDisk, 'set_password', after=False)",
    "entry-written": "killed(keyrings.OnDisk, 'set_password', after=True)",
    "entry-read-back": "killed(keyring_store.KeyringStore, '_put', after=True)",
    "old-entry-removed": "killed(keyrings.OnDisk, 'delete_password', after=True)",
}
_IN_DAEMON = {
    "token-published": "killed(token.Keys, 'replace', after=True)",
    "not-yet-published": "killed(token.Keys, 'replace', after=False)",
}
STEPS = _IN_FILES | _IN_KEYRING | _IN_DAEMON

OLD_IS_VALID = {
    "begun", "temp-opened", "half-written", "synced", "entry-begun", "entry-written", "entry-read-back",
}  # fmt: skip
"""After a kill at these; after one at the others the new token is."""


@dataclass
class Ground:
    """A vault that was served before, with a main token and one for `bob`."""

    site: Site
    in_keyring: bool
    old: str = ""
    bob: str = ""

    def __post_init__(self) -> None:
        private_files.make_folder(self.site.state)
        self.old = self.main_token()
        self.name_one()

    @property
    def env(self) -> dict[str, str]:
        """The variables of every process here."""
        return owner.keyring_at(self.site.folder / "keyring.json") if self.in_keyring else {}

    def main_token(self) -> str:
        """What a start takes for the token, and makes if there is none."""
        return self._open()[0]

    def name_one(self) -> None:
        """A token for `bob`."""
        token, store = self._open()
        self.bob = TokenBook(self.site.state, store, fingerprint(token)).add("bob", "local")["token"]

    def keys(self) -> Keys:
        """The keys of a daemon that starts now."""
        token, store = self._open()
        return Keys(token, b"vsl_", named_tokens.callers(TokenBook(self.site.state, store, fingerprint(token)).named))

    def _open(self) -> tuple[str, TokenStore]:
        backend = OnDisk(self.site.folder / "keyring.json") if self.in_keyring else fail.Keyring()
        return open_token(FileStore(self.site.state, self.site.vault), KeyringStore(self.site.state, backend))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(Site(tmp_path)) as made:
        (made.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n")
        yield made


def kill_command(ground: Ground, code: str) -> None:
    """`token rotate` without a daemon, killed where `code` says."""
    site = ground.site
    killed = subprocess.run(
        [sys.executable, "-m", "sidecar", "token", "rotate", "--vault", str(site.vault), "--state", str(site.root)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(**ground.env, **site.run_first(_KILLED + code)),
        cwd=REPOSITORY,
        timeout=60,
    )
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b""), killed.stderr


def kill_daemon(ground: Ground, step: str) -> None:
    """A daemon that is asked to rotate, killed at a step."""
    site = ground.site
    daemon = site.start(**ground.env, **site.run_first(_KILLED + STEPS[step]))
    assert [opens(daemon.port, token) for token in (ground.old, ground.bob)] == [True, True]
    sent = owner.request(daemon.port, owner.local_key(site.state), "POST", "/admin/token/rotate")
    assert wire.raw(daemon.port, sent) == wire.CLOSED, "nobody was told of a new token"
    assert daemon.process.wait(STOP_S) == -signal.SIGKILL
    daemon.kill()


def is_as_kept(ground: Ground, step: str) -> str:
    """A start has one main token, the one that is kept; bob's lives only if that is the old one. Returns it."""
    main = ground.main_token()
    assert (main == ground.old) == (step in OLD_IS_VALID)
    keys = ground.keys()
    valid = [keys.check(token.encode()) is not None for token in (main, ground.old, ground.bob)]
    assert valid == [True, main == ground.old, main == ground.old]
    assert ground.main_token() == main
    return main


def serves_as_kept(ground: Ground, step: str) -> None:
    """A real start does as `is_as_kept` says, rotates again, and has swept up."""
    main = is_as_kept(ground, step)
    again = ground.site.start(**ground.env)
    lives = main == ground.old
    assert [opens(again.port, token) for token in (main, ground.old, ground.bob)] == [True, lives, lives]
    new = owner.rotate(again.port, ground.site.state)
    assert [opens(again.port, token) for token in (new, main, ground.bob)] == [True, False, False]
    assert again.stop() == 0
    assert not [name for name in ground.site.left() if name.endswith(".tmp")]
    ground.old = new


IN_FILE = [pytest.param(step, False, id=f"R08-file-{step}") for step in _IN_FILES]
IN_KEYRING = [pytest.param(step, True, id=f"R08-keyring-{step}") for step in _IN_FILES | _IN_KEYRING]


@pytest.mark.parametrize(("step", "in_keyring"), IN_FILE + IN_KEYRING)
def test_a_command_killed_at_a_step_leaves_one_valid_token(site: Site, step: str, in_keyring: bool) -> None:
    ground = Ground(site, in_keyring)
    kill_command(ground, STEPS[step])
    is_as_kept(ground, step)


@pytest.mark.parametrize("in_keyring", [pytest.param(False, id="file"), pytest.param(True, id="keyring")])
@pytest.mark.parametrize("step", [pytest.param(step, id=f"S07-{step}") for step in ("synced", *_IN_DAEMON)])
def test_a_daemon_killed_at_a_step_leaves_one_valid_token(site: Site, step: str, in_keyring: bool) -> None:
    ground = Ground(site, in_keyring)
    kill_daemon(ground, step)
    serves_as_kept(ground, step)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("in_keyring", [pytest.param(False, id="file"), pytest.param(True, id="keyring")])
@pytest.mark.parametrize("step", [pytest.param(step, id=f"S07-{step}-ten-times") for step in STEPS])
def test_a_daemon_killed_ten_times_at_each_step_leaves_one_valid_token(site: Site, step: str, in_keyring: bool) -> None:
    if step in _IN_KEYRING and not in_keyring:
        pytest.skip("there is no such step")
    ground = Ground(site, in_keyring)
    for _ in range(10):
        kill_daemon(ground, step)
        serves_as_kept(ground, step)
        ground.name_one()


IN_PLACE = """
from pathlib import Path

def in_place(path, content):
    with Path(path).open("wb") as file:
        file.write(content[: len(content) // 2])
        file.flush()
        if rotating:
            die()
        file.write(content[len(content) // 2 :])

private_files.write = in_place
"""


def test_r08_without_a_write_in_one_step_no_known_token_is_left(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Control of R08: half a token is nobody's, and a start makes a third one."""
    ground = Ground(site, in_keyring=False)
    kill_command(ground, IN_PLACE)
    assert ground.keys().check(ground.old.encode()) is None
    assert "is damaged" in caplog.text


def test_r08_without_the_main_tokens_name_beside_them_named_ones_would_outlive_a_kill(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control of R08: the step that makes the main token valid would not be the one that revokes the others."""
    ground = Ground(site, in_keyring=False)
    kill_command(ground, STEPS["token-stored"])
    assert ground.keys().check(ground.bob.encode()) is None
    beside = json.loads((site.state / named_tokens.FILE_NAME).read_text())["beside"]
    monkeypatch.setattr(sys.modules[__name__], "fingerprint", lambda _: beside)
    assert ground.keys().check(ground.bob.encode()) is not None
