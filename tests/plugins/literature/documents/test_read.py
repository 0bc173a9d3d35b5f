"""One stream of documents from files of any kind, each id once, deletions applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.read import ReadCounts, Standing, read_documents
from tests.plugins.literature.documents.files import deletion, jsonl, medline, record


def _titles(*paths: Path) -> dict[str, str]:
    return {document.id: document.title for document in read_documents(paths)}


def test_an_update_replaces_and_deletes_what_came_before_it(tmp_path: Path) -> None:
    base = medline(tmp_path / "base.xml.gz", record(1, "one"), record(2, "two"), record(3, "three"))
    update = medline(
        tmp_path / "update.xml.gz", record(2, "two, revised"), record(4, "four"), deletion(3, 99)
    )
    counts = ReadCounts()
    titles = {d.id: d.title for d in read_documents([base, update], counts)}
    assert titles == {"1": "one", "2": "two, revised", "4": "four"}
    assert counts == ReadCounts(records=5, documents=3, replaced=1, deleted=1, without_text=3)


def test_files_apply_in_the_order_given(tmp_path: Path) -> None:
    base = medline(tmp_path / "base.xml", record(1, "one"), record(3, "three"))
    update = medline(tmp_path / "update.xml", record(1, "revised"), deletion(3))
    assert _titles(base, update) == {"1": "revised"}
    assert _titles(update, base) == {"1": "one", "3": "three"}


def test_a_higher_version_stands_wherever_it_stands_in_the_file(tmp_path: Path) -> None:
    path = medline(tmp_path / "a.xml", record(1, "second", version=2), record(1, "first", version=1))
    assert _titles(path) == {"1": "second"}


def test_a_document_that_was_deleted_may_come_again(tmp_path: Path) -> None:
    path = medline(tmp_path / "a.xml", record(1, "old"), deletion(1), record(1, "new"))
    assert _titles(path) == {"1": "new"}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.booleans()), max_size=20))
def test_what_stands_is_what_applying_one_after_the_other_leaves(steps: list[tuple[str, int, bool]]) -> None:
    standing, state = Standing(), {}
    for number, (name, version, deleted) in enumerate(steps):
        standing.add(name, version, deleted)
        if not deleted and (name not in state or state[name][0] <= version):
            state[name] = (version, number)
        if deleted and name in state and state[name][0] <= version:
            del state[name]
    kept = [n for n, (_, _, deleted) in enumerate(steps) if not deleted and standing.stands(n)]
    assert kept == sorted(number for _, number in state.values())


def test_jsonl_parquet_and_folders_are_read(tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", [{"id": 1, "title": "t", "text": "x"}, {"id": "2", "text": "y", "more": 3}])
    table = pyarrow.table({"id": ["3", "1"], "title": ["u", "v"], "text": [None, "z"]})
    pyarrow.parquet.write_table(table, tmp_path / "b.parquet")
    found = [(d.id, d.title, d.text) for d in read_documents([tmp_path])]
    assert found == [("2", "", "y"), ("3", "u", ""), ("1", "v", "z")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 1, "text": ', r"line 2: not JSON"),
        ("[1]", r"line 2: not a JSON object"),
        ('{"text": "x"}', r"line 2: 'id' is missing"),
        ('{"id": true, "text": "x"}', r"line 2: 'id' is missing or not text"),
        ('{"id": 1, "text": 5}', r"line 2: 'text' is not text"),
        ('{"id": 1, "abstract": "x"}', r"line 2: neither 'text' nor 'title'"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "fine"}\n' + line + "\n")
    with pytest.raises(DocumentFormatError, match=message):
        list(read_documents([tmp_path / "a.jsonl"]))


@pytest.mark.parametrize(
    "write",
    [
        lambda path: pyarrow.parquet.write_table(pyarrow.table({"pmid": ["1"], "text": ["x"]}), path),
        lambda path: path.write_bytes(b"PAR1 and then nothing of the kind"),
    ],
)
def test_a_parquet_file_that_has_no_documents_is_refused(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    write(tmp_path / "a.parquet")
    with pytest.raises(DocumentFormatError, match=r"a\.parquet"):
        list(read_documents([tmp_path / "a.parquet"]))


def test_a_missing_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentFormatError, match="no such file"):
        list(read_documents([tmp_path / "none.xml"]))
    with pytest.raises(DocumentFormatError, match="no document files"):
        list(read_documents([tmp_path]))
