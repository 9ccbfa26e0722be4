"""The registry's records in SQLite: who contributed what, who may see it, what others say about it.

One writer, in one lane: everything blocks and nothing here waits for anybody.
Each change is one transaction, on the disk before it is answered.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from sidecar.bridge.token import Caller
from sidecar.errors import Conflict, NotFound, NotWritten, TooLarge, Unreadable
from sidecar.index.trouble import disk_trouble, is_damage
from sidecar.index.wire import Float16, Int64
from sidecar.services.knowledge.records import SKILL, Full, New, Stored, stored
from sidecar.services.knowledge.store_file import open_or_make, unusable
from sidecar.services.knowledge.unit_schema import OWN_IDS
from sidecar.ulids import new_ulid
from sidecar.vault.paths import echo

MOST_ITEMS: Final = 20_000
"""Up to so many vectors are compared one by one; more items are refused."""

_COLUMNS: Final = (
    "item_key, id, kind, own_id, name, domain, tags, contributor, org, credited, visibility, contributed, quality,"
    " suspicious, held, quarantined, warnings, created"
)
_VISIBLE: Final = "(visibility = 'network' OR contributor = :agent OR (visibility = 'org' AND org = :org))"


class Store:
    """The registry of one vault."""

    def __init__(self, state_dir: Path) -> None:
        """Raises Unreadable where the file can't be used, as every call does that finds it damaged later."""
        self._db = open_or_make(state_dir)
        self.problem: str | None = None
        """What was found wrong with the file since."""

    def close(self) -> None:
        """Fold the log into the file."""
        self._db.close()

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """One transaction.

        Raises:
            NotWritten: the disk refused; nothing is changed.
        """
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
        except sqlite3.Error as failed:
            trouble = disk_trouble(failed)
            if trouble is None:
                raise self._told(failed) from failed
            raise NotWritten(f"The registry could not be changed: {trouble}. It is as it was.") from failed

    def _told(self, failed: sqlite3.Error) -> Unreadable:
        found = unusable(failed)
        if is_damage(failed):
            self.problem = str(found)
        return found

    def forget(self, key: int) -> None:
        """Delete an item, with its judgments and the credit for it; afterwards its text is in none of the files.

        Raises:
            NotWritten: the disk refused.
        """
        with self.writing() as db:
            db.execute("DELETE FROM items WHERE item_key = ?", (key,))
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log still had it
        except sqlite3.Error as failed:
            reason = disk_trouble(failed) or str(failed)
            raise NotWritten(f"It is removed, but its text is still in the registry's log: {reason}.") from failed

    def rows(self, query: str, values: Mapping[str, Any] | Sequence[Any] = ()) -> list[Any]:
        """What a query selects. `{columns}` in it are those of `Stored`; `{visible}` is the condition that the caller
        `:agent` of `:org` may see an item."""
        query = query.replace("{columns}", _COLUMNS).replace("{visible}", _VISIBLE)
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as failed:
            raise self._told(failed) from failed

    # --- contributing ---

    def same(self, new: New, caller: Caller) -> Stored | None:
        """The item that this contribution repeats. One that is another's is none, though it may be equal.

        Raises:
            Conflict: a unit that the caller can see has the same own id and other content.
        """
        if new.given_id is None:
            return self._one("contributor = ? AND checksum = ? AND given_id = ''", (caller.agent_id, new.checksum))
        known = {"own_id": new.given_id, "agent": caller.agent_id, "org": caller.org}
        rows = self.rows("SELECT {columns}, checksum FROM items WHERE own_id = :own_id AND {visible}", known)
        for *columns, checksum in rows:
            found = stored(columns)
            if checksum != new.checksum:
                raise Conflict(
                    f"A unit with the id '{echo(new.given_id)}' exists with other content;"
                    " leave out id or choose another."
                )
            if found.contributor == caller.agent_id:
                return found
        return None

    def show_to(self, item: Stored, visibility: str) -> None:
        """Let these see an item from now on."""
        with self.writing() as db:
            db.execute("UPDATE items SET visibility = ? WHERE item_key = ?", (visibility, item.key))

    def add(self, new: New, caller: Caller, score: float, now: str) -> Stored:
        """Store a contribution and give the credit for it.

        Raises:
            TooLarge: there are 20,000 items already.
            NotWritten: the disk refused.
        """
        is_skill = new.kind == SKILL
        ulid = new_ulid().lower()
        own_id = "" if is_skill else new.given_id or OWN_IDS[new.kind] + ulid
        with self.writing() as db:
            if db.execute("SELECT count(*) FROM items").fetchone()[0] >= MOST_ITEMS:
                raise TooLarge(
                    f"The registry holds {MOST_ITEMS:,} items, the most it can;"
                    " 'vault-sidecar knowledge remove' makes room."
                )
            (key,) = db.execute(
                "INSERT INTO items (id, kind, own_id, given_id, name, domain, folded_domain, tags, contributor, org,"
                " credited, visibility, contributed, quality, checksum, suspicious, held, warnings, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING item_key",
                (
                    f"{'skill' if is_skill else 'ku'}-{ulid}",
                    new.kind,
                    own_id,
                    new.given_id or "",
                    new.name,
                    new.domain,
                    folded(new.domain),
                    json.dumps(new.tags, ensure_ascii=False),
                    caller.agent_id,
                    caller.org,
                    new.credited,
                    new.visibility or "network",
                    score,
                    score,
                    new.checksum,
                    new.suspicious,
                    new.held,
                    json.dumps(new.warnings, ensure_ascii=False),
                    now,
                ),
            ).fetchone()
            db.execute("INSERT INTO contents VALUES (?, ?, ?)", (key, new.content, new.words))
            db.executemany("INSERT OR IGNORE INTO tags VALUES (?, ?)", [(folded(tag), key) for tag in new.tags])
            deed = "skill" if is_skill else "unit"
            db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", (new.credited, deed, key, now))
        stored = self._one("item_key = ?", (key,))
        assert stored is not None
        return stored

    # --- finding ---

    def allowed(
        self,
        caller: Caller,
        kinds: Sequence[str],
        min_quality: float,
        domain: str | None = None,
        tags: Sequence[str] = (),
    ) -> Int64:
        """Keys of the items of these kinds that a search by this caller may return, ascending."""
        values: dict[str, Any] = {"agent": caller.agent_id, "org": caller.org, "least": min_quality}
        values["kinds"] = json.dumps(list(kinds))
        where = (
            "{visible} AND NOT held AND NOT quarantined AND quality >= :least"
            " AND kind IN (SELECT value FROM json_each(:kinds))"
        )
        if domain and domain.strip():
            where += " AND folded_domain = :domain"
            values["domain"] = folded(domain)
        if tags:
            where += " AND item_key IN (SELECT item_key FROM tags WHERE tag IN (SELECT value FROM json_each(:tags)))"
            values["tags"] = json.dumps([folded(tag) for tag in tags])
        return self._keys(where, values)

    def comparable(self, kind: str) -> Int64:
        """Keys of all items of one kind, ascending, whoever may see them: novelty is measured against all."""
        return self._keys("kind = :kind", {"kind": kind})

    def _keys(self, where: str, values: Mapping[str, Any]) -> Int64:
        # one text instead of thousands of rows: half of the time of a search went into those
        [(joined,)] = self.rows(" ".join(("SELECT group_concat(item_key) FROM items WHERE", where)), values)
        return np.sort(np.fromstring(joined or "", np.int64, sep=","))

    def order(self, keys: Sequence[int]) -> dict[int, tuple[float, str]]:
        """What decides among items of equal relevance, the least first. Unknown keys are left out."""
        query = "SELECT item_key, -quality, id FROM items WHERE item_key IN (SELECT value FROM json_each(?))"
        return {key: (worst, item_id) for key, worst, item_id in self.rows(query, (json.dumps(list(keys)),))}

    def full(self, keys: Sequence[int]) -> dict[int, Full]:
        """The items with their content, by key. Unknown keys are left out."""
        found: dict[int, Full] = {}
        query = "SELECT {columns}, content FROM items JOIN contents USING (item_key) WHERE item_key = ?"
        for key in keys:
            for *columns, content in self.rows(query, (key,)):
                item = stored(columns)
                found[key] = Full(item, content if item.kind == SKILL else self._unit(item, json.loads(content)))
        return found

    def _unit(self, item: Stored, content: dict[str, Any]) -> dict[str, Any]:
        """A unit with what the store knows better."""
        judges = self.rows("SELECT agent FROM judgments WHERE item_key = ? AND valid AND counts", (item.key,))
        own = {"quality_score": item.quality, "visibility": item.visibility, "validated_by": [row[0] for row in judges]}
        return {**content, "id": item.own_id, "metadata": {**content["metadata"], **own}}

    def words(self, key: int) -> str:
        """What an item is found by; "" for one that is gone."""
        rows = self.rows("SELECT words FROM contents WHERE item_key = ?", (key,))
        return rows[0][0] if rows else ""

    def all_words(self, after: int, most: int) -> list[tuple[int, str]]:
        """(key, words) of the next items behind a key."""
        query = "SELECT item_key, words FROM contents WHERE item_key > ? ORDER BY item_key LIMIT ?"
        return self.rows(query, (after, most))

    # --- vectors ---

    def keep_vectors(self, embedder: str, keys: Sequence[int], vectors: Float16) -> list[int]:
        """Store vectors[n, dim]; those of another embedder go. Returns the keys of items that are still there."""
        with self.writing() as db:
            known = [key for key in keys if db.execute("SELECT 1 FROM items WHERE item_key = ?", (key,)).fetchone()]
            rows = {key: vectors[place].tobytes() for place, key in enumerate(keys)}
            db.executemany("DELETE FROM vectors WHERE item_key = ?", [(key,) for key in known])
            db.executemany("INSERT INTO vectors VALUES (?, ?, ?)", [(key, embedder, rows[key]) for key in known])
        return known

    def vectors(self, embedder: str) -> tuple[list[int], Float16]:
        """Keys of the items with a vector by that embedder, and vectors[n, dim]."""
        rows = self.rows("SELECT item_key, vector FROM vectors WHERE embedder = ? ORDER BY item_key", (embedder,))
        matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float16)
        return [row[0] for row in rows], matrix.reshape(len(rows), -1) if rows else matrix.reshape(0, 0)

    def without_vector(self, embedder: str, most: int) -> list[tuple[int, str]]:
        """(key, words) of items that have none by that embedder, oldest first."""
        query = (
            "SELECT item_key, words FROM contents WHERE NOT EXISTS"
            " (SELECT 1 FROM vectors WHERE vectors.item_key = contents.item_key AND embedder = ?)"
            " ORDER BY item_key LIMIT ?"
        )
        return self.rows(query, (embedder, most))

    def _one(self, where: str, values: Sequence[Any]) -> Stored | None:
        rows = self.rows(" ".join(("SELECT {columns} FROM items WHERE", where)), values)
        return stored(rows[0]) if rows else None

    def find(self, item_id: str) -> Stored:
        """Any item by the store's id, for the owner.

        Raises:
            NotFound: there is none.
        """
        found = self._one("id = ?", (storable(item_id),))
        if found is None:
            raise NotFound(f"There is no skill or knowledge unit '{echo(item_id)}'; 'knowledge list' shows the ids.")
        return found

    def all(self, after: int = 0, most: int = -1) -> list[Stored]:
        """Every item behind a key, oldest first, for the owner."""
        query = "SELECT {columns} FROM items WHERE item_key > ? ORDER BY item_key LIMIT ?"
        return [stored(row) for row in self.rows(query, (after, most))]


def folded(text: str) -> str:
    """Domains and tags are equal without case and outer blanks."""
    return storable(text).strip().casefold()


def storable(text: str) -> str:
    """A caller's text as SQLite takes it: halves of characters become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
