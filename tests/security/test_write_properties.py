"""F05 and F06: whatever is written, proposed, edited by others, rotated or restarted, the disk is what a model says."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from sidecar.vault import patch
from sidecar.vault.patch import Drift
from tests import wire
from tests.security.ground import Ground
from tests.security.inside import served_here
from tests.security.scribes import eventually, indexed, on_disk, temporary_files

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.text(LETTERS, max_size=40)
NAMES = st.sampled_from(["a.md", "F/b.md", "F/G/c.md", "Ü.md"])
EXPECTED = st.sampled_from(["none", "right", "stale"])
_CHECKSUM = re.compile(r"checksum (sha256:[0-9a-f]{64})")


def checksum(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def with_mark(old: bytes, new: bytes) -> bytes:
    """A proposal keeps the byte order mark of a note."""
    mark = "\ufeff".encode()
    return mark + new if old.startswith(mark) and not new.startswith(mark) else new


def appended(old: bytes, text: str) -> bytes:
    """What an append makes, told in the model's own words."""
    shown = old.decode("utf-8-sig", "replace")
    ends = re.findall("\r\n|\n|\r", shown)
    between = (ends[-1] if ends else "\n") if shown and shown[-1] not in "\r\n" else ""
    return old + (between + text).encode()


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """An open proposal: its id, and what each note was (None: not there) and would become."""

    proposal_id: str
    changes: dict[str, tuple[bytes | None, bytes]]


class Notes(RuleBasedStateMachine):
    """The model: path to bytes, and the open proposals."""

    proposals = Bundle("proposals")

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.base = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.vault = self.base / "vault"
        self.vault.mkdir()
        self.model: dict[str, bytes] = {}
        self.status: dict[str, str] = {}
        """Of each proposal."""
        self.daemon: AbstractContextManager[Ground] | None = None

    @initialize()
    def start(self) -> None:
        self.daemon = served_here(
            self.base, self.base.with_name(f"{self.base.name}-state"), allow_writes=True, own_token=True
        )
        self.ground = self.daemon.__enter__()

    def stop(self) -> None:
        if self.daemon is not None:
            daemon, self.daemon = self.daemon, None
            daemon.__exit__(None, None, None)

    def write(self, path: str, content: str, mode: str, **more: str) -> bool:
        """Whether it was written; what is answered has to be the checksum of the disk."""
        said = self.ground.call("write_note", path=path, content=content, mode=mode, **more)
        if not said.is_error:
            found = _CHECKSUM.search(said.text)
            assert found and found[1] == checksum((self.vault / path).read_bytes())
        return not said.is_error

    def expectation(self, path: str, expected: str) -> tuple[dict[str, str], bool]:
        """The argument, and whether it fits."""
        if expected == "none":
            return {}, True
        is_right = expected == "right" and path in self.model
        return {"expected": checksum(self.model[path]) if is_right else checksum(b"stale")}, is_right

    @rule(path=NAMES, text=TEXTS)
    def create(self, path: str, text: str) -> None:
        assert self.write(path, text, "create") is (path not in self.model)
        self.model.setdefault(path, text.encode())

    @rule(path=NAMES, text=TEXTS, expected=EXPECTED)
    def overwrite(self, path: str, text: str, expected: str) -> None:
        more, fits = self.expectation(path, expected)
        assert self.write(path, text, "overwrite", **more) is fits
        if fits:
            self.model[path] = text.encode()

    @rule(path=NAMES, text=TEXTS.filter(bool), expected=EXPECTED)
    def append(self, path: str, text: str, expected: str) -> None:
        more, fits = self.expectation(path, expected)
        assert self.write(path, text, "append", **more) is fits
        if fits:
            self.model[path] = appended(self.model.get(path, b""), text)

    @rule(path=NAMES, text=st.binary(max_size=40).filter(lambda data: data[:2] not in (b"\xff\xfe", b"\xfe\xff")))
    def external_edit(self, path: str, text: bytes) -> None:
        file = self.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
        os.utime(file, ns=(0, 10**18 + len(text)))  # saved long ago, so that nobody waits for it to rest
        self.model[path] = text

    @rule(path=NAMES)
    def external_delete(self, path: str) -> None:
        if self.model.pop(path, None) is not None:
            (self.vault / path).unlink()

    @rule(target=proposals, paths=st.lists(NAMES, min_size=1, max_size=3, unique=True), text=TEXTS)
    def propose(self, paths: Sequence[str], text: str) -> object:
        old = {path: self.model.get(path) for path in paths}
        new = {path: with_mark(old[path] or b"", text.encode()) for path in paths}
        files = [{"path": path, "content": text} for path in paths]
        said = self.ground.call("kp_propose", title="T", rationale=text, files=files)
        is_possible = all(old[path] != new[path] and (old[path] is not None or text) for path in paths)
        assert said.is_error is not is_possible, said
        if said.is_error:
            return multiple()
        made = json.loads(said.text)
        assert made["files"] == list(paths)
        self.status[made["id"]] = "open"
        return Suggestion(made["id"], {path: (old[path], new[path]) for path in paths})

    @rule(proposal=consumes(proposals))
    def apply(self, proposal: Suggestion) -> None:
        reply = self.ground.order("proposals/apply", id=proposal.proposal_id, by="console")
        assert reply.status == 200, reply
        expected = self.applied(proposal)
        status = self.status[proposal.proposal_id] = "rejected" if expected is None else "applied"
        assert reply.json()["status"] == status, reply
        self.model |= expected or {}

    def applied(self, proposal: Suggestion) -> dict[str, bytes] | None:
        """What its notes become; None if it can't be applied, because one is another than it was."""
        if all(self.model.get(path) == old for path, (old, _) in proposal.changes.items()):
            return {path: new for path, (_, new) in proposal.changes.items()}
        folder = self.vault / ".kp/proposals" / proposal.proposal_id
        expected: dict[str, bytes] = {}
        for file in patch.parse((folder / "changes.patch").read_bytes()):
            now = self.model.get(file.path)
            try:
                new = patch.apply(file, now or b"")  # lines that it does not name may have changed
            except Drift:
                return None
            if (now is None) is not file.creates or new == now:
                return None
            expected[file.path] = new
        return expected

    @rule(proposal=consumes(proposals))
    def reject(self, proposal: Suggestion) -> None:
        reply = self.ground.order("proposals/reject", id=proposal.proposal_id, by="console", reason="no")
        assert reply.status == 200, reply
        self.status[proposal.proposal_id] = "rejected"

    @rule()
    def rotate(self) -> None:
        """The new token opens, the old one does not any more."""
        reply = self.ground.order("token/rotate")
        assert reply.status == 200, reply
        old, self.ground = self.ground, dataclasses.replace(self.ground, token=reply.json()["token"])
        assert old.ask(wire.call("tools/list")).status == 401
        assert self.ground.ask(wire.call("tools/list")).status == 200

    @rule()
    def restart(self) -> None:
        self.stop()
        self.start()

    @invariant()
    def the_disk_is_what_the_model_says(self) -> None:
        found = {str(path.relative_to(self.vault)): path.read_bytes() for path in self.vault.rglob("*.md")}
        assert found == self.model
        assert temporary_files(self.vault) == []

    @invariant()
    def every_proposal_is_what_the_model_says(self) -> None:
        folder = self.vault / ".kp/proposals"
        found = {path.name: json.loads((path / "proposal.json").read_bytes())["status"] for path in folder.glob("*")}
        assert found == self.status

    def teardown(self) -> None:
        try:
            if self.daemon is not None:
                state = self.ground.state
                eventually(lambda: indexed(state) == on_disk(self.vault), "the index is not what the disk is")
        finally:
            self.stop()
            self.stack.close()


def run_notes(runs: int, steps: int) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Notes,
        settings=settings(max_examples=runs, stateful_step_count=steps, database=None, suppress_health_check=checks),
    )


@pytest.mark.parametrize("row", ["F05"])
def test_the_disk_agrees_with_a_model(row: str) -> None:
    run_notes(runs=8, steps=15)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("row", ["F05"])
def test_the_disk_agrees_with_a_model_500_times(row: str) -> None:
    run_notes(runs=500, steps=30)


@pytest.fixture(scope="module")
def writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    base = tmp_path_factory.mktemp("texts")
    (base / "vault").mkdir()
    with served_here(base, base.with_name("texts-state"), allow_writes=True) as ground:
        yield ground


def round_trips(ground: Ground, examples: int) -> None:
    expected: dict[str, str] = {}

    @settings(max_examples=examples, deadline=None, database=None)
    @given(st.text(LETTERS, max_size=3000))
    def there_and_back(text: str) -> None:
        said = ground.call("write_note", path="Any.md", content=text, mode="overwrite", **expected)
        assert not said.is_error, said
        assert (ground.vault / "Any.md").read_bytes() == text.encode()
        read = ground.call("read_note", path="Any.md")
        expected["expected"] = read.meta["vault-sidecar/checksum"]
        assert read.text == text.removeprefix("\ufeff")  # reading leaves a byte order mark out

    there_and_back()


@pytest.mark.parametrize("row", ["F06"])
def test_any_text_comes_back_as_it_was(writable: Ground, row: str) -> None:
    round_trips(writable, 150)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("row", ["F06"])
def test_two_thousand_texts_come_back_as_they_were(writable: Ground, row: str) -> None:
    round_trips(writable, 2000)
