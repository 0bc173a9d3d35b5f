"""A file that is no whole model is refused, by its first bytes or by llama.cpp, and named."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kgqa_hpc.engines.cpu import CpuEngine, CpuSettings, bundled_model
from kgqa_hpc.errors import EngineConfigError


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (None, "no such model file"),
        (lambda data: b"", "is not a GGUF file"),
        (lambda data: b"PK\x03\x04 a zip", "is not a GGUF file"),
        (lambda data: b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "cannot load this model"),
        (lambda data: b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2), "cannot load this model"),
        (lambda data: data[:100], "cannot load this model"),
        (lambda data: data[:-1000], "cannot load this model"),
        (
            lambda data: data.replace(b"llama.embedding_length", b"llama.embedding_lengtX", 1),
            "cannot load this",
        ),
    ],
    ids=["missing", "empty", "zip", "version", "tensors", "cut header", "cut download", "unknown key"],
)
def test_a_file_that_is_no_whole_model_is_bad_input_and_named(
    tmp_path: Path, damaged: Callable[[bytes], bytes] | None, words: str
) -> None:
    if "cannot load" in words:
        pytest.importorskip("xllamacpp", reason="XLLAMACPP IS NOT INSTALLED: DAMAGED MODELS ARE NOT TESTED")
    path = tmp_path / "m.gguf"
    if damaged is not None:
        path.write_bytes(damaged(bundled_model().read_bytes() if "cannot load" in words else b""))
    with pytest.raises(EngineConfigError, match=words) as caught:
        CpuEngine(CpuSettings(model=str(path)))
    assert str(path) in caught.value.message


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(EngineConfigError, match="cannot be read"):
        CpuEngine(CpuSettings(model=str(tmp_path)))
