"""Office files are zip containers of XML. Here they are unpacked with care, and handed on as something harmless.

The parsers get a container in which nothing is compressed any more and only
the XML is left: pictures, macros and embedded files are empty. So a bomb can
go off nowhere else than here, where every byte that comes out is counted,
whatever the container says of its sizes.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Final
from xml.parsers import expat

from sidecar.index.documents.document import Refused

MOST_UNPACKED: Final = 1 << 28
MOST_PARTS: Final = 10_000
RATIO: Final = 200
"""Of unpacked to packed bytes. Sheets of a million empty cells come to 20; deflate can reach 1,030."""
_SMALL: Final = 1 << 20  # below, any ratio is harmless

_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_STEP: Final = 1 << 16
_LOCAL_HEADER: Final = 30
_ENCRYPTED: Final = 1


def harmless(data: bytes) -> bytes:
    """The same container with its XML stored plain and everything else empty.

    Raises:
        Refused: it is no container, is protected, unpacks to too much, or its XML declares entities.
    """
    if data.startswith(_OLD_OFFICE):
        raise Refused("it is protected by a password, or of an old format under a new name")
    out = io.BytesIO()
    left = MOST_UNPACKED
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed, zipfile.ZipFile(out, "w") as plain:
            parts = packed.infolist()
            if len(parts) > MOST_PARTS:
                raise Refused(f"it is a container of more than {MOST_PARTS:,} parts")
            for name, part in {part.filename: part for part in parts}.items():
                content = _unpacked(data, part, left) if _is_xml(name) else b""
                if content:
                    _check_xml(content)
                left -= len(content)
                plain.writestr(zipfile.ZipInfo(name), content)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError) as failed:
        raise Refused("it can't be unpacked; it may be damaged") from failed
    return out.getvalue()


def _is_xml(name: str) -> bool:
    return name.lower().endswith((".xml", ".rels"))


def _unpacked(data: bytes, part: zipfile.ZipInfo, most: int) -> bytes:
    """One part, taken out step by step; what the container claims to be its size is not believed."""
    if part.flag_bits & _ENCRYPTED:
        raise Refused("it is protected by a password")
    start = part.header_offset
    header = data[start : start + _LOCAL_HEADER]
    if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile
    start += _LOCAL_HEADER + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    packed = memoryview(data)[start : start + part.compress_size]
    if part.compress_type == zipfile.ZIP_STORED:
        if len(packed) > most:
            raise _too_large()
        return bytes(packed)
    if part.compress_type != zipfile.ZIP_DEFLATED:  # the only ones that office files may use
        raise NotImplementedError
    out = bytearray()
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    for at in range(0, len(packed), _STEP):
        piece: bytes = bytes(packed[at : at + _STEP])
        while piece and not inflating.eof:
            out += inflating.decompress(piece, _STEP)
            piece = inflating.unconsumed_tail
            if len(out) > most:
                raise _too_large()
            if len(out) > max(_SMALL, RATIO * (at + _STEP)):
                raise Refused(f"a part of it unpacks to more than {RATIO} times its size")
    out += inflating.flush()
    if not inflating.eof:
        raise EOFError
    return bytes(out)


def _too_large() -> Refused:
    return Refused(f"it unpacks to more than {MOST_UNPACKED >> 20} MiB")


class _Begun(Exception):
    """The first element was reached: no declaration can follow."""


def _check_xml(content: bytes) -> None:
    """Refuse a document type declaration, in which entities are declared: office files have none by their standard."""

    def refuse(*_: object) -> None:
        raise Refused("its XML declares entities, which could expand without end or name other files")

    def begun(*_: object) -> None:
        raise _Begun

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = begun
    try:
        parser.Parse(content, True)
    except _Begun:
        return
    except expat.ExpatError as failed:
        raise Refused("its XML is damaged") from failed
