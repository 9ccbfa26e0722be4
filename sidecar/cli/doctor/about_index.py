"""Checks of the index and of the models. Nothing is changed, and the store is never opened beside a daemon."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing

from sidecar.cli import where
from sidecar.cli.doctor.scene import Finding, Scene
from sidecar.index import aside, manifest_file
from sidecar.index.keyword_store import SNAPSHOT_NAME, KeywordStore

_AT_NEXT_START = "start the daemon: it sets the file aside and makes the index again"
_AGAIN = "stop and start the daemon: it sets the file aside and makes the index again"
_PATIENCE_S = 0.3  # a log that is being written to may end in half a record for a moment


def manifest(scene: Scene) -> Finding:
    """The truth about the index: whether it can be read, and whether SQLite finds it whole."""
    path = scene.manifest
    cure = _AGAIN if scene.status else _AT_NEXT_START
    if not path.exists() and not path.is_symlink():
        if (scene.state_dir / SNAPSHOT_NAME).exists():
            return Finding("wrong", "is gone, though the keyword index is there", cure)
        return Finding("ok", "there is none yet; the first start makes it")
    try:
        with closing(manifest_file.checked(path, mode="rw")) as db:
            db.execute("PRAGMA query_only = ON")
            problem = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            notes, ahead = db.execute(
                "SELECT count(*), sum(mtime_ns > ?) FROM notes", (time.time_ns() + 86_400 * 10**9,)
            ).fetchone()
    except manifest_file.Unfit as unfit:
        return Finding("wrong", str(unfit), cure)
    except sqlite3.Error as failed:
        return Finding("wrong", f"can't be read ({failed})", cure)
    if problem != "ok":
        return Finding("wrong", f"is damaged ({problem})", cure)
    if kept := aside.found(path):
        size = sum(found.stat().st_size for found in kept.values() if found.is_file())
        return Finding(
            "note",
            f"is whole, {notes:,} notes; {len(kept)} that were damaged are kept beside it ({size >> 20:,} MiB)",
            f"delete {path.name}.damaged-* in the state folder when you don't want to look at them",
        )
    if ahead:
        return Finding("note", f"is whole, {notes:,} notes; {ahead:,} of them are dated in the future")
    return Finding("ok", f"is whole, {notes:,} notes")


def keywords(scene: Scene) -> Finding:
    """The keyword index on disk, a cache of the manifest."""
    if not (scene.state_dir / SNAPSHOT_NAME).exists():
        return Finding("ok", "there is none yet; the first start makes it")
    try:
        with closing(manifest_file.checked(scene.manifest, mode="rw")) as db:
            identity = str(db.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()[0])
    except (manifest_file.Unfit, sqlite3.Error):
        return Finding("note", "is made again together with the manifest")
    store = KeywordStore(scene.state_dir)
    problem = store.inspect(identity)
    if problem and scene.status:
        time.sleep(_PATIENCE_S)
        problem = store.inspect(identity)
    if problem:
        return Finding("wrong", problem, "start the daemon: it makes it again from the manifest")
    return Finding("ok", "is whole")


def model(scene: Scene) -> Finding:
    """The files of the model that makes the vectors."""
    from sidecar.index.embed.weights import MODELS, Model, found, is_present, is_right

    if scene.config is None or not scene.config.index.rag:
        return Finding("ok", "none is needed: search by meaning is off")
    wanted = str(scene.config.index.embedder)
    models_dir = where.models_dir(scene.place)
    names: list[Model] = [name for name in MODELS if wanted in ("auto", name)]
    if not names:
        return Finding("ok", f"{wanted} has no files here")
    present: list[Model] = [name for name in names if is_present(name, models_dir)]
    if not present:
        parts = MODELS[names[0]]
        return Finding("wrong", f"{wanted}: the model is not on this computer", parts[0].cure)
    name = present[0]
    for part in MODELS[name]:
        if not any(is_right(part, copy) for copy in found(part, models_dir)):
            return Finding("wrong", f"{part.name} of {name} is damaged: its hash is wrong", part.cure)
    return Finding("ok", f"{name} is here, and its hash is right")


def vectors(scene: Scene) -> Finding:
    """The vector index: what the daemon says of it or, where none runs, whether the store finds its own vectors."""
    if scene.config is None or not scene.config.index.rag:
        return Finding("ok", "search by meaning is off")
    if scene.status:
        return _of_daemon(scene.status["vectors"], scene.status["chunks"])
    if scene.is_locked:
        return Finding("note", "are not looked at while a daemon that does not answer may have them open")
    if not scene.manifest.exists():
        return Finding("ok", "there are none yet")
    import asyncio

    from sidecar.index.probe import probe
    from sidecar.index.vector_options import from_settings

    options = from_settings(scene.config, where.models_dir(scene.place), dict(os.environ))
    if options is None or options.server:
        return Finding("ok", "are on a Chroma server; a running daemon says whether it answers")
    found = asyncio.run(probe(scene.state_dir / "chroma", scene.manifest, options))
    if found.problem is None:
        return Finding("ok", found.says)
    if found.is_lasting:
        return Finding("wrong", found.problem)
    return Finding(
        "wrong", found.problem, "start the daemon: it sets the store aside and fills a new one from its cache"
    )


def _of_daemon(says: str, chunks: dict[str, int]) -> Finding:
    state, _, reason = says.partition(": ")
    share = f"{chunks['vector']:,} of {chunks['total']:,} chunks have a vector"
    if state == "ready":
        is_complete = chunks["vector"] == chunks["total"] and not reason
        return Finding("ok" if is_complete else "note", f"{share}; {reason}" if reason else share)
    if state == "starting":
        return Finding("note", f"{reason} {share}", "wait a little")
    if state == "off":
        return Finding("wrong", reason, "do what the sentence says, then start the daemon again")
    return Finding("wrong", reason, "it is tried again by itself; if it stays so, stop and start the daemon")


__all__ = ["keywords", "manifest", "model", "vectors"]
