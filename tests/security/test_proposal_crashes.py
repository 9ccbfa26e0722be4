"""S07 and P09: the daemon ends in the middle of proposing or applying; at the next start all is there, or nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import wire
from tests.daemons import STOP_S, Daemon
from tests.security.ground import Ground
from tests.security.scribes import GONE, Scribe, eventually, indexed, on_disk, temporary_files
from tests.security.test_write_crashes import daemon

CRASHER = Path(__file__).with_name("proposal_crasher.py")
PROPOSING = ["folder made", "record written", "proposal half", "patch written", "has its name", "stored"]
APPLYING = ["noted", "Plan.md written", "new note written", "Later.md written", "stamped"]
OLD = {"Plan.md": "old plan\n", "Later.md": "old later\n"}
NEW = {"Plan.md": "new plan\n", "New.md": "new\n", "Later.md": "new later\n"}
FILES = [{"path": path, "content": text} for path, text in NEW.items()]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    lay(tmp_path / "vault")
    return tmp_path / "vault"


def lay(vault: Path) -> None:
    (vault / "New.md").unlink(missing_ok=True)
    for path, text in OLD.items():
        (vault / path).write_text(text)


def notes(vault: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in vault.glob("*.md")}


def proposals(vault: Path) -> dict[str, str]:
    """The status of each whole proposal; anything else in the folder by its name."""
    found: dict[str, str] = {}
    for folder in (vault / ".kp/proposals").iterdir():
        whole = sorted(each.name for each in folder.iterdir()) == ["changes.patch", "proposal.json"]
        found[folder.name] = json.loads((folder / "proposal.json").read_bytes())["status"] if whole else "half"
    return found


def propose(running: Daemon) -> str:
    scribe = Scribe(running.port, running.token)
    try:
        text, failed, _ = scribe.call("kp_propose", title="T", rationale="", files=FILES)
        assert not failed, text
        return json.loads(text)["id"]
    finally:
        scribe.close()


def order(running: Daemon, vault: Path, state: Path, target: str, **body: str) -> wire.Reply:
    """What the daemon answers to its owner."""
    return Ground(vault.parent, state, running.port, running.token).order(target, **body)


def ends(running: Daemon, do: Callable[[], object]) -> None:
    with contextlib.suppress(*GONE):  # how a client learns of it does not matter
        do()
    assert running.process.wait(STOP_S) == -9


def is_sound(vault: Path, state: Path, running: Daemon) -> None:
    """What has to hold after a restart."""
    eventually(lambda: temporary_files(vault) == [], "temporary files stay")
    eventually(lambda: indexed(state) == on_disk(vault), "the index is another one than a fresh one would be")
    assert not list(state.rglob("applying.json"))
    assert "Traceback" not in running.stderr(), running.stderr()


def propose_and_end(point: str, vault: Path, state: Path) -> None:
    (vault / ".kp/proposals").mkdir(parents=True, exist_ok=True)
    before = proposals(vault)
    with daemon(vault, state, str(CRASHER), point) as running:
        ends(running, lambda: propose(running))
    named = {name for name in proposals(vault).keys() - before.keys() if not name.startswith(".")}
    assert len(named) == (point in PROPOSING[4:])
    assert all(proposals(vault)[name] == "open" for name in named)
    with daemon(vault, state) as running:
        is_sound(vault, state, running)
        made = {name: status for name, status in proposals(vault).items() if name not in before}
        assert made == dict.fromkeys(named, "open")
        listed = order(running, vault, state, "proposals").json()
        assert {each["id"] for each in listed["proposals"]} == set(proposals(vault))
        assert listed["unreadable"] == []
    assert notes(vault) == OLD


def apply_and_end(point: str, vault: Path, state: Path) -> None:
    lay(vault)
    with daemon(vault, state) as running:
        proposal = propose(running)
    with daemon(vault, state, str(CRASHER), point) as running:
        ends(running, lambda: order(running, vault, state, "proposals/apply", id=proposal, by="console"))
    if point in APPLYING[1:3]:
        assert notes(vault) not in (OLD, NEW), "it did not end in the middle"
    with daemon(vault, state) as running:
        is_sound(vault, state, running)
        is_new = point in APPLYING[3:]
        assert notes(vault) == (NEW if is_new else OLD)
        assert proposals(vault)[proposal] == ("applied" if is_new else "open")
        again = order(running, vault, state, "proposals/apply", id=proposal, by="console")
        assert again.status == (409 if is_new else 200)
        assert notes(vault) == NEW


def state_of(vault: Path) -> Path:
    return vault.parent / "state"


@pytest.mark.parametrize(
    "point", [pytest.param("proposal half", id="S07-proposal half"), pytest.param("has its name", id="P09")]
)
def test_a_daemon_that_ends_while_it_stores_leaves_the_whole_or_nothing(vault: Path, point: str) -> None:
    propose_and_end(point, vault, state_of(vault))


@pytest.mark.parametrize("point", [pytest.param(point, id=f"S07-{point}") for point in APPLYING[2:4]])
def test_a_daemon_that_ends_while_it_applies_leaves_all_or_nothing(vault: Path, point: str) -> None:
    apply_and_end(point, vault, state_of(vault))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("point", [pytest.param(point, id=f"S07-{point}") for point in [*PROPOSING, *APPLYING]])
def test_a_daemon_that_ends_ten_times_at_a_point_leaves_all_or_nothing(vault: Path, point: str) -> None:
    for _ in range(10):
        (propose_and_end if point in PROPOSING else apply_and_end)(point, vault, state_of(vault))
