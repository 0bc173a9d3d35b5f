"""Text files as a user has them: plain or gzip, with or without a byte order mark, hopefully UTF-8.

Whatever is wrong with the bytes is said here, with the line.
"""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

from kgqa_hpc.errors import GraphFormatError, InputError

_GZIP = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_text(path: Path) -> bytes:
    """The file's text as bytes, decompressed when it is gzip (told by its content), without byte order mark.

    Raises InputError when it cannot be read, GraphFormatError when it is empty, torn or UTF-16. That it is
    UTF-8 throughout is left to the parser, which sees every byte anyway; `refuse_other_encodings` finds the
    line.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file", "check the path; relative ones start where the configuration lies"
        ) from None
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror}") from None
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            cure = "copy or download it again"
            raise GraphFormatError(
                f"{path.name}: the gzip data is damaged or cut short: {problem}", cure
            ) from None
    if data.startswith(_UTF16):
        raise GraphFormatError(f"{path.name}: is UTF-16, not UTF-8", "save it as UTF-8")
    data = data.removeprefix(_UTF8_BOM)
    if re.search(rb"\S", data) is None:
        raise GraphFormatError(f"{path.name}: is empty", "is it the right file?")
    return data


def refuse_other_encodings(data: bytes, file: str) -> None:
    """Raises GraphFormatError with the line of the first byte that is not UTF-8, if there is one."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = 1 + len(re.findall(rb"\r\n|\r|\n", data[: problem.start]))
        raise GraphFormatError(
            f"{file} line {line:,}: byte 0x{data[problem.start]:02X} is not UTF-8",
            f"save it as UTF-8, for instance: iconv -f latin1 -t utf-8 {file}",
        ) from None
