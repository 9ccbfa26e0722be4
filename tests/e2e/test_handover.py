"""Which daemon makes way for which, with real processes of each kind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sidecar.bridge import endpoint, lock
from sidecar.bridge.client import LocalClient
from sidecar.bridge.places import state_dir_of
from sidecar.errors import AlreadyServed, BadArguments
from tests.conftest import REPOSITORY
from tests.daemons import environment

KINDS = ["auto", "bridge", "serve"]

DAEMON = """
import asyncio, sys
from pathlib import Path
from sidecar.bridge import handover, identity, private_files
from sidecar.errors import AlreadyServed

vault, state, owner = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
private_files.make_folder(state)
instance = identity.new_instance()
try:
    with handover.hold(state, owner, instance):
        from sidecar.config import Config, IndexConfig, ServeOptions
        from sidecar.daemon import run_daemon

        config = Config(index=IndexConfig(rag=False))
        options = ServeOptions(config, vault, state, instance, port=0, owner=owner)
        asyncio.run(run_daemon(options, lambda url: print(url, flush=True), lambda _: None))
except AlreadyServed as refused:
    print(refused, flush=True)
    sys.exit(refused.exit_code)
"""


class Stage:
    """A vault that daemons of any kind are started for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.vault, self.state = folder / "vault", state_dir_of(folder / "vault", folder / "root")
        self.vault.mkdir()
        self._stack = stack

    def enter(self, owner: str) -> subprocess.Popen[str]:
        """Start one; what it becomes is seen by `said`."""
        process = subprocess.Popen(
            [sys.executable, "-c", DAEMON, str(self.vault), str(self.state), owner],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
            cwd=REPOSITORY,
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process


def said(process: subprocess.Popen[str]) -> str:
    """Its address once it listens, or why it does not."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(tmp_path, stack)


@pytest.mark.parametrize("newcomer", KINDS)
@pytest.mark.parametrize("holder", KINDS)
def test_an_auto_daemon_makes_way_for_others_and_a_bridge_for_a_bridge(
    stage: Stage, holder: str, newcomer: str
) -> None:
    first = stage.enter(holder)
    address = said(first)
    second = stage.enter(newcomer)
    if (holder, newcomer) in {("auto", "bridge"), ("auto", "serve"), ("bridge", "bridge")}:
        assert said(second).startswith("http://127.0.0.1:")
        assert first.wait() == 0, "it was asked, and ended cleanly"
        assert lock.holder(stage.state) == lock.Holder(second.pid, newcomer, published(stage).instance)  # type: ignore[arg-type]
    else:
        assert said(second) == (
            f"another daemon (pid {first.pid}, started as '{holder}') serves this vault already, at {address}"
        )
        assert second.wait() == 3
        assert first.poll() is None
        assert published(stage).pid == first.pid


def published(stage: Stage) -> endpoint.Endpoint:
    found = endpoint.read(stage.state)
    assert found is not None
    return found


def test_one_that_has_not_begun_to_listen_is_waited_for_and_then_asked(stage: Stage) -> None:
    first, second = stage.enter("auto"), stage.enter("serve")
    answers = {said(first), said(second)}
    assert said(first) == ""
    assert published(stage).pid == second.pid, answers


@pytest.mark.parametrize("holder", ["serve", "bridge"])
def test_the_daemon_itself_decides_whatever_the_file_says_of_it(stage: Stage, holder: str) -> None:
    first = stage.enter(holder)
    said(first)
    found = published(stage)
    (stage.state / "lock").write_text(f'{{"pid": {first.pid}, "owner": "auto", "instance": "{found.instance}"}}')
    second = stage.enter("serve")
    assert said(second).startswith(f"another daemon (pid {first.pid}, started as 'auto') serves this vault already")
    assert second.wait() == 3
    assert first.poll() is None


def test_one_that_died_is_not_waited_for(stage: Stage) -> None:
    first = stage.enter("auto")
    said(first)
    first.kill()
    first.wait()
    assert said(stage.enter("serve")).startswith("http://127.0.0.1:")


def test_a_newcomer_of_no_known_kind_is_refused(stage: Stage) -> None:
    said(stage.enter("auto"))
    with LocalClient(stage.state) as client:
        with pytest.raises(BadArguments, match="owner: must be one of serve, bridge, auto"):
            client.post("/admin/hand-over?owner=root")
        with pytest.raises(BadArguments, match="owner: is required"):
            client.post("/admin/hand-over")
        with pytest.raises(AlreadyServed, match="this daemon, started as 'auto', does not give way to 'auto'"):
            client.post("/admin/hand-over?owner=auto")
