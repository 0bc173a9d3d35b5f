"""A file that is no whole model is refused, by its first bytes or by llama.cpp, and named."""

import struct
from pathlib import Path

import pytest

from kgqa_hpc.engines.cpu import CpuEngine, CpuSettings, bundled_model, require_gguf
from kgqa_hpc.errors import EngineConfigError


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(payload: int = 64) -> bytes:
    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("general.file_type") + struct.pack("<II", 4, 15),
        text("tokenizer.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
    ]
    tensor = text("weight") + struct.pack("<IQIQ", 1, 8, 0, 32)
    return b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys)) + b"".join(keys) + tensor + bytes(payload)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip"])
def test_a_file_that_is_no_gguf_is_bad_input(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(EngineConfigError, match="is not a GGUF file") as caught:
        require_gguf(path)
    assert str(path) in caught.value.message


def test_a_missing_file_or_a_folder_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(EngineConfigError, match="no such model file"):
        require_gguf(tmp_path / "none.gguf")
    with pytest.raises(EngineConfigError, match="cannot be read"):
        require_gguf(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"GGUF" + struct.pack("<IQQ", 99, 0, 0), id="version 99"),
        pytest.param(b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2), id="2**60 tensors"),
        pytest.param(gguf()[:100], id="the header is cut off"),
        pytest.param(gguf(payload=8), id="the tensors are cut off"),
        pytest.param(gguf().replace(b"\x08\0\0\0", b"\x63\0\0\0"), id="an unknown type"),
    ],
)
def test_a_damaged_file_is_refused_by_llama_cpp_and_named(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("xllamacpp", reason="XLLAMACPP IS NOT INSTALLED: DAMAGED MODELS ARE NOT TESTED")
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(EngineConfigError, match="cannot load this model") as caught:
        CpuEngine(CpuSettings(model=str(path)))
    assert str(path) in caught.value.message


def test_a_model_whose_download_stopped_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="XLLAMACPP IS NOT INSTALLED: CUT MODELS ARE NOT TESTED")
    path = tmp_path / "m.gguf"
    path.write_bytes(bundled_model().read_bytes()[:-1000])
    with pytest.raises(EngineConfigError, match="cannot load this model"):
        CpuEngine(CpuSettings(model=str(path)))
