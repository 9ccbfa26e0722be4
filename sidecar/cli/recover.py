"""`recover list|show|restore`: texts of notes that were replaced, or that a write met and did not use."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from dataclasses import asdict

from sidecar.bridge.client import LocalClient
from sidecar.cli import changes, where
from sidecar.cli.where import Where
from sidecar.services.copies import Copies, no_copy
from sidecar.vault.paths import printable

_WHY = {
    "replaced": "replaced as a whole",
    "applied": "replaced by a proposal",
    "displaced": "another program saved it while it was written",
    "left": "left by a write that was cut off",
}


def run(args: Namespace) -> int:
    """List the kept texts, print one, or put one back."""
    place = where.find(args)
    match args.action:
        case "list":
            _list(place, as_json=args.json)
        case "show":
            _show(place, args.id, as_json=args.json)
        case _:
            _restore(place, args.id, as_json=args.json)
    return 0


def _list(place: Where, *, as_json: bool) -> None:
    copies = Copies(place.state_dir).all()
    if as_json:
        print(json.dumps({"copies": [asdict(copy) for copy in copies]}))
        return
    if not copies:
        print("no texts are kept")
    for copy in copies:
        print(f"{copy.copy_id}  {copy.at}  {copy.size:>9,} bytes  {printable(copy.path)} ({_WHY[copy.why]})")


def _show(place: Where, ending: str, *, as_json: bool) -> None:
    copy, data = Copies(place.state_dir).find(ending)
    if as_json:
        print(json.dumps({**asdict(copy), "content": data.decode("utf-8", "replace")}))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)  # as it was, byte for byte, so that it can be sent to a file
    sys.stdout.buffer.flush()


def _restore(place: Where, ending: str, *, as_json: bool) -> None:
    if not place.state_dir.is_dir():  # and none is made for a vault that was never served
        raise no_copy(ending)

    def ask(client: LocalClient) -> changes.Facts:
        return client.post("/admin/restore", id=ending)

    restored = changes.make(place, ask, lambda: _restore_alone(place, ending))
    if as_json:
        print(json.dumps(restored))
        return
    kept = "; the text it had is kept" if restored["old_is_kept"] else ""
    print(f"restored {printable(restored['path'])}{kept}", file=sys.stderr)


def _restore_alone(place: Where, ending: str) -> changes.Facts:
    """What the daemon would do."""
    from sidecar.services.recovery import restore
    from sidecar.vault.files import Files
    from sidecar.vault.jail import Jail

    config = where.load_config(place)
    copies = Copies(place.state_dir)
    copy, data = copies.find(ending)
    jail = Jail(place.vault, other_devices=config.notes.other_devices)
    try:
        files = Files(jail, copies.add, max_bytes=config.index.max_note_mib << 20)
        try:
            return asdict(restore(files, copy, data))
        finally:
            files.displaced.look_again(at_all=True)
    finally:
        jail.close()
