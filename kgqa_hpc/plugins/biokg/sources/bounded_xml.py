"""RDF/XML on its way to the parser, with its entities and texts bounded.

OWL files declare entities as short names of IRIs. A parser expands them without a bound, so that a few hundred bytes
of nested entities become gigabytes ("billion laughs"). Here no entity may hold another, and each is short.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.text.limits import XML_ENTITY_BYTES, XML_TEXT_BYTES, Limit
from kgqa_hpc.text.streams import TextStream

_ENTITY = b"<!ENTITY"
_SHORT = re.compile(rb'''<!ENTITY\s+[^\s"'%&]+\s+"[^"&%]*"''')


class BoundedXml(io.RawIOBase):
    """The stream's bytes. Raises GraphFormatError for entities within entities, and long entities and texts."""

    def __init__(self, stream: TextStream, file: str) -> None:
        self._stream, self._file = stream, file
        self._tail, self._run = b"", 0
        self._entity_limit, self._text_limit = XML_ENTITY_BYTES.value, XML_TEXT_BYTES.value

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = b"".join(self._pieces()) if size < 0 else self._stream.read(size)
        if size >= 0:
            self._check(data)
        return data

    def _pieces(self) -> Iterator[bytes]:
        while piece := self._stream.read(1 << 20):
            self._check(piece)
            yield piece

    def _check(self, piece: bytes) -> None:
        seen, at = self._tail + piece, -1
        self._tail = seen[-len(_ENTITY) :]
        while (at := seen.find(_ENTITY, at + 1)) >= 0:
            declared = seen[at : at + self._entity_limit]
            if _SHORT.match(declared):
                continue
            if len(declared) == self._entity_limit or b">" in declared:
                raise self._refused(
                    f"an entity that holds others, or has more than {self._entity_limit} bytes",
                    XML_ENTITY_BYTES,
                )
            self._tail = declared  # it goes on in the next piece
        end = piece.rfind(b">")
        self._run = self._run + len(piece) if end < 0 else len(piece) - end
        if self._run > self._text_limit:
            raise self._refused(f"a text or tag of more than {self._text_limit:,} bytes", XML_TEXT_BYTES)

    def _refused(self, reason: str, limit: Limit) -> GraphFormatError:
        return GraphFormatError(
            f"{self._file}: {reason}",
            f"expand or shorten it with a tool you trust; {limit.variable} sets the limit",
        )
