"""Files are streams: packed in any way, cut anywhere, and forgotten as they are read."""

import bz2
import gc
import gzip
import lzma
import zipfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg import delimited
from kgqa_hpc.kg.assemble import Assembly
from kgqa_hpc.kg.delimited import CSV, TSV, DelimitedFile, Dialect
from kgqa_hpc.kg.kernels import Interner
from kgqa_hpc.kg.settings import GraphConfig
from kgqa_hpc.kg.sources.csv import named_by_id, read_table
from tests.kg.conftest import load_source

NODES = b"id,name,type\na,Alpha,x\nb,Beta,x\n"
EDGES = b"source_id,target_id,type\na,b,r\n"
PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "plain": lambda data: data}


@pytest.mark.parametrize("kind", PACKED)
def test_a_file_is_unpacked_by_its_content_whatever_its_name(write, kind):
    files = {name: write(name, PACKED[kind](data)) for name, data in (("nodes", NODES), ("edges", EDGES))}
    graph = load_source("csv", **files)
    assert graph.names.tolist() == ["Alpha", "Beta"]


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_a_packed_file_cut_short_is_one_clear_error(write, kind):
    torn = PACKED[kind](NODES * 50)[:-6]
    with pytest.raises(GraphFormatError, match="data is damaged or cut short"):
        load_source("csv", nodes=write("nodes", torn), edges=write("edges", EDGES))


@pytest.mark.parametrize(("place", "bits", "reason"), [(8, 1, "encrypted"), (10, 99, "not supported")])
def test_a_zip_that_cannot_be_unpacked_is_one_clear_error(write, tmp_path, place, bits, reason):
    with zipfile.ZipFile(tmp_path / "n.zip", "w") as archive:
        archive.writestr("a", NODES)
    data = bytearray((tmp_path / "n.zip").read_bytes())
    data[data.index(b"PK\x01\x02") + place] |= bits  # in the central directory, and in the file's own header
    data[place - 2] |= bits
    with pytest.raises(GraphFormatError, match=rf"n\.zip: cannot be unpacked: .*{reason}"):
        load_source("csv", nodes=write("n.zip", bytes(data)), edges=write("edges", EDGES))
    with zipfile.ZipFile(tmp_path / "n.zip", "w") as archive:
        archive.writestr("a", "x")
        archive.writestr("b", "x")
    with pytest.raises(GraphFormatError, match=r"n\.zip: holds 2 files"):
        load_source("csv", nodes=tmp_path / "n.zip", edges=write("edges", EDGES))


def test_a_line_beyond_the_limit_is_refused_and_never_cut_in_two(write, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 64)
    monkeypatch.setenv("KGQA_MAX_LINE_BYTES", "100")
    file = DelimitedFile.open(write("t", "a\tb\n1\t2\n3\t" + "x" * 300 + "\n"), Dialect("\t", ragged=True))
    with pytest.raises(GraphFormatError, match="t: has a line of more than 100 bytes"):
        list(file.rows(["a", "b"], ["a", "b"], header=True))


@pytest.mark.parametrize("dialect", [CSV, TSV], ids=["csv", "tsv"])
def test_rows_come_whole_wherever_a_block_ends(write, monkeypatch, dialect):
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 64)
    sign = dialect.separator
    rows = [f"{number}{sign}{'x' * (number % 40)}" for number in range(300)]
    file = DelimitedFile.open(write("t", f"a{sign}b\n" + "\n".join(rows)), dialect)
    found: list[tuple[str, str]] = []
    for batch in file.rows(["a", "b"], ["a", "b"], header=True):
        assert batch.line_of(0) == len(found) + 2
        found += zip(batch["a"].to_pylist(), batch["b"].to_pylist(), strict=True)
    assert found == [tuple(row.split(sign)) for row in rows]
    assert batch.line_of(len(batch) - 1) == 301


def test_a_malformed_row_of_a_later_block_is_named_with_its_line(write, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 64)
    text = "a\tb\n" + "1\t2\n" * 100 + "1\n" + "1\t2\n" * 100
    file = DelimitedFile.open(write("t.tsv", text), TSV)
    with pytest.raises(GraphFormatError, match=r"t\.tsv line 102: expected 2 fields, found 1"):
        list(file.rows(["a", "b"], ["a"], header=True))


def test_a_file_that_was_read_leaves_no_batch_in_memory(write):
    rows = b"".join(b"node number %d,node number %d,relation\n" % (i % 500, i % 499) for i in range(300_000))
    path = write("e.csv", b"source_id,target_id,type\n" + rows)
    assembly = Assembly(GraphConfig())
    gc.collect()
    before = pa.total_allocated_bytes()
    for part in read_table(path, CSV, ("source_id", "target_id", "type")):
        assembly.edges(part.file, part["source_id"], part["target_id"], part["type"], part.line_of)
    del part
    gc.collect()
    assert pa.total_allocated_bytes() - before < len(rows) / 10


@settings(max_examples=60)
@given(st.lists(st.lists(st.tuples(*[st.sampled_from("abcdefgh")] * 2), min_size=1, max_size=9), min_size=1))
def test_nodes_that_only_edges_name_stand_in_the_order_of_their_appearance(batches):
    assembly = Assembly(GraphConfig())
    for rows in batches:
        source, target = (pa.array(column) for column in zip(*rows, strict=True))
        assembly.edges("e", source, target, source, lambda row: row)
    graph = assembly.finish({}, declare=named_by_id)
    ends = [row for rows in batches for row in rows]
    assert graph.node_ids.tolist() == list(dict.fromkeys(node for row in ends for node in row))
    pairs = zip(graph.node_ids[graph.edge_source], graph.node_ids[graph.edge_target], strict=True)
    assert list(pairs) == ends
    assert graph.edge_types == tuple(dict.fromkeys(source for source, _ in ends))


def test_the_table_grows_with_its_texts_and_slices_are_read_where_they_are():
    interner = Interner()
    values = [f"id {number}" for number in range(200_000)]
    slice_ = pa.array(["x", *values], pa.large_string()).slice(1)
    assert interner.numbers(slice_).tolist() == [*range(200_000)]
    reverse = interner.numbers(pa.array(values[::-1], pa.large_string()))
    assert reverse.tolist() == list(range(199_999, -1, -1))
    assert interner.texts().to_pylist() == values
