"""JSON Lines from outside: one value a line, in bounded memory, each with its line number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from kgqa_hpc import bounded_json
from kgqa_hpc.errors import InputError

LONGEST_LINE = 64 << 20  # bytes; a longer one is a mistake, or an attack on the memory


def json_lines(
    file: IO[bytes], path: Path, error: type[InputError] = InputError
) -> Iterator[tuple[int, Any]]:
    """(line number, value) of each line that is not blank. Raises `error` naming `path` and the line."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise error(f"{path} line {number:,}: longer than {LONGEST_LINE >> 20} MB")
        if not line.strip():
            continue
        try:
            value = bounded_json.loads(line)
        except ValueError as problem:
            raise error(f"{path} line {number:,}: not JSON: {problem}", "mend or remove the line") from None
        yield number, value


def json_objects(
    file: IO[bytes], path: Path, error: type[InputError] = InputError
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same where every value must be an object."""
    for number, value in json_lines(file, path, error):
        if not isinstance(value, dict):
            raise error(f"{path} line {number:,}: not a JSON object", "write one object a line")
        yield number, value
