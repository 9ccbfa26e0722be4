"""`plugin install`: puts the editor's plugin, as this program was built with it, into a vault.

What the plugin keeps there itself, `data.json`, is never touched. A folder that
is a link may lead anywhere, so it is left alone.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from argparse import Namespace
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any, Final

from sidecar.bridge.places import check_vault
from sidecar.cli import where
from sidecar.errors import NotFound, NotWritten, Unreadable

FILES: Final = ("styles.css", "main.js", "manifest.json")
"""In the order in which they are replaced: the editor goes by the last one."""

_ID = "vault-sidecar"


def run(args: Namespace) -> int:
    """Install it, or bring it up to date."""
    vault = check_vault(where.vault_of(args), home=Path.home())
    facts = install(vault, built())
    if args.json:
        print(json.dumps(facts, indent=2))
        return 0
    if facts["changed"]:
        print(f"version {facts['version']} of the plugin is in {facts['folder']}")
        print(
            "In Obsidian: Settings, Community plugins, reload the list, and switch on Vault Sidecar;"
            " if it was on already, switch it off and on.",
            file=sys.stderr,
        )
    else:
        print(f"version {facts['version']} of the plugin is in {facts['folder']} already; nothing was changed")
    return 0


def built() -> dict[str, bytes]:
    """The plugin's files by their names.

    Raises:
        NotFound: this program was built without them.
    """
    folder = resources.files("sidecar.editor") / "plugin"
    try:
        return {name: (folder / name).read_bytes() for name in FILES}
    except OSError as error:
        raise NotFound(
            "this build of vault-sidecar has no editor plugin in it;"
            " in a clone of the sources 'scripts/plugin' makes it"
        ) from error


def install(vault: Path, files: dict[str, bytes]) -> dict[str, Any]:
    """Write what differs; whether that was anything, and where it is. Blocks.

    A first installation appears whole or not at all. An update replaces file by file, each whole.

    Raises:
        NotFound: no editor has opened the folder as a vault.
        Unreadable: something is in the way.
        NotWritten: the disk refused.
    """
    config = vault / ".obsidian"
    if not config.is_dir():
        raise NotFound("this folder has no .obsidian in it: open it in Obsidian as a vault once, then try again")
    folder = config / "plugins" / _ID
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise Unreadable(f".obsidian/plugins/{_ID} is a link or a file; remove it, then try again")
    try:
        changed = _replace(folder, files) if folder.is_dir() else _place(folder, files)
    except OSError as error:
        raise NotWritten(f".obsidian/plugins/{_ID} can't be written: {error.strerror}") from error
    version = json.loads(files["manifest.json"])["version"]
    return {"version": version, "folder": str(folder), "changed": changed}


def _place(folder: Path, files: dict[str, bytes]) -> bool:
    folder.parent.mkdir(exist_ok=True)
    made = folder.with_name(f".{_ID}.{secrets.token_hex(4)}")
    made.mkdir()
    try:
        for name, content in files.items():
            _write(made / name, content)
        made.rename(folder)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return True


def _replace(folder: Path, files: dict[str, bytes]) -> bool:
    changed = False
    for name in FILES:
        path = folder / name
        if path.is_symlink() or not path.is_file() or path.read_bytes() != files[name]:
            changed = True
            beside = folder / f".{name}.{secrets.token_hex(4)}"
            try:
                _write(beside, files[name])
                os.replace(beside, path)
            except OSError:
                with suppress(OSError):
                    beside.unlink()
                raise
    return changed


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
