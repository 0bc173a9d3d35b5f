"""Readers of untrusted JSON and JSON Lines with limits on nesting depth and line length, checked before parsing.

orjson reads 1,024 levels; Python cannot print, copy or compare so many without a RecursionError. Real documents of
servers and files have fewer than ten.
"""

import io
import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import orjson

from kgqa_hpc.errors import InputError
from kgqa_hpc.text.streams import LINE_BYTES, TextStream

DEEPEST = 64  # brackets within brackets
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = [1 if byte in b"[{" else -1 for byte in range(256)]


def loads(data: bytes | str) -> Any:
    """Parse JSON. Raises orjson.JSONDecodeError, also for more than DEEPEST levels."""
    if too_deep(data if isinstance(data, bytes) else data.encode("utf-8", "replace")):
        raise orjson.JSONDecodeError(f"nested more than {DEEPEST} levels deep", "", 0)
    return orjson.loads(data)


def too_deep(data: bytes) -> bool:
    """Whether brackets outside of strings stand deeper than DEEPEST. Linear in the length."""
    if data.count(b"{") + data.count(b"[") <= DEEPEST:
        return False
    brackets = _STRING.sub(b"", data).translate(None, _NO_BRACKETS)
    return any(depth > DEEPEST for depth in accumulate(map(_STEP.__getitem__, brackets)))


def json_lines(
    file: IO[bytes], path: Path, error: type[InputError] = InputError
) -> Iterator[tuple[int, Any]]:
    """(line number, value) of each line that is not blank. Raises `error` naming `path` and the line."""
    number, limit = 0, LINE_BYTES.value
    while line := file.readline(limit + 1):
        number += 1
        if len(line) > limit:
            raise error(f"{path} line {number:,}: longer than {limit:,} bytes", LINE_BYTES.cure)
        if not line.strip():
            continue
        try:
            value = loads(line)
        except ValueError as problem:
            raise error(f"{path} line {number:,}: not JSON: {problem}", "mend or remove the line") from None
        yield number, value


def json_objects(path: Path, error: type[InputError] = InputError) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of each line of a JSON Lines file, plain or compressed.

    Raises `error` for a line that is no JSON object.
    """
    with io.BufferedReader(TextStream(path, error, checked=False), 1 << 20) as file:
        for number, value in json_lines(file, path, error):
            if not isinstance(value, dict):
                raise error(f"{path} line {number:,}: not a JSON object", "write one object a line")
            yield number, value
