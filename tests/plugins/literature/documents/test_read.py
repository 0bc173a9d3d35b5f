"""One stream of documents from files of any kind, each id once, deletions applied.

Files from strangers: nothing is fetched, nothing explodes, what would grow without a bound in memory is refused in
one line, and what is broken is said with file and line. Large honest files are read.
"""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.read import read_documents, superseded
from tests.plugins.literature.builders import deletion, medline, record
from tests.record_runs import jsonl


@pytest.mark.parametrize(
    ("files", "titles"),
    [
        # Files apply in the order given.
        ([(record(1, "one"), record(3, "three")), (record(1, "revised"), deletion(3))], {"1": "revised"}),
        # A higher version stands wherever it stands in the file, and a document that was deleted may come again.
        ([(record(1, "second", version=2), record(1, "first", version=1))], {"1": "second"}),
        ([(record(1, "old"), deletion(1), record(1, "new"))], {"1": "new"}),
    ],
)
def test_updates_replace_and_delete_what_came_before_them(
    tmp_path: Path, files: list[tuple[str, ...]], titles: dict[str, str]
) -> None:
    paths = [medline(tmp_path / f"{n}.xml.gz", *parts) for n, parts in enumerate(files)]
    assert {document.id: document.title for document in read_documents(paths)} == titles


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.booleans()), max_size=20))
def test_what_stands_is_what_applying_one_after_the_other_leaves(steps: list[tuple[str, int, bool]]) -> None:
    state: dict[str, tuple[int, int]] = {}
    for number, (name, version, deleted) in enumerate(steps):
        if not deleted and (name not in state or state[name][0] <= version):
            state[name] = (version, number)
        if deleted and name in state and state[name][0] <= version:
            del state[name]
    outdated = set().union(*superseded(steps))
    kept = [n for n, (_, _, deleted) in enumerate(steps) if not deleted and n not in outdated]
    assert kept == sorted(number for _, number in state.values())


def test_jsonl_parquet_and_folders_are_read(tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", [{"id": 1, "title": "t", "text": "x"}, {"id": "2", "text": "y", "more": 3}])
    table = pa.table({"id": ["3", "1"], "title": ["u", "v"], "text": [None, "z"]})
    pq.write_table(table, tmp_path / "b.parquet")
    rows = [(document.id, document.title, document.text) for document in read_documents([tmp_path])]
    assert rows == [("2", "", "y"), ("3", "u", ""), ("1", "v", "z")]


def xml(inside: str, prolog: str = "") -> str:
    return f'<?xml version="1.0"?>{prolog}<PubmedArticleSet>\n{inside}</PubmedArticleSet>'


LAUGHS = "".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(12))
MANY = xml("".join(record(n, abstract=str(n) * 99) for n in range(500))).encode()
LINE = '{"id": 1, "text": "fine"}\n'
# Content of a file, and the message.
BAD: list[tuple[str, str | bytes, str]] = [
    ("a.jsonl", LINE + '{"id": 1, "text": ', r"a\.jsonl line 2: not JSON"),
    ("a.jsonl", LINE + "[1]", "line 2: not a JSON object"),
    ("a.jsonl", LINE + '{"text": "x"}', "line 2: 'id' is missing"),
    ("a.jsonl", LINE + '{"id": true, "text": "x"}', "line 2: 'id' is missing or not text"),
    ("a.jsonl", LINE + '{"id": 1, "text": 5}', "line 2: 'text' is not text"),
    ("a.jsonl", LINE + '{"id": 1, "abstract": "x"}', "line 2: neither 'text' nor 'title'"),
    ("a.parquet", b"PAR1 and then nothing of the kind", r"a\.parquet: not readable as Parquet"),
    ("a.bin", b"\x00\x01hello", "neither XML nor JSON Lines nor Parquet"),
    ("a.xml.gz", gzip.compress(b"", mtime=0), "neither XML nor JSON Lines nor Parquet"),  # a broken download
    ("a.xml.gz", gzip.compress(b"<html><p>hello</p></html>", mtime=0), "no MEDLINE record and no JATS article"),
    ("a.xml.gz", gzip.compress(MANY, mtime=0)[:-2000], r"a\.xml\.gz: the gzip data is damaged"),
    ("a.xml", xml(record(1))[:-60], r"a\.xml line 2: not well-formed XML"),
    ("a.xml", xml(record(1).replace(">1<", ">one<")), r"a\.xml line 2: a record whose PMID is not a number"),
    ("a.xml", "<article><front><article-meta/></front></article>", "without an article-id"),
    # A chain of nested entities is never expanded, an external one never read.
    ("a.xml", xml(record(1, "&a12;"), f'<!DOCTYPE x [<!ENTITY a0 "ha">{LAUGHS}]>'), r"entit(y|ies)"),
    ("a.xml", xml(record(1, "&x;"), '<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]>'), r"entit(y|ies)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BAD, ids=lambda value: str(value)[:30])
def test_a_bad_file_is_named_in_a_line(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DocumentFormatError, match=message) as problem:
        list(read_documents([tmp_path / name]))
    assert "root:" not in str(problem.value)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def without_an_id(path: Path) -> None:
    pq.write_table(pa.table({"pmid": ["1"], "text": ["x"]}), path)


def unpacking_to_gigabytes(path: Path) -> None:
    table = pa.table({"id": ["1"], "text": ["x" * (100 << 20)]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 1 << 20


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("a.xml", lambda path: None, "no such file"),
        ("a", Path.mkdir, "no document files"),
        ("a.jsonl", os.mkfifo, "not a regular file"),
        ("a.xml", os.mkfifo, "not a regular file"),
        ("a.parquet", os.mkfifo, "not a regular file"),
        ("a.jsonl", link_to_a_device, "not a regular file"),
        ("a.parquet", without_an_id, r"a\.parquet: has the columns pmid, text"),
        ("a.parquet", unpacking_to_gigabytes, "bytes that unpack to"),
    ],
)
def test_what_is_no_file_of_documents_is_refused_and_not_waited_for(
    tmp_path: Path, name: str, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / name)
    with pytest.raises(DocumentFormatError, match=message):
        list(read_documents([tmp_path / name]))


def test_a_dtd_is_not_needed_and_comments_are_not_text(tmp_path: Path) -> None:
    prolog = '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD" "https://nowhere.invalid/pubmed.dtd">'
    text = "One<!-- two --> three, a<?x y?>b <![CDATA[<i>]]>"
    path = medline(tmp_path / "a.xml", record(1, "Of TGF-&beta; <i>here</i>", text), prolog=prolog)
    assert [(d.title, d.text) for d in read_documents([path])] == [("Of TGF-β here", "One three, ab <i>")]


JUNK = {
    "elements around records": "<j/>" * 300_000,
    "texts between records": "<j>text</j> tail " * 100_000,
    "a comment": f"<!--{'x>' * 1_000_000}-->",
    "an open tag": "<j " + "a='b' " * 300_000,
    "an instruction": f"<?x {'y' * 2_000_000}?>",
    "tags in a record": record(1, "<b/>" * 50_000),
}


@pytest.mark.parametrize("junk", JUNK)
def test_what_stands_in_and_around_records_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, junk: str
) -> None:
    monkeypatch.setenv("KGQA_MAX_XML_RECORD_BYTES", "1000000")
    monkeypatch.setenv("KGQA_MAX_XML_TAGS", "10000")
    path = medline(tmp_path / "a.xml", JUNK[junk] + record(1, "Title"))
    bounds = "no record or article within 1,000,000 bytes and 10,000 tags"
    with pytest.raises(DocumentFormatError, match=bounds):
        list(read_documents([path]))


def test_many_records_of_any_wrapping_pass_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGQA_MAX_XML_RECORD_BYTES", "200000")
    path = medline(tmp_path / "a.xml", *(f"<w>{record(k, 'Title')}</w>tail" for k in range(1, 2001)))
    assert path.stat().st_size > 300_000
    assert len(list(read_documents([path]))) == 2000


def test_a_text_that_many_rows_share_is_in_memory_once(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [str(k) for k in range(300)], "text": ["x" * 1_000_000] * 300}), path)
    pa.default_memory_pool().release_unused()
    before, most = pa.total_allocated_bytes(), 0
    for document in read_documents([path]):
        most = max(most, pa.total_allocated_bytes() - before)
        assert len(document.text) == 1_000_000
    assert most < 100_000_000
