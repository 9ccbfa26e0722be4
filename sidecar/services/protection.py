"""What no caller may change, in whatever way: hidden parts, agents, the memory note, what an exporter manages."""

from __future__ import annotations

import json
import re
from typing import Final

from sidecar.errors import BadConfig, BadPath, NotFound, Protected
from sidecar.vault import frontmatter
from sidecar.vault.frontmatter import Json
from sidecar.vault.names import folded, protected, writable
from sidecar.vault.paths import VaultPath, echo

_MANAGED_SCHEMA: Final = "curio.frontmatter.v1"
_BEGIN: Final = re.compile(r"<!--[ \t]*+curio:managed:begin\b")
_END: Final = re.compile(r"<!--[ \t]*+curio:managed:end[ \t]*+-->")


class Protection:
    """The protected places of one vault."""

    def __init__(self, agents_folder: str, memory_note: str) -> None:
        """Both as the settings name them.

        Raises:
            BadConfig: one is no place in the vault.
        """
        try:
            folder = VaultPath.folder(agents_folder)
        except (BadPath, NotFound):
            folder = VaultPath.root()
        if not folder.text:
            raise BadConfig(f"[agents] folder must be a folder inside the vault, like 'Agents', not {agents_folder!r}")
        try:
            note = VaultPath.note(memory_note)
        except BadPath:
            raise BadConfig(
                f"[agents] memory_note must be a note inside the vault, like 'Agents/Memory.md', not {memory_note!r}"
            ) from None
        self._folder = folded(folder.text) + "/"
        self._note = folded(note.text)

    def check(self, raw: str, *, by: str = "written by a client") -> VaultPath:
        """A caller's text as a note that it may change. `by` ends the sentence of a refusal.

        Raises:
            BadPath: not a path that may be written.
            Protected: it belongs to what only the owner changes.
        """
        path = writable(raw, by=by)
        form = folded(path.text)
        # also a note of the folder's own name: with it in the way, the folder could not be made
        if form == self._note or f"{form}/".startswith(self._folder):
            raise protected(raw, by=by)
        return path


def refuse_managed(path: VaultPath, old: str, new: str) -> None:
    """Refuse a change of what an exporter looks after: its marked regions, and the properties it has written.

    New properties, and text outside the regions, are free.

    Raises:
        Protected: the change touches them.
    """
    regions = _regions(old)
    block = frontmatter.split(old).block
    properties = frontmatter.read(block).values if block is not None else {}
    if not regions and properties.get("schema") != _MANAGED_SCHEMA:
        return
    new_block = frontmatter.split(new).block
    if block is not None and block != new_block:
        after = frontmatter.read(new_block).values if new_block is not None else {}
        # a block that can't be read has no properties to compare
        if not properties or any(key not in after or not _same(after[key], was) for key, was in properties.items()):
            raise _managed(path)
    if regions != _regions(new):
        raise _managed(path)


def _same(one: Json, other: Json) -> bool:
    """Whether both are written alike: 1, 1.0 and true are three values here."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _managed(path: VaultPath) -> Protected:
    return Protected(
        f"'{echo(path.text)}' is managed by its exporter:"
        " its existing frontmatter and the marked region must stay as they are."
    )


def _regions(text: str) -> list[str]:
    """The marked regions with their marks; one that is not closed goes to the end."""
    found: list[str] = []
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        end = _END.search(text, begin.end())
        at = end.end() if end is not None else len(text)
        found.append(text[begin.start() : at])
    return found
