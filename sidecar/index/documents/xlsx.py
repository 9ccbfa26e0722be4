"""Workbooks (.xlsx), through calamine: each sheet as a table. Cached values only; no formula is ever evaluated."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime, time, timedelta

from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum

from sidecar.index.documents.container import harmless
from sidecar.index.documents.document import Refused
from sidecar.index.documents.tables import table


def passages(data: bytes) -> Iterator[str]:
    """Chunks of every sheet in their order, each chunk under the sheet's name.

    Raises:
        Refused: it can't be read.
    """
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(harmless(data)))
        for sheet in workbook.sheets_metadata:
            if sheet.typ == SheetTypeEnum.WorkSheet:
                rows = workbook.get_sheet_by_name(sheet.name).iter_rows()
                yield from table((list(map(_shown, row)) for row in rows), sheet.name)
    except CalamineError as failed:
        raise Refused("it can't be read as a workbook") from failed


def _shown(value: object) -> str:
    """A cell as a person would write it."""
    match value:
        case str():
            return value
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case datetime() if value.time() == time():
            return value.date().isoformat()
        case datetime():
            return value.isoformat(" ", "seconds")
        case timedelta():
            minutes, seconds = divmod(round(value.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        case None:
            return ""
        case _:
            return str(value)
