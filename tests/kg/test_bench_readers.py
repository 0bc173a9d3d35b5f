from pathlib import Path

import pytest

from tests.by_path import load

TOOL = Path(__file__).parents[2] / "tools" / "bench_readers.py"


@pytest.fixture(scope="module")
def bench():
    return load(TOOL)


def test_all_formats_of_the_benchmark_hold_the_same_graph(bench, load, tmp_path):
    bench.write_files(tmp_path, 20, 60)
    plain = load("csv", nodes=tmp_path / "nodes.csv", edges=tmp_path / "edges.csv")
    zipped = load("csv", nodes=tmp_path / "nodes.csv.gz", edges=tmp_path / "edges.csv.gz")
    graphml = load("graphml", path=tmp_path / "graph.graphml")
    triples = load("triples", path=tmp_path / "triples.tsv", nodes=tmp_path / "nodes.csv")
    assert plain.num_edges == 60
    for other in (zipped, graphml, triples):
        assert other.names.tolist() == plain.names.tolist()
        assert other.edge_source.tolist() == plain.edge_source.tolist()
        assert other.edge_type.tolist() == plain.edge_type.tolist()


@pytest.mark.plugin("biokg")
def test_every_reader_is_measured(bench, tmp_path):
    bench.write_files(tmp_path, 20, 60)
    for label, (_, beside) in bench.READERS.items():
        assert beside in ("", *bench.READERS)
        assert bench.measure(label, tmp_path, 1)["cpu"] >= 0
