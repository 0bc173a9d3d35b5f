"""Remove secrets and control characters from what an engine says.

A server may echo the key it was sent, in an error as well as in an answer; a model may write escape
sequences. The engine's child cleans answers and errors before they reach the worker, and the worker cleans
what the child prints before it reaches the log.
"""

from __future__ import annotations

import codecs
import os
import threading
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from kgqa_hpc.engines.engine import Response
from kgqa_hpc.store.regular import open_append

MASK = "***"
# Shorter values are no keys: masking "none" or "1" would spoil every text.
SHORTEST_SECRET = 6
LONGEST_WORDS = 300


def one_line(text: str, limit: int = LONGEST_WORDS) -> str:
    """Foreign words for a message: one line, no control, bidi or escape characters, at most `limit` long."""
    printable = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in text[: 4 * limit])
    return " ".join(printable.split())[:limit]


class Redactor:
    """Masks the values of some environment variables wherever they occur."""

    def __init__(self, names: Iterable[str], environ: Mapping[str, str] = os.environ) -> None:
        values = {environ.get(name, "").strip() for name in names}
        self._secrets = sorted((v for v in values if len(v) >= SHORTEST_SECRET), key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def text(self, text: str) -> str:
        """`text` without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def response(self, response: Response) -> Response:
        """A response as it may leave: no secret in its text or error, its error one printable line."""
        error = response.error
        if error is not None:
            error = one_line(self.text(error))
        return response._replace(text=self.text(response.text), error=error)

    def copy(self, source: IO[bytes], log: Path) -> threading.Thread:
        """Append what comes out of a pipe to a log, cleaned, in a thread that ends with it."""
        thread = threading.Thread(target=self._copy, args=(source, log), daemon=True, name="engine-log")
        thread.start()
        return thread

    def _copy(self, source: IO[bytes], log: Path) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        # Of a line that goes on as much is held back as may be the beginning of a secret.
        overlap, held = max(map(len, self._secrets), default=1) - 1, ""
        with source:
            while piece := source.readline(1 << 16):
                held = self.text(held + decode(piece))
                end = len(held) if held.endswith("\n") else max(len(held) - overlap, 0)
                _append(log, held[:end])
                held = held[end:]
        _append(log, held)


def _append(log: Path, text: str) -> None:
    # A log that cannot be written must not block the engine: the pipe is read on.
    with suppress(OSError), open(open_append(log), "ab") as file:
        file.write(text.encode())
