"""From the name and the bytes of a file to its passages. Pure; what it calls may crash or never end, so see `worker`.

The parsers of other people are imported when a file of their type is met.
"""

from __future__ import annotations

import codecs
import importlib
from collections.abc import Callable, Iterable
from typing import Final

from sidecar.index.documents import passages, tables
from sidecar.index.documents.document import Document, Refused, gathered

_PARSERS: Final = {suffix: f"sidecar.index.documents.{suffix[1:]}" for suffix in (".pdf", ".docx", ".pptx", ".xlsx")}
_VALUES: Final = {".csv": None, ".tsv": "\t"}
"""Types of tables as text, and their separator where it is always the same."""

_LOOKED_AT: Final = 8 << 10

_PICTURES: Final = ".avif .bmp .gif .heic .ico .jpeg .jpg .jxl .png .psd .tif .tiff .webp"
_SOUNDS: Final = ".aac .aif .aiff .flac .m4a .mid .mp3 .oga .ogg .opus .wav .wma"
_FILMS: Final = ".avi .m4v .mkv .mov .mp4 .mpeg .mpg .ogv .webm .wmv"
_CONTAINERS: Final = ".7z .bz2 .dmg .gz .iso .jar .rar .tar .tgz .whl .xz .zip .zst"
_PROGRAMS: Final = ".class .dll .dylib .exe .pyc .so .wasm"
_FONTS: Final = ".otf .ttc .ttf .woff .woff2"
_NEVER_TEXT: Final = frozenset(" ".join((_PICTURES, _SOUNDS, _FILMS, _CONTAINERS, _PROGRAMS, _FONTS)).split())
"""Files that are not even opened: a folder may hold many, and large ones, and none of them is ever text."""


def takes(name: str) -> bool:
    """Whether a file of this name or path may be a document. Lock files of office programs begin with `~$`."""
    name = name[name.rfind("/") + 1 :]
    return _suffix(name) not in _NEVER_TEXT and not name.startswith("~$")


def is_plain(name: str) -> bool:
    """Whether no parser of other people is needed, so that it may be read in any process."""
    return _suffix(name) not in _PARSERS


def grows(name: str) -> bool:
    """Whether passages may be much longer than the file: in a table the name of its column stands before each value."""
    return _suffix(name) in _VALUES


def read(name: str, data: bytes) -> Document:
    """The passages of a file. A file that is neither of a known type nor text has none, and no warning.

    Raises:
        MemoryError: there is not enough for it.
    """
    suffix = _suffix(name)
    try:
        if parser := _PARSERS.get(suffix):
            parse: Callable[[bytes], Iterable[str]] = importlib.import_module(parser).passages
            return gathered(parse(data))
        if suffix in _VALUES:
            text, warning = _decoded(data)
            return gathered(tables.table(tables.rows_of(text, _VALUES[suffix])), warning)
        if not _is_text(data):
            return Document(())
        return gathered(passages.passages(data.decode("utf-8", "replace")))
    except Refused as refused:
        return Document((), str(refused))
    except MemoryError:
        raise
    except Exception:  # parsers raise anything at all for a damaged file
        return Document((), "it can't be read; it may be damaged")


def _suffix(name: str) -> str:
    dot = name.rfind(".")
    return name[dot:].lower() if dot >= 0 else ""


def _is_text(data: bytes) -> bool:
    head = data[:_LOOKED_AT]
    if b"\0" in head:
        return False
    try:
        # the cut may go through a character
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(data) <= _LOOKED_AT)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(data: bytes) -> tuple[str, str | None]:
    """Text of a table, and a warning if its letters had to be guessed. Spreadsheets write both UTF-16 and old sets."""
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace").replace("\0", ""), None
    try:
        return data.decode("utf-8-sig").replace("\0", ""), None
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace").replace("\0", "")
        return text, "it is not UTF-8; it was read as Windows-1252, so some letters may be wrong"
