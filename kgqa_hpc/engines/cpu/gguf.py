"""Reader of the header of a GGUF file, so that a damaged file is refused before it is loaded.

Layout: magic "GGUF", version, number of tensors, number of keys; typed key-value pairs; one entry per tensor
with its shape, type and offset; the tensors. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.streams import open_bytes

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# Common values of general.file_type in GGUF files (llama_ftype of llama.cpp).
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    32: "BF16",
}  # fmt: skip
_MOST_KEYS, _MOST_TENSORS, _LONGEST_STRING = 1 << 16, 1 << 20, 1 << 26
_CURE = "give a complete .gguf file under engine.model, or leave it out for the bundled one"


def quantisation_of(header: Mapping[str, Any]) -> str:
    """The format of the weights, e.g. Q4_K_M; empty if the file does not give it."""
    kind = header.get("general.file_type")
    return _FILE_TYPES.get(kind, f"type {kind}") if isinstance(kind, int) else ""


def read_header(path: Path) -> dict[str, Any]:
    """The keys of the header with scalars, texts and lists of texts; None for other arrays.

    Raises EngineConfigError when the file is missing, not GGUF, or ends before its last tensor.
    """
    try:
        with open_bytes(path) as file:
            return _keys(path, file, path.stat().st_size)
    except FileNotFoundError:
        raise EngineConfigError(f"{path}: no such model file", _CURE) from None
    except OSError as problem:
        raise EngineConfigError(f"{path}: cannot be read: {problem.strerror}", _CURE) from None
    except (struct.error, EOFError, KeyError, OverflowError, UnicodeDecodeError):
        raise EngineConfigError(f"{path}: the GGUF header is damaged or cut off", _CURE) from None


def _keys(path: Path, file: BinaryIO, size: int) -> dict[str, Any]:
    """The keys of the header; the tensors must lie within the file's `size`."""
    if file.read(4) != b"GGUF":
        raise EngineConfigError(f"{path}: is not a GGUF file (its first bytes are not 'GGUF')", _CURE)
    (version,) = _unpack(file, "I")
    if version not in (2, 3):
        raise EngineConfigError(f"{path}: GGUF version {version} is not 2 or 3", _CURE)
    tensors, count = _unpack(file, "QQ")
    if tensors > _MOST_TENSORS or count > _MOST_KEYS:
        raise EOFError
    keys = {_string(file): _value(file, _unpack(file, "I")[0]) for _ in range(count)}
    last = 0
    for _ in range(tensors):
        _string(file)
        (dimensions,) = _unpack(file, "I")
        if dimensions > 8:
            raise EOFError
        last = max(last, _unpack(file, "Q" * dimensions + "IQ")[-1])
    if file.tell() + last >= size:
        raise EngineConfigError(f"{path}: is cut off: {size:,} bytes, tensors reach beyond", _CURE)
    return keys


def _value(file: BinaryIO, kind: int) -> Any:
    """A value; KeyError for an unknown type, which means that the bytes before it were misread."""
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        return _unpack(file, _SCALARS[kind])[0]
    inner, length = _unpack(file, "IQ")
    if inner in (_STRING, _ARRAY):
        return [_value(file, inner) for _ in range(length)]
    file.seek(length * struct.calcsize("<" + _SCALARS[inner]), 1)
    return None


def _string(file: BinaryIO) -> str:
    (length,) = _unpack(file, "Q")
    data = file.read(min(length, _LONGEST_STRING))
    if len(data) != length:
        raise EOFError
    return data.decode("utf-8", "replace")


def _unpack(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    """Numbers of a layout; struct.error at the end of the file."""
    return struct.unpack("<" + layout, file.read(struct.calcsize("<" + layout)))
