"""Presentations (.pptx), through python-pptx: one chunk a slide, its title first, its notes last."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pptx

from sidecar.index.documents.container import harmless
from sidecar.index.documents.document import LONGEST_WHOLE
from sidecar.index.documents.passages import parts

Shape = Any
"""Of python-pptx, which tells kinds of shapes apart by what they have."""


def passages(data: bytes) -> Iterator[str]:
    """The text of each slide, empty for a slide without text, so that slide and chunk have the same number.

    Raises:
        Refused: it can't be unpacked.
    """
    for slide in cast("Iterable[Any]", pptx.Presentation(io.BytesIO(harmless(data))).slides):
        title = slide.shapes.title
        texts = [] if title is None else [_clean(title.text_frame.text)]
        texts += [text for shape in slide.shapes if shape != title for text in _texts(shape)]
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame):
            texts.append(_clean(notes.text))
        text = "\n".join(filter(None, texts))
        yield from parts(text, LONGEST_WHOLE) if text else ("",)


def _texts(shape: Shape) -> Iterator[str]:
    """What a shape says; groups are taken apart."""
    if hasattr(shape, "shapes"):
        for inner in shape.shapes:
            yield from _texts(inner)
    elif shape.has_text_frame:
        yield _clean(shape.text_frame.text)
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield " | ".join(" ".join(cell.text_frame.text.split()) for cell in row.cells)


def _clean(text: str) -> str:
    return text.replace("\v", "\n").strip()
