"""document: a checksummed JSON document reads back as written, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import CorruptFile, NewerFormat, StoreError
from kgqa_hpc.store.document import read_document, write_document

VALUES = st.dictionaries(
    st.text(max_size=5).filter(lambda key: key != "checksum"),
    st.integers(-(2**60), 2**60) | st.text() | st.lists(st.floats(allow_nan=False, allow_infinity=False)),
)


@settings(deadline=None)
@given(content=VALUES)
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("documents") / "d.json"
    write_document(path, content)
    assert read_document(path) == content


def test_equal_content_has_equal_bytes(tmp_path: Path) -> None:
    write_document(tmp_path / "a", {"x": 1, "y": (1, 2)})
    write_document(tmp_path / "b", {"y": [1, 2], "x": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_exclusive_document_is_written_once(tmp_path: Path) -> None:
    assert write_document(tmp_path / "d", {"x": 1}, exclusive=True)
    assert not write_document(tmp_path / "d", {"x": 2}, exclusive=True)
    assert read_document(tmp_path / "d") == {"x": 1}


@pytest.mark.parametrize("data", [b"", b"[1]", b'{"x": 1}', b"{", b"\xff", b"null", b'{"checksum": 1}'])
def test_other_files_are_corrupt_and_no_crash(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "d").write_bytes(data)
    with pytest.raises(CorruptFile, match=r"d: "):
        read_document(tmp_path / "d")


def test_another_kind_is_refused_and_a_newer_version_says_so(tmp_path: Path) -> None:
    write_document(tmp_path / "d", {"format": "kgqa-run", "version": 2})
    with pytest.raises(CorruptFile, match="not a kgqa-shards file"):
        read_document(tmp_path / "d", "shards")
    with pytest.raises(NewerFormat, match="version 2 of kgqa-run; this program knows up to 1") as caught:
        read_document(tmp_path / "d", "run")
    assert not isinstance(caught.value, CorruptFile)
    assert "update kgqa_hpc" in caught.value.cure
    assert read_document(tmp_path / "d", "run", version=2)["version"] == 2


def test_a_missing_file_and_a_folder_are_store_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        read_document(tmp_path / "d")
    with pytest.raises(StoreError, match="not a regular file"):
        read_document(tmp_path)
    assert os.listdir(tmp_path) == []
