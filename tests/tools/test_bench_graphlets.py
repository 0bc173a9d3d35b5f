"""The benchmark of graphlets counts alike everywhere; the graphs that it measures on are what they are said to be."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.graphlets.count import count_graphlets
from tests.by_path import load

TOOL = Path(__file__).resolve().parents[2] / "tools" / "bench_graphlets.py"
graphs = load(TOOL.with_name("synthetic_graphs.py"))


@pytest.fixture(scope="module")
def bench():
    return load(TOOL)


@pytest.mark.slow
def test_the_quick_benchmark_measures_ours_beside_the_peers(bench):
    done = subprocess.run(
        [sys.executable, str(TOOL), "--quick", "--json"], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    rows = {(row["program"], row["task"]): row for row in result["rows"]}
    assert {("kgqa", "count"), ("kgqa", "sample"), ("igraph", "count"), ("graph-tool", "count")} <= set(rows)
    least = rows.pop(("graph-tool", "sample"), None)
    if least is not None:  # it is installed
        assert least["user"] == 2 * rows["graph-tool", "count"]["user"]
        assert least["basis"].startswith("at least")
    assert {row["basis"] for row in rows.values()} <= {"", "NOT INSTALLED"}
    measured = {name: row for name, row in rows.items() if not row["basis"]}
    assert {("kgqa", task): 1.0 for task in ("count", "sample")} == {
        name: row["ratio"][name[1]] for name, row in measured.items() if name[0] == "kgqa"
    }
    for row in measured.values():
        assert row["occurrences"] == result["occurrences"]
        assert row["user"] > 0
        assert row["peak_mb"] > 20
    assert rows["kgqa", "sample"]["sampled"] > 10_000
    text = bench.text_of(result)
    assert len(text.splitlines()) == 2 + len(result["rows"])
    assert "graph-tool" in text


def test_a_peer_that_would_take_too_long_counts_a_part(bench, tmp_path, monkeypatch):
    path = tmp_path / "small.npz"
    nodes = bench.make("small", path)["nodes"]
    assert bench.part_of("igraph", path, 900) == {"roots": 1.0, "nodes": 1.0, "path": str(path)}
    monkeypatch.setitem(bench.PEER_OCCURRENCES, "graph-tool", 1000)
    some = 1000 / bench.FEWEST_ROOTS * nodes / 2
    assert bench.part_of("graph-tool", path, some)["roots"] == pytest.approx(1000 / some)
    part = bench.part_of("graph-tool", path, 1e9)  # as if it had hubs: hardly a root could be afforded
    assert part["roots"] == 1.0
    assert 0 < part["nodes"] < 1
    assert part["occurrences"] <= 1000


EXTRAPOLATED = "extrapolated: 2e+03 us an occurrence, 1e+03 in 1.00% of the roots"


@pytest.mark.parametrize(("python", "basis"), [("python", EXTRAPOLATED), (None, "NOT INSTALLED")])
def test_the_basis_of_extrapolations_and_missing_peers_are_said(bench, tmp_path, monkeypatch, python, basis):
    figures = {"user": 2.0, "wall": 2.0, "peak_mb": 99.0, "slow": 1.0, "occurrences": 1000}
    part = {"roots": 0.01, "nodes": 1.0, "path": "x"}
    answers = {"--make": {"nodes": 3, "edges": 2, "max_degree": 2}, "--part": part, "--one": figures}
    monkeypatch.setattr(bench, "interpreters", lambda: {"igraph": python})
    monkeypatch.setattr(bench, "_child", lambda python, what, *rest: dict(answers[what]))
    result = bench.compare("small", tmp_path, True)
    assert result["rows"][-1]["basis"] == basis
    assert basis in bench.text_of(result)
    assert python is None or result["rows"][-1]["user"] == pytest.approx(2.0)


@pytest.fixture(scope="module")
def twin():
    return graphs.oregano_twin()


def is_simple(csr):
    indptr, indices = csr
    source = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    keys = source * len(indptr) + indices
    back = np.sort(indices.astype(np.int64) * len(indptr) + source)
    return bool((np.diff(keys) > 0).all() and (source != indices).all() and (keys == back).all())


def test_the_twin_has_the_size_of_the_published_graph_and_counts_as_it_does(twin):
    degree = np.diff(twin[0])
    assert is_simple(twin)
    assert len(degree) == pytest.approx(41_115, rel=0.04)
    assert len(twin[1]) / 2 == pytest.approx(129_992, rel=0.06)
    assert degree.min() > 0
    assert degree.max() < 120
    counts = count_graphlets(twin)
    for shape, published in graphs.PUBLISHED.items():
        assert counts[shape] == pytest.approx(published, rel=0.04)
    assert sum(counts.values()) == pytest.approx(3.75e9, rel=0.05)
    assert counts[2] == pytest.approx(3702, rel=0.15)  # triangles, Table 1
    assert counts[5] == pytest.approx(3_609_661, rel=0.25)  # squares
    assert counts[29] == pytest.approx(44_022, rel=0.05)  # cliques of five


def test_hubs_grow_with_the_graph():
    """The full graph has 9.8 million edges and hubs of 16,000; a hundredth of it is built the same way."""
    csr = graphs.hub_graph(nodes=10_000, draws=98_700)
    degree = np.diff(csr[0])
    assert is_simple(csr)
    assert len(degree) == 10_000
    assert len(csr[1]) / 2 == pytest.approx(90_000, rel=0.1)
    assert degree.max() > 50 * degree.mean()


def test_the_same_seed_gives_the_same_graph_and_another_another(twin):
    def small(seed):
        return graphs.hub_graph(seed, nodes=500, draws=2000)

    for first, again, other in (
        (twin, graphs.oregano_twin(1), graphs.oregano_twin(2)),
        (small(1), small(1), small(2)),
    ):
        assert all(map(np.array_equal, first, again))
        assert not all(map(np.array_equal, first, other))
