"""Finds the folder of a note for a change, makes what is missing of it, and sees to it that no name gets a twin."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sidecar.errors import Conflict, NotWritten
from sidecar.vault.door import Folder, NotThere
from sidecar.vault.jail import Jail
from sidecar.vault.names import bad_name, differ_in_case, is_ready_for_all, twin_in
from sidecar.vault.paths import VaultPath, echo

_NO_FOLDER: Final = "a part of its path is a link or no folder"


class Exists(Conflict):
    """There is a note of that name already."""


class Placing:
    """Opens folders of one vault. Blocks: call it in a lane."""

    def __init__(self, jail: Jail) -> None:
        self._jail = jail
        self._making = threading.Lock()

    @contextmanager
    def old(self, path: VaultPath) -> Generator[Folder]:
        """The folder that a note is in.

        Raises:
            NotThere: there is none.
        """
        folder = self._jail.folder(path.parent)
        try:
            yield folder
        finally:
            folder.close()

    @contextmanager
    def new(self, path: VaultPath) -> Generator[Folder]:
        """The folder that a new note comes into, made if it is missing. The note's name is free and no twin.

        Raises:
            Exists, Conflict, BadPath, NotWritten: the name can't be had; the sentence says why.
        """
        try:
            folder = self._jail.folder(path.parent)
        except NotThere:
            with self._making:  # two at once could make two spellings of one folder
                folder = self._make(path)
        try:
            self.refuse_taken(folder, path)
            yield folder
        finally:
            folder.close()

    def check(self, path: VaultPath) -> None:
        """Whether a new note could be placed there. Nothing is made.

        Raises:
            Exists, Conflict, BadPath, NotWritten: as `new`.
        """
        at = self._jail.folder(VaultPath.root())
        try:
            for depth, part in enumerate(path.parts[:-1]):
                try:
                    below = self._jail.folder(VaultPath("/".join(path.parts[: depth + 1])))
                except NotThere as missing:
                    self._refuse_twin(at, path, depth)
                    if any(name == part for name, _ in at.entries()):
                        raise NotWritten(f"'{echo(path.text)}' could not be written: {_NO_FOLDER}.") from missing
                    if not all(map(is_ready_for_all, path.parts[depth:])):
                        raise bad_name(path.text) from missing
                    return
                at.close()
                at = below
            self.refuse_taken(at, path)
        finally:
            at.close()

    def refuse_taken(self, folder: Folder, path: VaultPath) -> None:
        """Refuse a name that is taken, that has a twin, or that a new entry may not have.

        Raises:
            Exists, Conflict, BadPath, NotWritten: as `new`.
        """
        try:
            descriptor = folder.open_file(path.name)
        except NotThere:
            self._refuse_twin(folder, path, len(path.parts) - 1)
            return
        try:
            refusal = self._jail.refusal(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        if refusal:
            raise NotWritten(f"'{echo(path.text)}' could not be written: {refusal}.")
        raise Exists(f"'{echo(path.text)}' exists already.")

    def _make(self, path: VaultPath) -> Folder:
        """The folder of `path`, made step by step inside the jail."""
        folders = path.parent.parts
        at = self._jail.folder(VaultPath.root())
        for depth in range(len(folders)):
            try:
                below = self._step(at, path, depth)
            finally:
                at.close()
            at = below
        return at

    def _step(self, at: Folder, path: VaultPath, depth: int) -> Folder:
        part, below = path.parts[depth], VaultPath("/".join(path.parts[: depth + 1]))
        try:
            return self._jail.folder(below)
        except NotThere:
            self._refuse_twin(at, path, depth)
        try:
            at.make_folder(part)
            at.sync()
        except FileExistsError:
            pass  # a link, a file, or another program was quicker; opening it tells
        try:
            return self._jail.folder(below)
        except NotThere as in_the_way:
            raise NotWritten(f"'{echo(path.text)}' could not be written: {_NO_FOLDER}.") from in_the_way

    def _refuse_twin(self, folder: Folder, path: VaultPath, depth: int) -> None:
        """`folder` is where part `depth` of the path would be new."""
        part = path.parts[depth]
        names = [name for name, _ in folder.entries()]
        twin = twin_in(names, part)
        if twin is not None and part not in names:
            other = self._as_on_disk(path, [*path.parts[:depth], twin])
            how = "case" if differ_in_case(other, path.text) else "Unicode form"
            raise Conflict(f"'{echo(path.text)}' differs only in {how} from '{echo(other)}'; use that name.")
        if not is_ready_for_all(part):
            raise bad_name(path.text)

    def _as_on_disk(self, path: VaultPath, known: list[str]) -> str:
        """The path with the spelling of the disk as far as its parts are there; the first are `known`."""
        for part in path.parts[len(known) :]:
            try:
                folder = self._jail.folder(VaultPath("/".join(known)))
            except (NotThere, OSError):
                known.append(part)
                continue
            try:
                names = [name for name, _ in folder.entries()]
            finally:
                folder.close()
            known.append(part if part in names else twin_in(names, part) or part)
        return "/".join(known)
