"""JSON of the store: compact UTF-8 that can hold any text of a model, and documents with a checksum.

Two renderings: `dumps` keeps the order of keys (records, anchors); `canonical` sorts them, so that equal
content has equal bytes (headers, documents, digests).

A document (manifest, reason, pin) is the indented, key-sorted rendering of the object with a member "checksum" (sha256
of the canonical rendering of all others). A reader renders the parsed object again and compares all bytes, so every
flipped bit is noticed, even in a space. docs/reference/format.md, section 4.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.errors import CorruptFile, MissingFile, NewerFormat, OlderFormat
from kgqa_hpc.store import atomic
from kgqa_hpc.store.atomic import NotRegular, open_regular, read_with_state

# Values nested deeper than this are stored as text; a model may answer with ten thousand brackets.
DEPTH = 100

loads = orjson.loads  # parse JSON; raises ValueError


def dumps(value: object, option: int = 0) -> bytes:
    """Compact JSON in the given key order. NaN and infinities become null, tuples lists."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:  # orjson cannot encode the value (JSONEncodeError is a subclass)
        return orjson.dumps(_plain(value, 0), option=option)


def canonical(value: object) -> bytes:
    """Compact JSON with sorted keys: equal content, equal bytes."""
    return dumps(value, orjson.OPT_SORT_KEYS)


def pretty(value: object) -> bytes:
    """Indented JSON with sorted keys and a final newline, for documents people read."""
    return dumps(value, orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def digest(value: object) -> str:
    """sha256 of the canonical rendering."""
    return hashlib.sha256(canonical(value)).hexdigest()


def sha256_of(path: Path) -> str:
    """The digest of a whole file, in hexadecimal. Raises OSError, also if the path is not a regular file."""
    with open(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(value: object, depth: int) -> object:
    """The value in a form that JSON can hold: lone surrogates replaced, huge integers and too deep values as text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else str(value)
    if depth >= DEPTH and isinstance(value, dict | list | tuple):
        return "(nested too deeply)"
    if isinstance(value, dict):
        return {str(_plain(str(key), depth)): _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, depth + 1) for inner in value]
    raise TypeError(f"{type(value).__name__} is not a JSON type")


CHECKSUM = "checksum"


def write_document(path: Path, content: dict[str, Any], exclusive: bool = False) -> bool:
    """Commit `content`; False when `exclusive` and the file is there already. Raises DiskFull, StoreError."""
    plain = loads(canonical(content))
    return atomic.write_file(path, _render(plain), exclusive=exclusive)


def read_document(path: Path, kind: str | None = None, version: int = 1) -> dict[str, Any]:
    """The verified content, without its checksum.

    With `kind`, the document's "format" must be `kgqa-<kind>` and its "version" `version`.
    Raises CorruptFile, NewerFormat, OlderFormat, or StoreError when the file is missing or unreadable.
    """
    data = read_bytes(path)
    try:
        content = loads(data)
    except ValueError:
        raise CorruptFile(f"{path}: not a JSON document") from None
    if not isinstance(content, dict) or CHECKSUM not in content:
        raise CorruptFile(f"{path}: a document without a checksum")
    del content[CHECKSUM]
    if _render(content) != data:
        raise CorruptFile(f"{path}: the checksum does not match the content")
    if kind is not None:
        require_kind(path, content, kind, version)
    return content


@contextmanager
def curing(cure: str) -> Iterator[None]:
    """Add `cure` to a CorruptFile that the block raises without a cure."""
    try:
        yield
    except CorruptFile as problem:
        raise CorruptFile(problem.message, problem.cure or cure) from None


def read_bytes(path: Path) -> bytes:
    """All bytes of the file. Raises StoreError when it is missing or unreadable."""
    return read_sized(path)[0]


def read_sized(path: Path, limit: int = -1) -> tuple[bytes, int]:
    """The file's bytes (the first `limit`) and its size.

    Raises MissingFile, CorruptFile if it is not a regular file, StoreError if it is unreadable.
    """
    try:
        data, state = read_with_state(path, limit)
        return data, state.st_size
    except FileNotFoundError:
        raise MissingFile(f"{path}: no such file") from None
    except NotRegular:
        raise CorruptFile(f"{path}: is not a regular file") from None
    except OSError as problem:
        raise atomic.disk_error(path, problem) from problem


def require_kind(path: Path, header: dict[str, Any], kind: str, version: int) -> None:
    """Raises CorruptFile for another kind of file, NewerFormat or OlderFormat for another version of this kind."""
    recorded, number = header.get("format"), header.get("version")
    if recorded != f"kgqa-{kind}" or not isinstance(number, int) or number < 1:
        raise CorruptFile(f"{path}: is {recorded!r}, not a kgqa-{kind} file")
    if number > version:
        raise NewerFormat(
            f"{path}: version {number} of kgqa-{kind}; this program knows up to {version}",
            "update kgqa_hpc, or use the version that wrote the run",
        )
    if number < version:
        raise OlderFormat(f"{path}: version {number} of kgqa-{kind}; this program reads version {version}")


def _render(content: dict[str, Any]) -> bytes:
    return pretty({**content, CHECKSUM: digest(content)})
