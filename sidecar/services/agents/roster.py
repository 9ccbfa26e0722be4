"""The agents there are: every note directly in the agents folder, but for the memory note, read anew at each look."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sidecar.errors import NotFound, TooLarge, Unreadable, VaultAway
from sidecar.services.agents.definition import Definition, broken, parse, same_name
from sidecar.vault.door import NotThere
from sidecar.vault.jail import Jail
from sidecar.vault.names import folded
from sidecar.vault.paths import VaultPath, echo, is_hidden, is_note_name
from sidecar.vault.reasons import reason_of

logger = logging.getLogger(__name__)

MOST_AGENTS: Final = 500
_MOST_BYTES: Final = 256 * 1024  # more than a persona and a frontmatter that are not too long can have


class Roster:
    """Blocks: call it in a lane."""

    def __init__(self, jail: Jail, folder: str, memory_note: str, is_ignored: Callable[[VaultPath], bool]) -> None:
        """Both places as the settings name them. What `is_ignored` says yes to is no agent."""
        self._jail = jail
        self._folder = VaultPath.folder(folder)
        self._memory_note = folded(memory_note)
        self._is_ignored = is_ignored

    @property
    def folder(self) -> str:
        """Where the agent files are."""
        return self._folder.text

    def read(self) -> list[Definition]:
        """All agents as their files are now, sorted by name without case; those with one name share a problem.

        Raises:
            VaultAway: the vault itself is gone.
            Unreadable: the folder can't be listed.
        """
        found = [self._read(path) for path in self._paths()]
        names = Counter(same_name(each.name) for each in found)
        shared = "two files have this name"
        return sorted(
            (replace(each, problem=shared) if names[same_name(each.name)] > 1 else each for each in found),
            key=lambda each: (same_name(each.name), each.path),
        )

    def find(self, name: str) -> Definition:
        """The agent that is asked for: of exactly this name, else of one that differs in case alone.

        Raises:
            NotFound: there is none.
            VaultAway, Unreadable: as `read`.
        """
        agents = self.read()
        exact = [each for each in agents if each.name == name]
        near = exact or [each for each in agents if same_name(each.name) == same_name(name)]
        if not near:
            raise NotFound(f"There is no agent '{echo(name)}'. list_agents names them.")
        return near[0]

    def _paths(self) -> list[VaultPath]:
        try:
            folder = self._jail.folder(self._folder)
        except NotThere:
            return []
        except OSError as failed:
            raise Unreadable(f"the folder '{echo(self._folder.text)}' can't be read: {reason_of(failed)}.") from failed
        try:
            names = [name for name, is_folder in folder.entries() if not is_folder]
        except OSError as failed:
            raise Unreadable(f"the folder '{echo(self._folder.text)}' can't be read: {reason_of(failed)}.") from failed
        finally:
            folder.close()
        notes = sorted(name for name in names if is_note_name(name) and not is_hidden(name) and _is_utf8(name))
        paths = [path for name in notes if self._is_agent(path := VaultPath(f"{self._folder.text}/{name}"))]
        if len(paths) > MOST_AGENTS:
            logger.warning("the agents folder holds %d notes; the first %d are taken", len(paths), MOST_AGENTS)
        return paths[:MOST_AGENTS]

    def _is_agent(self, path: VaultPath) -> bool:
        return folded(path.text) != self._memory_note and not self._is_ignored(path)

    def _read(self, path: VaultPath) -> Definition:
        try:
            return parse(path, self._jail.read(path, max_bytes=_MOST_BYTES).data)
        except VaultAway:
            raise
        except TooLarge:
            return broken(path, "the file is larger than 256 KiB")
        except NotFound:
            return broken(path, "the file has just been deleted")
        except Unreadable as bad:
            return broken(path, str(bad).rpartition("can't be read: ")[2].rstrip("."))


def _is_utf8(name: str) -> bool:
    """Other names can't be asked for; the system gives them with lone surrogates."""
    return name.encode("utf-8", "replace").decode() == name
