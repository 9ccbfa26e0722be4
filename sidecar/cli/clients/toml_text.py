"""Edits TOML in place, by tomlkit; a new table goes to the end of the file, so that nothing before it moves."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from sidecar.cli.clients.broken import Broken


def read(text: str) -> dict[str, Any]:
    """All that a text holds.

    Raises:
        Broken: it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Broken(str(error)) from error


def put(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """The text with the table at `path` equal to `value`; what is equal already is left alone.

    Raises:
        Broken: as `read`; or something on the way is no table, or is written so that nothing can be added to it.
    """
    there = _table(read(text), path)
    if there == value:
        return text
    newline = "\r\n" if "\r\n" in text and "\n" not in text.replace("\r\n", "") else "\n"
    changed = _appended(text, path, value, newline) if there is None else _changed(text, path, value, newline)
    if changed is None or not _is_only_change(text, changed, path, value):
        raise Broken(f"'{'.'.join(path)}' can't be entered beside what is there; add it by hand")
    return changed


def render(path: Sequence[str], value: Mapping[str, Any]) -> str:
    """A whole text with just `value` at `path`."""
    return put("", path, value)


def _appended(text: str, path: Sequence[str], value: Mapping[str, Any], newline: str) -> str:
    table = tomlkit.table()
    _fill(table, value)
    top = tomlkit.document()
    inner: MutableMapping[str, Any] = top
    for key in path[:-1]:
        inner = cast("MutableMapping[str, Any]", inner.setdefault(key, tomlkit.table(is_super_table=True)))
    inner[path[-1]] = table
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    return text + gap + tomlkit.dumps(top).replace("\n", newline)  # pyright: ignore[reportUnknownMemberType]


def _changed(text: str, path: Sequence[str], value: Mapping[str, Any], newline: str) -> str | None:
    try:
        document = tomlkit.parse(text)
        table = cast("MutableMapping[str, Any]", _table(document, path))
        for key in [key for key in table if key not in value]:
            del table[key]
        _fill(table, value)
    except (TOMLKitError, TypeError, ValueError):  # it has forms that the library can't change
        return None
    changed = document.as_string()
    return changed.replace("\r\n", "\n").replace("\n", "\r\n") if newline == "\r\n" else changed


def _fill(table: MutableMapping[str, Any], value: Mapping[str, Any]) -> None:
    for key, wanted in value.items():
        if key in table and table[key] == wanted:
            continue
        if isinstance(wanted, Mapping):
            inline = tomlkit.inline_table()
            for name, text in cast("dict[str, Any]", wanted).items():
                inline[name] = text
            table[key] = inline
        else:
            table[key] = wanted


def _table(data: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any] | None:
    """What is at `path`; None where nothing is.

    Raises:
        Broken: something on the way is no table.
    """
    found: Mapping[str, Any] = data
    for number, key in enumerate(path, 1):
        if key not in found:
            return None
        if not isinstance(found[key], Mapping):
            raise Broken(f"'{'.'.join(path[:number])}' must be a table")
        found = found[key]
    return found


def _is_only_change(text: str, changed: str, path: Sequence[str], value: Mapping[str, Any]) -> bool:
    """Does the new text say all that the old one said, but for the table at `path`?"""
    try:
        now, before = read(changed), read(text)
    except Broken:
        return False
    inner = before
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = dict(value)
    return now == before
