"""The registry as its owner sees it: all of it, whoever contributed it. Blocks.

With a daemon it runs in the registry's lane, without one under the vault's lock.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from sidecar.errors import Conflict
from sidecar.services.knowledge.records import Stored
from sidecar.services.knowledge.store import Store

_PAGE_CHARS: Final = 8 << 20
"""Contents of a page of an export, about: an answer of the daemon has a limit."""
_PAGE_ITEMS: Final = 1_000

Facts = dict[str, Any]


def listed(store: Store) -> Facts:
    """Every item, oldest first, without contents."""
    return {"items": [_facts(item) for item in store.all()]}


def shown(store: Store, item_id: str) -> Facts:
    """One item with its content and what was said about it.

    Raises:
        NotFound: there is none.
    """
    return _with_content(store, store.find(item_id))


def removed(store: Store, item_id: str) -> tuple[Facts, int]:
    """Delete an item, with the judgments on it and the credit for it. The facts, and its key.

    Raises:
        NotFound: there is none.
        NotWritten: the disk refused.
    """
    item = store.find(item_id)
    store.forget(item.key)
    return {"removed": item.id, "name": item.name}, item.key


def released(store: Store, item_id: str) -> Facts:
    """Let an item be found that was held back for its text.

    Raises:
        NotFound: there is none.
        Conflict: it is not held back, or judgments keep it out of searches.
        NotWritten: the disk refused.
    """
    item = store.find(item_id)
    if not item.held:
        reason = "judgments keep it out of searches; later ones can lift that" if item.quarantined else "it is not held"
        raise Conflict(f"'{item.id}' can't be released: {reason}.")
    with store.writing() as db:
        db.execute("UPDATE items SET held = 0 WHERE item_key = ?", (item.key,))
    return {"released": item.id, "name": item.name}


def exported(store: Store, after: int) -> Facts:
    """The next items behind a key, with their contents; `next` is where to go on, None at the end."""
    items: list[Facts] = []
    size = 0
    for item in store.all(after, _PAGE_ITEMS):
        facts = _with_content(store, item)
        items.append(facts)
        after = item.key
        size += len(str(facts["content"]))
        if size > _PAGE_CHARS:
            break
    return {"items": items, "next": after if items else None}


def _facts(item: Stored) -> Facts:
    facts = asdict(item)
    del facts["key"]
    return facts


def _with_content(store: Store, item: Stored) -> Facts:
    judgments = store.rows(
        "SELECT agent, valid, counts, feedback, made FROM judgments WHERE item_key = ? ORDER BY made, agent",
        (item.key,),
    )
    said = [
        {"agent": agent, "valid": bool(valid), "counts": bool(counts), "feedback": feedback, "made": made}
        for agent, valid, counts, feedback, made in judgments
    ]
    return {**_facts(item), "judgments": said, "content": store.full([item.key])[item.key].content}
