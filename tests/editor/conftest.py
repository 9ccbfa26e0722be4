"""A vault in a place whose names are hard, and windows of the editor on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sidecar.bridge.places import state_dir_of
from tests.editor.plugin import Plugin


class Study:
    """A vault, and whoever opens it. Nothing is left running after the block."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.vault = folder / 'Ada\'s "notes" Ünïcödé 笔记 $HOME;'
        self.vault.mkdir()
        (self.vault / ".obsidian").mkdir()
        (self.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n", "utf-8")
        self.root = folder / "root"
        self._stack = stack

    @property
    def state(self) -> Path:
        """The vault's state folder."""
        return state_dir_of(self.vault, self.root)

    def window(self, **more: Any) -> Plugin:
        """A plugin whose program runs; nothing is said yet."""
        return self._stack.enter_context(Plugin(more.pop("vault", self.vault), self.root, **more))

    def write(self, name: str, text: str) -> None:
        """A note, saved by somebody."""
        (self.vault / name).write_text(text, "utf-8")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Study, Plugin]]:
    """A window whose server runs, for all tests of a module that leave it as it was; a start takes seconds."""
    with ExitStack() as stack:
        study = Study(tmp_path_factory.mktemp("shared"), stack)
        window = study.window()
        window.start()
        window.settled()
        yield study, window


@pytest.fixture
def plugin(shared: tuple[Study, Plugin]) -> Plugin:
    """The shared window, with nothing heard yet."""
    shared[1].forget()
    return shared[1]


@pytest.fixture
def shared_study(shared: tuple[Study, Plugin]) -> Study:
    """Whose window `plugin` is."""
    return shared[0]


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    with ExitStack() as stack:
        yield Study(tmp_path, stack)
