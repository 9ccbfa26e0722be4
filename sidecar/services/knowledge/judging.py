"""What callers say of each other's units, and what comes of it: a unit's quality and an agent's record. It blocks."""

from __future__ import annotations

from sidecar.bridge.token import Caller
from sidecar.errors import NotFound
from sidecar.services.knowledge import quality
from sidecar.services.knowledge.records import SKILL, Stored, stored
from sidecar.services.knowledge.reputation import Record
from sidecar.services.knowledge.store import Store


def unit(store: Store, unit_id: str, shown: str, caller: Caller) -> Stored:
    """The unit that a caller means by the store's id or by the unit's own; his own one first, then the oldest.
    `shown` is the id as it may stand in a sentence.

    Raises:
        NotFound: there is none that he may see.
    """
    values = {"id": unit_id, "kind": SKILL, "agent": caller.agent_id, "org": caller.org}
    rows = store.rows(
        "SELECT {columns} FROM items WHERE (id = :id OR own_id = :id) AND kind <> :kind AND {visible}"
        " ORDER BY contributor <> :agent, item_key LIMIT 1",
        values,
    )
    if not rows:
        raise NotFound(f"No knowledge unit has the id '{shown}'. Find ids with kp_search_knowledge.")
    return stored(rows[0])


def judge(store: Store, item: Stored, caller: Caller, valid: bool, feedback: str | None, now: str) -> None:
    """Record what a caller says about a unit, in place of what he said before."""
    is_other = caller.agent_id not in (item.contributor, item.credited)
    counts = is_other or caller.agent_id == "local"
    with store.writing() as db:
        db.execute(
            "INSERT OR REPLACE INTO judgments VALUES (?, ?, ?, ?, ?, ?, ?)",
            (item.key, caller.agent_id, valid, counts, is_other, feedback, now),
        )
        if is_other:
            db.execute("INSERT OR IGNORE INTO ledger VALUES (?, 'judgment', ?, ?)", (caller.agent_id, item.key, now))
        said_valid, said_invalid = db.execute(
            "SELECT coalesce(sum(valid), 0), coalesce(sum(NOT valid), 0) FROM judgments WHERE item_key = ? AND counts",
            (item.key,),
        ).fetchone()
        db.execute(
            "UPDATE items SET quality = ?, quarantined = ? WHERE item_key = ?",
            (
                quality.judged(item.contributed, said_valid, said_invalid),
                quality.is_quarantined(said_valid, said_invalid),
                item.key,
            ),
        )


def record_of(store: Store, agent: str, caller: Caller) -> Record:
    """What is counted of an agent, among the items that the caller may see: others give nothing away."""
    values = {"of": agent, "agent": caller.agent_id, "org": caller.org, "skill": SKILL}
    deeds = dict(
        store.rows(
            "SELECT deed, count(*) FROM ledger JOIN items USING (item_key)"
            " WHERE ledger.agent = :of AND {visible} GROUP BY deed",
            values,
        )
    )
    [(valid, invalid)] = store.rows(
        "SELECT coalesce(sum(valid), 0), coalesce(sum(NOT valid), 0) FROM judgments JOIN items USING (item_key)"
        " WHERE credited = :of AND kind <> :skill AND by_other AND {visible}",
        values,
    )
    return Record(deeds.get("unit", 0), deeds.get("skill", 0), deeds.get("judgment", 0), valid, invalid)
