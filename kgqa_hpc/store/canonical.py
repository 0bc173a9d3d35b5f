"""Serialisation of JSON for the store: compact UTF-8 that can hold any text of a model.

Two renderings: `dumps` keeps the order of keys (records, anchors); `canonical` sorts them, so that equal
content has equal bytes (headers, documents, digests).
"""

import hashlib
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.text.streams import open_regular

# Values nested deeper than this are stored as text; a model may answer with ten thousand brackets.
DEPTH = 100


def dumps(value: object, option: int = 0) -> bytes:
    """Compact JSON in the given key order. NaN and infinities become null, tuples lists."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:  # orjson.JSONEncodeError is a subclass
        return orjson.dumps(_plain(value, 0), option=option)


def canonical(value: object) -> bytes:
    """Compact JSON with sorted keys: equal content, equal bytes."""
    return dumps(value, orjson.OPT_SORT_KEYS)


def pretty(value: object) -> bytes:
    """Indented JSON with sorted keys and a final newline, for documents people read."""
    return dumps(value, orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def loads(data: bytes | memoryview) -> Any:
    """Parse JSON text or bytes written by a function of this module. Raises ValueError."""
    return orjson.loads(data)


def digest(value: object) -> str:
    """sha256 of the canonical rendering."""
    return bytes_digest(canonical(value))


def bytes_digest(data: bytes) -> str:
    """The sha256 of the bytes in hex."""
    return hashlib.sha256(data).hexdigest()


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
