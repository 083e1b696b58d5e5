"""What a workbook's XML must hold to before a library is let at it: small files that would take minutes, or whose rows
would be lost, are refused in a sentence."""

from __future__ import annotations

import io
import re
import zipfile
from xml.parsers import expat

MAX_UNPACKED_BYTES = 20_000_000
LAST_ROW = 1_048_576  # that any workbook has
# One comment, tag or cell; a cell holds 32,767 characters. The parser begins a long one anew with each piece it reads.
_LONGEST = 262_144
_ENCLOSED = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([^"']{0,40})""")


class WorkbookError(ValueError):
    """A sentence's end, to stand behind the file's name. line: of the sheet, where it is one."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


def check_parts(data: bytes) -> None:
    """Raises WorkbookError; what is no zip file at all is zipfile's own error."""
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        if sum(part.file_size for part in parts.infolist()) > MAX_UNPACKED_BYTES:
            raise WorkbookError(
                f"unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000} MB; split it, or save the prices as CSV"
            )
        for part in parts.infolist():
            xml = parts.read(part)
            if xml[:64].lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0").startswith(b"<"):
                _check_xml(xml)


def _check_xml(xml: bytes) -> None:
    told = _ENCODING.match(xml.removeprefix(b"\xef\xbb\xbf"))
    if b"\0" in xml or (told and told[1].lower() not in (b"utf-8", b"us-ascii")):
        raise WorkbookError("is not written in UTF-8, as workbooks are; save it again")
    # No workbook has one, and entities are how a small file becomes an endless one.
    if b"<!DOCTYPE" in xml:
        raise WorkbookError("holds a document type definition, which no workbook needs; save it again")
    if _has_long_piece(xml):
        raise WorkbookError(f"holds a comment, tag or cell of more than {_LONGEST:,} bytes; save it again without it")


def _has_long_piece(xml: bytes) -> bool:
    at = 0
    while at + _LONGEST < len(xml):  # `<` begins every tag and stands nowhere else but in what is enclosed
        last = xml.rfind(b"<", at, at + _LONGEST)
        if last < 0:
            return True
        at = last + 1
    for opening, closing in _ENCLOSED:
        at = xml.find(opening)
        while at >= 0:
            end = xml.find(closing, at)
            if (len(xml) if end < 0 else end) - at > _LONGEST:
                return True
            at = -1 if end < 0 else xml.find(opening, end)
    return False


def hidden_rows(xml: bytes) -> frozenset[int]:
    """Line numbers of the rows of a sheet's part that a spreadsheet does not show. Raises WorkbookError for rows that
    would be lost, or that lie beyond the last one there is."""
    hidden: set[int] = set()
    line = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal line
        if name.rpartition(":")[2] != "row":
            return
        said = attributes.get("r", str(line + 1))
        number = int(said) if said.isascii() and said.isdigit() and len(said) < 19 else 0
        if number > LAST_ROW:
            raise WorkbookError(f"has a row {number}, and a workbook ends with row {LAST_ROW:,}; save it again")
        if number <= line:
            raise WorkbookError(f"has a row numbered {said[:20]!r} after row {line}; save it again", max(line, 1))
        line = number
        if attributes.get("hidden", "0") not in ("0", "false"):
            hidden.add(number)

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.Parse(xml, True)
    return frozenset(hidden)
