"""Stream the items of the arrays in one large JSON object, each with its line number.

Only one item is in memory at a time, so memory does not grow with the document.
"""

import io
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.text.streams import LINE_BYTES, TextStream, refuse_other_encodings

_PIECE = 1 << 20
_BLANKS = re.compile(r"[ \t\r\n]*")


def json_members(path: Path, members: Collection[str]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(name, line, item) for each item of the arrays named in `members`; other members are skipped.

    Raises GraphFormatError with the line of the first error.
    """
    window = _Window(path)
    window.expect("{")
    while window.peek() != "}":
        name = window.value()
        window.expect(":")
        if name not in members:
            window.value()
        else:
            window.expect("[")
            while window.peek() != "]":
                line, item = window.line, window.value()
                if not isinstance(item, dict):
                    raise window.malformed("not an object")
                yield name, line, item
                if window.peek() != "]":
                    window.expect(",")
            window.expect("]")
        if window.peek() != "}":
            window.expect(",")
    window.close()


class _Window:
    """A sliding window over a document, which keeps only the unparsed part of the text in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = io.TextIOWrapper(io.BufferedReader(TextStream(path), _PIECE), "utf-8", newline="")
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False
        self.line = 1

    def close(self) -> None:
        self._file.close()

    def peek(self) -> str:
        """The next non-blank character, which is not consumed; "" at the end."""
        while True:
            self._advance(_BLANKS.match(self._text, self._at).end())  # type: ignore[union-attr]
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise self.malformed(f"expected {sign!r}")
        self._advance(self._at + 1)

    def value(self) -> Any:
        """Parse and consume the next JSON value. Raises GraphFormatError."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as problem:
                # An error near the end of the window may be due to the cut; an earlier error is real.
                if (problem.pos < len(self._text) - _PIECE) or not self._more():
                    raise self.malformed(problem.msg) from None
                continue
            except RecursionError:
                raise self.malformed("nested too deeply") from None
            if end == len(self._text) and self._more():
                continue  # a number or literal may continue after the window
            self._advance(end)
            return value

    def malformed(self, reason: str) -> GraphFormatError:
        return GraphFormatError(
            f"{self._path.name} line {self.line:,}: not the expected JSON: {reason}", "export it again"
        )

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end

    def _more(self) -> bool:
        if self._ended:
            return False
        unread = self._text[self._at :]
        if len(unread) > (limit := LINE_BYTES.value):
            raise self.malformed(f"a value of more than {limit:,} letters (the limit {LINE_BYTES.variable})")
        try:
            # Double the size each time: a long value is then reparsed only a few times.
            piece = self._file.read(max(_PIECE, len(unread)))
        except UnicodeDecodeError:
            refuse_other_encodings(self._path)
            raise
        self._ended = not piece
        self._text, self._at = unread + piece, 0
        return bool(piece)
