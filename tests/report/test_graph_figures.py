"""The page of a run that read a graph shows it before and after reduction (the paper's Figures 3, 9 and 10)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.kg.file import read_graph
from kgqa_hpc.kg.profile import NameLengths, Profile, Profiles, dump_profiles, profile, read_profiles
from kgqa_hpc.report.graph_pictures import graph_figures
from kgqa_hpc.report.page import write_report
from tests.families.graphs import random_graph
from tests.families.sampled_runs import sampled


def names_of(svg: str) -> str:
    found = re.match(r'<figure><svg class="figure"[^>]* role="img"><title>([^<]+)</title>', svg)
    assert found
    return found[1]


def test_sample_keeps_the_numbers_of_both_graphs(tmp_path: Path) -> None:
    made = random_graph(5, 60, 240)
    rows = zip(made.edge_source, made.edge_target, made.edge_type, strict=True)
    nodes = [",".join(made.node(number)) for number in range(made.num_nodes)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,name,type", *nodes, ""]))
    edges = [f"N{source},N{target},{made.edge_types[kind]}" for source, target, kind in rows]
    (tmp_path / "edges.csv").write_text("\n".join(["source_id,target_id,type", *edges, ""]))
    files = {name: str(tmp_path / f"{name}.csv") for name in ("nodes", "edges")}
    run = sampled(
        tmp_path,
        {
            "seed": 1,
            "graph": {"source": "csv", **files, "max_degree": 8},
            "anchors": {"kind": "path", "number": 5},
            "engine": {"kind": "scripted"},
            "passes": [{"name": "main", "steps": [{"use": "word", "prompt": "path"}]}],
        },
    )
    found = read_profiles(run.stats / "graph.json")
    assert found
    assert found.graph == profile(read_graph(run.kg))
    assert found.reduced
    assert 0 < found.reduced.nodes < found.graph.nodes


def test_figures_tell_their_numbers_in_words() -> None:
    before = Profile(
        10,
        12,
        {0: 4, 1: 3, 4: 2, 1000: 1},
        {"gene": 9, "<b>": 1},
        {"gene": NameLengths(9, (1, 2, 3, 4, 200), 950, 2)},
    )
    after = Profile(2, 1, {1: 2}, {"gene": 2}, {})
    found = graph_figures(Profiles(before, after))
    told = {name: names_of(svg) for name, svg in found.items()}
    assert told == {
        "degrees": "Degrees of nodes: before reduction 10 nodes, median degree 1, highest 1,000; "
        "after 2 nodes, median degree 1, highest 1",
        "node_types": "Types of nodes, 2 in all: before reduction gene 90.0 %, &lt;b&gt; 10.0 %; "
        "after gene 100.0 %, &lt;b&gt; 0.0 %",
        "name_lengths": "Lengths of names by type: gene median 3, longest 950, 2 of 9 above 150",
    }
    assert found["degrees"].count("<circle") == 4  # degree 0 has no place on a logarithmic axis
    assert all("<b>" not in svg for svg in found.values())
    assert set(graph_figures(Profiles(before, None))) == set(found)


def test_the_page_has_them_where_the_run_read_a_graph(make_run: Any) -> None:
    run = make_run()
    run.finish()
    merge(run.folder)
    assert "before and after reduction" not in write_report(run.folder).read_text()
    one = profile(random_graph(5, 60, 240))
    run.folder.stats.mkdir(exist_ok=True)
    (run.folder.stats / "graph.json").write_bytes(dump_profiles(Profiles(one, one)))
    page = write_report(run.folder).read_text()
    assert "The graph before and after reduction" in page
    assert page.count('class="figure"') == 10 + 29
