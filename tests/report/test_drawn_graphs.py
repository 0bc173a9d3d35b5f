"""Groups are drawn with their numbers, and of the covered graph a sample that chance cannot change (Figures 5, 1)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.drawing.graph_layout import many_nodes
from kgqa_hpc.intervals import wilson
from kgqa_hpc.report import graph_pictures, node_use
from kgqa_hpc.report.graph_pictures import covered_graph, group_drawings
from kgqa_hpc.report.node_use import count_nodes
from tests.report.test_node_use import node, parts


def row(total: int | None, accepted: int, judged: int, sampled: int = 9) -> dict[str, object]:
    share = wilson(accepted, judged)
    named = {"group": "g 1", "id": 1, "name": "<path>", "edges": ((0, 1), (1, 2)), "total": total}
    return {**named, "share": share, "absent": not sampled}


def test_a_drawn_group_tells_how_many_there_are_and_how_many_were_accepted() -> None:
    rows = [row(5000, 34, 46), row(None, 0, 0), row(0, 0, 0, 0), row(7, 0, 0, 0), row(10**13, 1, 2)]
    told = [svg.split("<title>")[1].split("</title>")[0] for svg in group_drawings(rows)]
    assert told == [
        "g 1 &lt;path&gt;: 5,000 in the graph, 73.9 % accepted (95 % interval 59.7 to 84.4 %)",
        "g 1 &lt;path&gt;: not counted, none judged",
        "g 1 &lt;path&gt;: absent from the graph",
        "g 1 &lt;path&gt;: 7 in the graph, none drawn",
        "g 1 &lt;path&gt;: 1e+13 in the graph, 50.0 % accepted (95 % interval 9.5 to 90.5 %)",
    ]
    drawn = group_drawings(rows)
    assert [svg.count('class="acc"') for svg in drawn] == [3, 3, 0, 0, 3]
    assert all(svg.count("L") == 2 for svg in drawn)
    assert group_drawings([{"group": "without edges"}]) == []


def hub_and_others(folder: Path, others: int = 400) -> list[Path]:
    """One node in every record, joined to another each time, and two of these to each other."""
    records = [([node(0), node(n), node(n % others + 1)], [[0, 1], [2, 0], [1, 1]]) for n in range(1, others)]
    return parts(folder, [*records, ([node(1), node(2)], [[0, 1]])])


def test_the_sample_follows_the_questions_and_its_links_are_those_of_the_graph(tmp_path: Path) -> None:
    paths = hub_and_others(tmp_path)
    found = count_nodes(paths, seed=3)
    ids = [name for name, _, _ in found.sample.nodes]
    assert (len(set(ids)), len(found.questions)) == (node_use.SAMPLED, 401)
    assert found.sample.nodes[0] == ("N000", "name of 0", 399)  # a chance of about 1e-100 against it
    counts = [count for _, _, count in found.sample.nodes]
    assert counts == sorted(counts, reverse=True)
    links = {frozenset(ids[end] for end in pair) for pair in found.sample.links.tolist()}
    expected = {frozenset(("N000", other)) for other in ids[1:]}
    assert links == expected | ({frozenset(("N001", "N002"))} if {"N001", "N002"} <= set(ids) else set())
    assert {name for name, _, _ in count_nodes(paths, seed=4).sample.nodes} != set(ids)


def test_another_process_draws_the_same_picture(tmp_path: Path) -> None:
    paths = hub_and_others(tmp_path)
    code = (
        "import sys; from pathlib import Path; from kgqa_hpc.report.node_use import count_nodes\n"
        "from kgqa_hpc.report.graph_pictures import covered_graph\n"
        "print(covered_graph(count_nodes([Path(p) for p in sys.argv[1:]], seed=3)), end='')"
    )
    command = [sys.executable, "-c", code, *map(str, paths)]
    environment = {"PYTHONHASHSEED": "5", "PYTHONPATH": str(Path(__file__).parents[2])}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert out.stdout == covered_graph(count_nodes(paths, seed=3))


def test_the_picture_says_what_was_sampled_and_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = range(300)
    dense = [[a, b] for a in every for b in range(a)]
    nodes = [{"id": f"N{n}", "name": f"<{'x' * 500}{n}>", "type": "T"} for n in every]
    found = count_nodes(parts(tmp_path, [(nodes, dense), (nodes[:7], [])]), seed=1)
    drawn = covered_graph(found)
    assert len(drawn) < 200_000
    assert "<x" not in drawn
    told = "all 300 nodes, and the 44,850 joined pairs among them, 5,000 of them drawn, of 44,850 in all"
    assert told in drawn
    assert drawn.count("<circle") == 300
    monkeypatch.setattr(node_use, "SAMPLED", 20)
    monkeypatch.setattr(graph_pictures, "LINKS", 190)
    few = covered_graph(count_nodes(parts(tmp_path, [(nodes, dense)]), seed=1))
    assert "20 of 300 nodes, drawn by chance in proportion to their accepted questions" in few
    assert few.count("L") - few.count("LL") >= 190


def test_a_name_of_any_length_leaves_the_caption_readable(tmp_path: Path) -> None:
    nodes = [{**node(n), "name": f"{n}" + "x" * 10_000} for n in range(3)]
    assert len(covered_graph(count_nodes(parts(tmp_path, [(nodes, [[0, 1], [1, 2]])]), seed=1))) < 5_000


def test_forces_keep_nodes_apart_and_what_is_joined_together() -> None:
    ring = np.array([(n, (n + 1) % 20) for n in range(20)] + [(20 + n, 20 + (n + 1) % 20) for n in range(20)])
    at = many_nodes(45, ring)  # two rings, and five nodes that nothing joins
    apart = np.linalg.norm(at[:, None] - at[None], axis=2)
    assert apart[np.triu_indices(45, 1)].min() > 0.02
    assert np.median(apart[ring[:, 0], ring[:, 1]]) < 0.5 * np.median(apart)
    assert np.abs(at).max() < 4
