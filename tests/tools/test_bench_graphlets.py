"""The benchmark of graphlets runs, counts alike everywhere, and says what it could not do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.by_path import load

TOOL = Path(__file__).resolve().parents[2] / "tools" / "bench_graphlets.py"


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
    for (program, task), row in rows.items():
        if row["basis"]:
            assert row["basis"] == "NOT INSTALLED"
            assert program != "kgqa"
            continue
        assert row["occurrences"] == result["occurrences"]
        assert row["user"] > 0
        assert row["peak_mb"] > 20
        assert set(row["ratio"]) == {"count", "sample"}
        assert program != "kgqa" or row["ratio"][task] == 1.0
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


def test_the_basis_of_an_extrapolation_is_said(bench, tmp_path, monkeypatch):
    figures = {"user": 2.0, "wall": 2.0, "peak_mb": 99.0, "slow": 1.0, "occurrences": 1000}
    part = {"roots": 0.01, "nodes": 1.0, "path": "x"}
    answers = {"--make": {"nodes": 3, "edges": 2, "max_degree": 2}, "--part": part, "--one": figures}
    monkeypatch.setattr(bench, "interpreters", lambda: {"igraph": "python"})
    monkeypatch.setattr(bench, "_child", lambda python, what, *rest: dict(answers[what]))
    peer = bench.compare("small", tmp_path, True)["rows"][-1]
    assert peer["basis"] == "extrapolated: 2e+03 us an occurrence, 1e+03 in 1.00% of the roots"
    assert peer["user"] == pytest.approx(2.0)


def test_a_missing_peer_is_said(bench, tmp_path, monkeypatch):
    figures = {"user": 1.0, "wall": 1.0, "peak_mb": 99.0, "slow": 1.0, "occurrences": 10}
    facts = {"nodes": 3, "edges": 2, "max_degree": 2}
    monkeypatch.setattr(bench, "interpreters", lambda: {"igraph": None, "graph-tool": None})
    monkeypatch.setattr(bench, "_child", lambda python, what, *rest: facts if what == "--make" else figures)
    text = bench.text_of(bench.compare("small", tmp_path, True))
    assert text.count("NOT INSTALLED") == 2
