"""GGUF headers: read quickly, refused clearly."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.engines.llama import quantisation_of, read_header
from kgqa_hpc.errors import EngineConfigError


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(payload: int = 64) -> bytes:
    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("general.file_type") + struct.pack("<II", 4, 15),
        text("llama.context_length") + struct.pack("<II", 4, 2048),
        text("tokenizer.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("tokenizer.scores") + struct.pack("<IIQff", 9, 6, 2, 0.5, 1.5),
    ]
    tensor = text("weight") + struct.pack("<IQIQ", 1, 8, 0, 32)
    return b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys)) + b"".join(keys) + tensor + bytes(payload)


def test_what_matters_for_provenance_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf())
    header = read_header(path)
    assert quantisation_of(header) == "Q4_K_M"
    assert header["tokenizer.tokens"] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a GGUF file"),
        (b"PK\x03\x04 a zip", "is not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "version 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2), "damaged or cut off"),
        (gguf()[:100], "damaged or cut off"),
        (gguf(payload=8), "is cut off"),
    ],
)
def test_a_file_that_is_no_whole_model_is_bad_input(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(EngineConfigError, match=words) as caught:
        read_header(path)
    assert str(path) in caught.value.message


def test_a_missing_file_or_a_folder_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(EngineConfigError, match="no such model file"):
        read_header(tmp_path / "none.gguf")
    with pytest.raises(EngineConfigError, match="cannot be read"):
        read_header(tmp_path)


@given(st.data())
def test_damage_anywhere_is_bad_input_or_harmless_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(gguf())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        read_header(path)
    except EngineConfigError as refusal:
        assert str(path) in refusal.message
