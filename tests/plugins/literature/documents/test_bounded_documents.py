"""Documents that would grow without a bound in memory are refused in one line; large honest files are read."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.read import read_documents
from tests.plugins.literature.documents.files import medline, record

JUNK = {
    "elements around records": "<j/>" * 300_000,
    "texts between records": "<j>text</j> tail " * 100_000,
    "a comment": f"<!--{'x>' * 1_000_000}-->",
    "an open tag": "<j " + "a='b' " * 300_000,
    "an instruction": f"<?x {'y' * 2_000_000}?>",
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
def test_what_stands_around_records_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, junk: str
) -> None:
    monkeypatch.setenv("KGQA_MAX_XML_RECORD_BYTES", "1000000")
    path = medline(tmp_path / "a.xml", junk + record(1, "Title"))
    with pytest.raises(DocumentFormatError, match="no record or article within"):
        list(read_documents([path]))


def test_what_stands_in_a_record_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGQA_MAX_XML_TAGS", "10000")
    path = medline(tmp_path / "a.xml", record(1, "<b/>" * 50_000))
    with pytest.raises(DocumentFormatError, match="10,000 tags"):
        list(read_documents([path]))


def test_many_records_of_any_wrapping_pass_the_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGQA_MAX_XML_RECORD_BYTES", "200000")
    path = medline(tmp_path / "a.xml", "".join(f"<w>{record(k, 'Title')}</w>tail" for k in range(1, 2001)))
    assert path.stat().st_size > 300_000
    assert len(list(read_documents([path]))) == 2000


def test_a_small_parquet_file_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"id": ["1"], "text": ["x" * (100 << 20)]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(DocumentFormatError, match="bytes that unpack to"):
        list(read_documents([path]))


def test_a_text_that_many_rows_share_is_in_memory_once(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ids = [str(k) for k in range(300)]
    pq.write_table(pa.table({"id": ids, "text": ["x" * 1_000_000] * 300}), path)
    pa.default_memory_pool().release_unused()
    before = pa.total_allocated_bytes()
    most = 0
    for document in read_documents([path]):
        most = max(most, pa.total_allocated_bytes() - before)
        assert len(document.text) == 1_000_000
    assert most < 100_000_000


@pytest.mark.parametrize("name", ["a.jsonl", "a.xml", "a.parquet"])
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DocumentFormatError, match="not a regular file"):
        list(read_documents([tmp_path / name]))


def test_a_link_to_a_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to("/dev/zero")
    with pytest.raises(DocumentFormatError, match="not a regular file"):
        list(read_documents([tmp_path / "a.jsonl"]))
