"""Readers of users' text files: plain, gzip, bzip2, xz or zip, with or without a byte order mark; and of JSON.

Errors in compression and encoding are reported here, with file and line. The size of input files is limited, so that a
damaged or hostile file cannot use up memory: the default limits lie far above real files, and an environment variable
of the limit's name raises or lowers it.

JSON is refused beyond a depth before it is parsed: orjson reads 1,024 levels; Python cannot print, copy or compare so
many without a RecursionError. Real documents of servers and files have fewer than ten.

Only regular files are opened, because a FIFO, a socket or a device could block forever or never end. For appending,
symbolic links are refused too, because they could lead to any file of the user.
"""

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn

import orjson

from kgqa_hpc.errors import GraphFormatError, InputError


@dataclass(frozen=True)
class Limit:
    """A limit: the environment variable that sets it, and its default."""

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The limit now. Raises InputError for a variable that holds no whole number above 0."""
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default
        if not text.isdecimal() or not text.isascii() or int(text) == 0:
            raise InputError(
                f"{self.variable}={text[:40]!r} is not a whole number above 0",
                f"correct or unset it; the default is {self.default}",
            )
        return int(text)

    @property
    def cure(self) -> str:
        return f"is it the right file? if so, set {self.variable} to a larger number"


LINE_BYTES = Limit("KGQA_MAX_LINE_BYTES", 16 << 20)
COLUMNS = Limit("KGQA_MAX_COLUMNS", 10_000)  # a column takes about 10 KB of memory
# Largest ratio of unpacked to packed bytes, beyond the first UNPACKED_FREELY bytes. Graph tables reach 3 to 30.
UNPACKED_RATIO = Limit("KGQA_MAX_UNPACKED_RATIO", 80)
UNPACKED_FREELY = 66 << 20
OBO_LINES = Limit("KGQA_MAX_OBO_LINES", 100_000)  # lines of a term; the Gene Ontology has up to a few hundred
# Bytes and tags from the end of an XML record to the end of the next. The largest articles have a few MB, 100,000 tags.
XML_RECORD_BYTES = Limit("KGQA_MAX_XML_RECORD_BYTES", 64 << 20)
XML_TAGS = Limit("KGQA_MAX_XML_TAGS", 2_000_000)
XML_TEXT_BYTES = Limit("KGQA_MAX_XML_TEXT_BYTES", 16 << 20)  # RDF/XML: between two tags, or within a tag
XML_ENTITY_BYTES = Limit("KGQA_MAX_XML_ENTITY_BYTES", 256)  # declaration of an entity; OWL's contain an IRI


class NotRegular(OSError):
    """The path is a FIFO, a socket, a device or a folder."""


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A file descriptor, for reading by default. Raises NotRegular, or the system's OSError."""
    # O_NONBLOCK: opening a FIFO without a peer returns at once, so that it can be refused.
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    except OSError as problem:
        link = problem.errno == errno.ELOOP and flags & os.O_NOFOLLOW
        if problem.errno == errno.ENXIO or link:  # a socket, a FIFO without a reader, a symbolic link
            raise NotRegular(errno.EINVAL, "not a regular file", os.fspath(path)) from None
        raise
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise NotRegular(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise NotRegular(errno.EINVAL, "not a regular file", os.fspath(path))


def open_bytes(path: Path) -> BinaryIO:
    """A regular file, opened for buffered reading. Raises as `open_regular`."""
    return open(open_regular(path), "rb")


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file. Raises NotRegular, or the system's OSError."""
    with open_bytes(path) as file:
        return file.read()


def open_append(path: Path) -> int:
    """A file descriptor for appending. Raises NotRegular, also for a symbolic link, or the system's OSError."""
    return open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)


_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_PIECE = 1 << 20


class TextStream(io.RawIOBase):
    """Byte stream of one text file, decompressed (the format is detected from the content), without byte order mark.

    Raises `error` if the file cannot be read, is empty, truncated or UTF-16. The parser checks that all bytes are
    UTF-8; `refuse_other_encodings` then finds the wrong line. With `checked=False` the file may be empty, and its
    encoding is not checked at all.
    """

    def __init__(
        self, path: Path, error: type[InputError] = GraphFormatError, *, checked: bool = True
    ) -> None:
        self.path, self._error = path, error
        self._file: Any = io.BytesIO()  # so that `close` works even if the file cannot be opened
        self._inner: Any = self._file
        try:
            self._file = self._inner = open_bytes(path)
        except FileNotFoundError:
            raise error(
                f"{path}: no such file", "check the path; paths in a configuration start in its folder"
            ) from None
        except OSError as problem:
            raise error(f"{path}: cannot be read: {problem.strerror}") from None
        self._ahead, self._unpacked_bytes = b"", 0
        self._ratio = UNPACKED_RATIO.value
        self._most = max(UNPACKED_FREELY, self._ratio * os.fstat(self._file.fileno()).st_size)
        try:
            self._inner = self._decompressed()
            if checked:
                self._begin()
            else:
                self._ahead = self._inner_read(len(_UTF8_BOM)).removeprefix(_UTF8_BOM)
        except BaseException:
            self.close()
            raise

    def _decompressed(self) -> IO[bytes]:
        """The content of the file, decompressed if its first bytes are those of a known compression format."""
        magic = self._inner_read(6)
        self._file.seek(0)
        if magic.startswith(b"PK\x03\x04"):
            return self._only_member()
        opener = next((opener for start, opener in _OPENERS.items() if magic.startswith(start)), None)
        return opener(self._file) if opener else self._file

    def _only_member(self) -> IO[bytes]:
        try:
            archive = zipfile.ZipFile(self._file)
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) == 1:
                return archive.open(names[0])
            problem_text, cure = f"holds {len(names)} files", "unpack it and name the file"
            if "xl/workbook.xml" in names:
                problem_text, cure = "is an Excel workbook", "save the sheet as CSV and name that file"
        except zipfile.BadZipFile as problem:
            problem_text, cure = f"damaged zip file: {problem}", "copy it again"
        except (RuntimeError, NotImplementedError) as problem:  # encrypted, or an unknown compression method
            problem_text, cure = f"cannot be unpacked: {problem}", "unpack it and name the file"
        raise self._error(f"{self.path}: {problem_text}", cure)

    def _begin(self) -> None:
        """Refuse an empty or UTF-16 file, and skip the byte order mark."""
        while True:
            piece = self._inner_read(_PIECE)
            self._ahead += piece
            if self._ahead.startswith(_UTF16):
                cure = f"save it as UTF-8, for instance: iconv -f utf-16 -t utf-8 {self.path.name} > NEW_FILE"
                raise self._error(f"{self.path}: is UTF-16, not UTF-8", cure)
            self._ahead = self._ahead.removeprefix(_UTF8_BOM)
            if self._ahead.strip():
                return
            if not piece or len(self._ahead) > LINE_BYTES.value:
                raise self._error(f"{self.path}: is empty", "is it the right file?")

    def _inner_read(self, size: int) -> bytes:
        try:
            data: bytes = self._inner.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as problem:
            kind = "gzip" if isinstance(self._inner, gzip.GzipFile) else "compressed"
            raise self._error(
                f"{self.path}: the {kind} data is damaged or cut short: {problem}",
                "copy or download it again",
            ) from None
        except OSError as problem:
            raise self._error(f"{self.path}: cannot be read: {problem.strerror or problem}") from None
        self._unpacked_bytes += len(data)
        if self._unpacked_bytes > self._most and self._inner is not self._file:
            raise self._error(
                f"{self.path}: unpacks to more than {self._ratio} times its size",
                f"is it the right file? if so, unpack it, or set {UNPACKED_RATIO.variable} to a larger number",
            )
        return data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._ahead[: len(view)] or self._inner_read(len(view))
        self._ahead = self._ahead[len(data) :]
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            if self._inner is not self._file:
                self._inner.close()
            self._file.close()
        super().close()


def byte_lines(path: Path, error: type[InputError] = GraphFormatError) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line with its end) of each line of a file; only \\n ends a line.

    Raises `error` for a line beyond `KGQA_MAX_LINE_BYTES`, otherwise as `TextStream`.
    """
    with io.BufferedReader(TextStream(path, error), _PIECE) as file:
        yield from _bounded_lines(file, path.name, error)


def _bounded_lines(file: IO[bytes], name: object, error: type[InputError]) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of an open file, called `name`. Raises `error` for a line beyond `KGQA_MAX_LINE_BYTES`."""
    number, limit = 0, LINE_BYTES.value
    while line := file.readline(limit + 1):
        number += 1
        if len(line) > limit:
            raise error(f"{name} line {number:,}: is longer than {limit:,} bytes", LINE_BYTES.cure)
        yield number, line


def text_lines(path: Path, error: type[InputError] = GraphFormatError) -> Iterator[tuple[int, str]]:
    """(line number from 1, text without line end) of each line. Raises `error`, also for bytes that are not UTF-8."""
    for number, line in byte_lines(path, error):
        try:
            yield number, line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as problem:
            refuse_byte(path.name, number, line[problem.start], error)


def refuse_other_encodings(path: Path) -> None:
    """Raises GraphFormatError with the line of the first byte that is not UTF-8, if there is one."""
    ends = 0
    for _, line in byte_lines(path):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as problem:
            refuse_byte(path.name, 1 + ends + _line_ends(line[: problem.start]), line[problem.start])
        ends += _line_ends(line)


def refuse_byte(file: str, line: int, byte: int, error: type[InputError] = GraphFormatError) -> NoReturn:
    """Raise the error for a byte that is not UTF-8."""
    raise error(
        f"{file} line {line:,}: byte 0x{byte:02X} is not UTF-8",
        f"save it as UTF-8, for instance: iconv -f latin1 -t utf-8 {file} > NEW_FILE",
    )


def _line_ends(data: bytes) -> int:
    """Number of line ends as an editor counts them: \\r\\n, \\r or \\n."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


DEEPEST = 64  # limit of brackets within brackets
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = [1 if byte in b"[{" else -1 for byte in range(256)]


def parse_json(data: bytes | str) -> Any:
    """Parse JSON. Raises orjson.JSONDecodeError, also for more than DEEPEST levels."""
    if too_deep(data if isinstance(data, bytes) else data.encode("utf-8", "replace")):
        raise orjson.JSONDecodeError(f"nested more than {DEEPEST} levels deep", "", 0)
    return orjson.loads(data)


def too_deep(data: bytes) -> bool:
    """Whether brackets outside of strings are nested deeper than DEEPEST. Takes time linear in the length."""
    if data.count(b"{") + data.count(b"[") <= DEEPEST:
        return False
    brackets = _STRING.sub(b"", data).translate(None, _NO_BRACKETS)
    return any(depth > DEEPEST for depth in accumulate(map(_STEP.__getitem__, brackets)))


def json_lines(
    file: IO[bytes], path: Path, error: type[InputError] = InputError
) -> Iterator[tuple[int, Any]]:
    """(line number, value) of each line that is not blank. Raises `error` naming `path` and the line."""
    for number, line in _bounded_lines(file, path, error):
        if line.strip():
            try:
                value = parse_json(line)
            except ValueError as problem:
                raise error(
                    f"{path} line {number:,}: not JSON: {problem}", "mend or remove the line"
                ) from None
            yield number, value


def json_objects(path: Path, error: type[InputError] = InputError) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of each line of a JSON Lines file, plain or compressed.

    Raises `error` for a line that is no JSON object.
    """
    with io.BufferedReader(TextStream(path, error, checked=False), _PIECE) as file:
        for number, value in json_lines(file, path, error):
            if not isinstance(value, dict):
                raise error(f"{path} line {number:,}: not a JSON object", "write one object a line")
            yield number, value
