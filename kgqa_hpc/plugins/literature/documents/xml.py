"""XML from outside, streamed: one element at a time, nothing fetched, nothing expanded.

No DTD is loaded, no network is used, and a file that declares entities of its own is refused, so that
neither an external entity nor a chain of nested ones ("billion laughs") is ever followed. libxml2's own
limits (10 MB a text, depth 256) stay in force. Content in, before and between records is bounded, because
libxml2 keeps it until the record ends.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lxml import etree

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.text.limits import XML_RECORD_BYTES, XML_TAGS
from kgqa_hpc.text.plain_text import printable
from kgqa_hpc.text.streams import TextStream

# XML's own white space. No-break and thin spaces are text and stay.
_BLANKS = re.compile(r"[ \t\r\n]+")


class _Measured(io.RawIOBase):
    """The file's bytes. Raises DocumentFormatError where a record is beyond the bounds; `begin` starts another."""

    def __init__(self, path: Path, source: io.BufferedReader) -> None:
        self._path, self._source = path, source
        self._most_bytes, self._most_tags = XML_RECORD_BYTES.value, XML_TAGS.value
        self.begin()

    def begin(self) -> None:
        self._bytes = self._tags = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._bytes += len(data)
        self._tags += data.count(b"<")
        if self._bytes > self._most_bytes or self._tags > self._most_tags:
            limits = f"{XML_RECORD_BYTES.variable} and {XML_TAGS.variable}"
            raise DocumentFormatError(
                f"{self._path}: no record or article within {self._most_bytes:,} bytes and {self._most_tags:,} tags",
                f"is it the right file? if so, split the record, or set {limits} to larger numbers",
            )
        return data


def open_bytes(path: Path) -> io.BufferedReader:
    """The file's bytes, unpacked when it is compressed. Raises DocumentFormatError with the file's name."""
    return io.BufferedReader(TextStream(path, DocumentFormatError, checked=False), 1 << 20)


def elements(path: Path, tags: Iterable[str]) -> Iterator[Any]:
    """Each element with one of these tags, whole, in order; it is emptied when the next is asked for.

    Raises DocumentFormatError for what is not well-formed, and for a file that declares entities.
    """
    with open_bytes(path) as file, _Measured(path, file) as source:
        safe = {"resolve_entities": False, "load_dtd": False, "no_network": True, "huge_tree": False}
        ignored = {"remove_comments": True, "remove_pis": True}
        events = etree.iterparse(source, events=("end",), tag=tuple(tags), **safe, **ignored)
        trusted = False
        try:
            for _, element in events:
                dtd = None if trusted else element.getroottree().docinfo.internalDTD
                if dtd is not None and next(dtd.iterentities(), None) is not None:
                    raise DocumentFormatError(
                        f"{path}: declares entities of its own, which are not followed",
                        "expand them with a tool you trust",
                    )
                trusted = True
                yield element
                # Empty the element, and remove all earlier siblings of it and of its ancestors.
                element.clear()
                while (parent := element.getparent()) is not None:
                    while element.getprevious() is not None:
                        del parent[0]
                    element = parent
                source.begin()
        except etree.XMLSyntaxError as problem:
            reason = _BLANKS.sub(" ", printable(problem.msg or ""))[:200]
            raise DocumentFormatError(
                f"{path} line {problem.lineno:,}: not well-formed XML: {reason}",
                "fetch the file again, or mend it",
            ) from None


def flat(element: Any) -> str:
    """All text of the element, inline markup taken away, runs of XML's white space made one blank."""
    if len(element) == 0:
        text = element.text or ""
    elif next(element.iter(etree.Entity), None) is None:
        text = "".join(element.itertext())
    else:
        text = "".join(html.unescape(piece) if _is_entity(piece) else piece for piece in element.itertext())
    return _BLANKS.sub(" ", text).strip()


def _is_entity(piece: str) -> bool:
    return piece.startswith("&") and piece.endswith(";") and piece[1:-1].isalnum()
