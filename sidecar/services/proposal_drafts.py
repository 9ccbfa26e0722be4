"""From the texts that a caller suggests to a patch, or to a refusal. Nothing is written here."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Final

from sidecar.errors import BadArguments, BadPath, NotFound, TooLarge, Unreadable
from sidecar.services.proposal_store import MAX_PATCH_BYTES
from sidecar.services.protection import Protection, refuse_managed
from sidecar.vault import patch
from sidecar.vault.jail import Jail
from sidecar.vault.names import folded, twin_in
from sidecar.vault.notes import decode
from sidecar.vault.paths import VaultPath, echo
from sidecar.vault.placing import Placing
from sidecar.vault.reasons import reason_of

MAX_FILES: Final = 100
MAX_FILE_BYTES: Final = 1 << 20
MAX_BYTES: Final = 4 << 20
"""Of all texts of one proposal; also of a note that is to be changed, as it is now."""

BY: Final = "changed by a proposal"
"""How a refusal of a path ends."""


def too_large() -> TooLarge:
    """The error for a proposal beyond a limit."""
    return TooLarge("files: at most 100 files, 1 MiB each and 4 MiB in all.")


class Rules:
    """What a proposal may do to which notes of one vault. Blocks: call it in a lane."""

    def __init__(self, jail: Jail, protection: Protection, is_ignored: Callable[[VaultPath], bool]) -> None:
        self._jail = jail
        self._placing = Placing(jail)
        self._protection = protection
        self._is_ignored = is_ignored

    def path(self, raw: str) -> VaultPath:
        """A note that a proposal may create or change.

        Raises:
            BadPath, Protected: it may not.
        """
        path = self._protection.check(raw, by=BY)
        if self._is_ignored(path):
            raise BadPath(f"'{echo(raw)}' is left out of the vault by .kpignore; it can't be {BY}.")
        return path

    def present(self, path: VaultPath) -> bytes | None:
        """What a note holds now; None: there is none.

        Raises:
            Unreadable: it can't be read.
            TooLarge: it is larger than a proposal may be.
        """
        try:
            return self._jail.read(path, max_bytes=MAX_BYTES).data
        except NotFound:
            return None

    def together(self, paths: Sequence[VaultPath]) -> None:
        """Whether these notes can be changed as one.

        Raises:
            BadArguments: a path is there twice.
            BadPath: a note would have to be a folder, or a new folder is spelled in two ways.
        """
        notes: set[str] = set()
        for path in paths:
            if folded(path.text) in notes:
                raise BadArguments(f"'{echo(path.text)}' is listed twice.")
            notes.add(folded(path.text))
        folders: dict[str, list[tuple[VaultPath, VaultPath]]] = {}
        for path in paths:
            above = path.parent
            while above.text:
                form = folded(above.text)
                if form in notes:
                    raise BadPath(f"'{echo(path.text)}' can't lie in '{echo(above.text)}', which is a note.")
                self._refuse_two_spellings(path, above, folders.setdefault(form, []))
                above = above.parent

    def _refuse_two_spellings(self, path: VaultPath, above: VaultPath, seen: list[tuple[VaultPath, VaultPath]]) -> None:
        """`seen`: folders of nearly that name, and a note in each; grows."""
        if any(folder == above for folder, _ in seen):
            return
        for folder, other in seen:
            # two that are on the disk were somebody's choice
            if twin_in([folder.text], above.text) and self._jail.kind(above) == "missing":
                raise BadPath(
                    f"'{echo(path.text)}' spells a folder of '{echo(other.text)}' in another way; use one spelling."
                )
        seen.append((above, path))

    def change(self, path: VaultPath, old: bytes | None, new: bytes) -> None:
        """Whether a note may be changed in this way.

        Raises:
            Protected: an exporter manages what is changed.
            Conflict, BadPath, NotWritten: a new note can't have that name.
            Unreadable: that can't be told.
        """
        if old is not None:
            return refuse_managed(path, decode(old)[0], decode(new)[0])
        try:
            self._placing.check(path)
        except OSError as failed:
            raise Unreadable(f"The place of '{echo(path.text)}' can't be looked at: {reason_of(failed)}.") from failed


def drafted(rules: Rules, files: Sequence[tuple[str, str]]) -> bytes:
    """The patch that makes these texts of the vault as it is now. Blocks: call it in a lane.

    Raises:
        BadArguments, BadPath, Protected, Conflict, TooLarge, Unreadable: the sentence says which file, and what is
            wrong with it.
    """
    texts = _texts(files)
    paths = _paths(rules, [raw for raw, _ in files])
    parts: list[bytes] = []
    size = 0
    for path, text in zip(paths, texts, strict=True):
        old = rules.present(path)
        new = _with_mark_of(old or b"", text)
        if new == old:
            raise BadArguments(f"'{echo(path.text)}' already has this content.")
        if old is None and not new:
            raise BadArguments(f"'{echo(path.text)}' is new and empty; a proposal needs text.")
        rules.change(path, old, new)
        parts.append(patch.make(path.text, old, new))
        size += len(parts[-1])
        if size > MAX_PATCH_BYTES:
            raise too_large()
    return b"".join(parts)


def refuse_no_text(title: str, rationale: str) -> None:
    """Refuse what no file can hold.

    Raises:
        BadArguments: one line per mistake.
    """
    given = {"title": title, "rationale": rationale}
    mistakes = [f"{name}: must be text." for name, text in given.items() if _bytes(text) is None]
    if mistakes:
        raise BadArguments("\n".join(mistakes))


def _texts(files: Sequence[tuple[str, str]]) -> list[bytes]:
    if not files:
        raise BadArguments("files: is required.")
    if len(files) > MAX_FILES:
        raise too_large()
    texts: list[bytes] = []
    for _, content in files:
        text = _bytes(content)
        if text is None:
            raise BadArguments("files.content: must be text.")
        if b"\0" in text:
            raise BadArguments("files.content: must not hold NUL characters.")
        texts.append(text)
    if max(map(len, texts)) > MAX_FILE_BYTES or sum(map(len, texts)) > MAX_BYTES:
        raise too_large()
    return texts


def _paths(rules: Rules, raws: Sequence[str]) -> list[VaultPath]:
    paths = [rules.path(raw) for raw in raws]
    rules.together(paths)
    return paths


def _with_mark_of(old: bytes, new: bytes) -> bytes:
    """Texts are told to callers without their byte order mark, so they come back without it."""
    mark = codecs.BOM_UTF8
    return mark + new if old.startswith(mark) and not new.startswith(mark) else new


def _bytes(text: str) -> bytes | None:
    """None for half a character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None
