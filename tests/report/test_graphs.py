"""Use of nodes is counted exactly in bounded memory; graphs are drawn with their numbers (Figures 1, 3, 5, 9, 10)."""

import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgqa_hpc.drawing import many_nodes
from kgqa_hpc.intervals import wilson
from kgqa_hpc.kg.describe import NameLengths, Profile, Profiles, dump_profiles, profile, read_profiles
from kgqa_hpc.kg.file import read_graph
from kgqa_hpc.report import findings, pictures
from kgqa_hpc.report.findings import count_nodes
from kgqa_hpc.report.page import write_report
from kgqa_hpc.report.pictures import covered_graph, graph_figures, group_drawing
from tests.families.conftest import as_tables, random_graph, sampled

NODES = pa.list_(pa.struct([(name, pa.string()) for name in ("id", "name", "type")]))
EDGES = pa.list_(pa.list_(pa.int64()))


def parts(folder: Path, records: list[tuple[Any, Any]]) -> list[Path]:
    """The records in two Parquet files."""
    paths = []
    for number, half in enumerate((records[::2], records[1::2])):
        nodes, edges = ([one[place] for one in half] for place in (0, 1))
        paths.append(folder / f"{number}.parquet")
        table = pa.table({"id": list(map(str, range(len(half)))), "nodes": pa.array(nodes, NODES)})
        pq.write_table(table.append_column("edges", pa.array(edges, EDGES)), paths[-1])
    return paths


def node(number: int) -> dict[str, str]:
    return {"id": f"N{number:03d}", "name": f"name of {number}", "type": "T"}


def test_counts_are_those_of_a_plain_count(tmp_path: Path) -> None:
    draw = random.Random(3)
    records: list[tuple[Any, Any]] = [(None, None), ([], [])]
    for _ in range(300):
        numbers = [int(draw.paretovariate(0.6)) % 150 for _ in range(draw.randint(1, 5))]
        size = range(len(numbers))
        edges = [[draw.choice(size), draw.choice(size)] for _ in range(draw.randint(0, 4))]
        records.append(([node(number) for number in numbers], edges))
    draw.shuffle(records)
    questions = Counter(one["id"] for nodes, _ in records for one in nodes or ())
    links = {
        tuple(sorted((nodes[a]["id"], nodes[b]["id"]))) for nodes, edges in records for a, b in edges or ()
    }
    degrees = Counter(end for ends in links if ends[0] != ends[1] for end in ends)
    found = count_nodes(parts(tmp_path, records), seed=1)
    assert found.links == len(links)
    rows = zip(found.questions.tolist(), found.degrees.tolist(), strict=True)
    assert sorted(rows) == sorted((count, degrees[name]) for name, count in questions.items())
    expected = sorted(questions.items(), key=lambda one: (-one[1], one[0]))[: findings.TOP_NODES]
    assert found.top == [(name, f"name of {int(name[1:])}", count) for name, count in expected]


def test_without_nodes_or_edges_there_is_nothing_to_count(tmp_path: Path) -> None:
    none = tmp_path / "none.parquet"
    pq.write_table(pa.table({"id": ["a"]}), none)
    assert count_nodes([none], seed=1).top == []
    alone = tmp_path / "alone.parquet"
    pq.write_table(pa.table({"nodes": pa.array([[node(1)], None], NODES)}), alone)
    found = count_nodes([alone, *parts(tmp_path, [(None, None)])], seed=1)
    assert (found.questions.tolist(), found.links, found.top) == ([1], 0, [("N001", "name of 1", 1)])


def test_a_count_larger_than_the_memory_leaves_no_file_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[tuple[Any, Any]] = [
        ([{"id": f"N{n}-{i}" * 10, "name": "x" * 40, "type": "T"} for i in range(20)], [[0, 1]])
        for n in range(20_000)
    ]
    paths = parts(tmp_path, records)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    spilled = []
    monkeypatch.setattr(findings, "MEMORY", "60MB")
    sample = findings._drawn_nodes
    monkeypatch.setattr(
        findings, "_drawn_nodes", lambda *given: spilled.extend(Path().iterdir()) or sample(*given)
    )
    assert len(count_nodes(paths, seed=1).questions) == 400_000
    assert spilled == list(Path().iterdir()) == []


def row(total: int | None, accepted: int, judged: int, sampled: int = 9) -> dict[str, object]:
    share = wilson(accepted, judged)
    named = {"group": "g 1", "id": 1, "name": "<path>", "edges": ((0, 1), (1, 2)), "total": total}
    return {**named, "share": share, "absent": not sampled}


def test_a_drawn_group_tells_how_many_there_are_and_how_many_were_accepted() -> None:
    rows = [row(5000, 34, 46), row(None, 0, 0), row(0, 0, 0, 0), row(7, 0, 0, 0), row(10**13, 1, 2)]
    told = [svg.split("<title>")[1].split("</title>")[0] for svg in map(group_drawing, rows)]
    assert told == [
        "g 1 &lt;path&gt;: 5,000 in the graph, 73.9 % accepted (95 % interval 59.7 to 84.4 %)",
        "g 1 &lt;path&gt;: not counted, none judged",
        "g 1 &lt;path&gt;: absent from the graph",
        "g 1 &lt;path&gt;: 7 in the graph, none drawn",
        "g 1 &lt;path&gt;: 1e+13 in the graph, 50.0 % accepted (95 % interval 9.5 to 90.5 %)",
    ]
    drawn = [group_drawing(row) for row in rows]
    assert [svg.count('class="acc"') for svg in drawn] == [3, 3, 0, 0, 3]
    assert all(svg.count("L") == 2 for svg in drawn)


def hub_and_others(folder: Path, others: int = 400) -> list[Path]:
    """One node in every record, joined to another each time, and two of these to each other."""
    records = [([node(0), node(n), node(n % others + 1)], [[0, 1], [2, 0], [1, 1]]) for n in range(1, others)]
    return parts(folder, [*records, ([node(1), node(2)], [[0, 1]])])


def test_the_sample_follows_the_questions_and_its_links_are_those_of_the_graph(tmp_path: Path) -> None:
    paths = hub_and_others(tmp_path)
    found = count_nodes(paths, seed=3)
    ids = [name for name, _, _ in found.sample]
    assert (len(set(ids)), len(found.questions)) == (findings.NODES, 401)
    assert found.sample[0] == ("N000", "name of 0", 399)  # a chance of about 1e-100 against it
    counts = [count for _, _, count in found.sample]
    assert counts == sorted(counts, reverse=True)
    links = {frozenset(ids[end] for end in pair) for pair in found.sample_links.tolist()}
    expected = {frozenset(("N000", other)) for other in ids[1:]}
    assert links == expected | ({frozenset(("N001", "N002"))} if {"N001", "N002"} <= set(ids) else set())
    assert {name for name, _, _ in count_nodes(paths, seed=4).sample} != set(ids)


def test_another_process_draws_the_same_picture(tmp_path: Path) -> None:
    paths = hub_and_others(tmp_path)
    code = (
        "import sys; from pathlib import Path; from kgqa_hpc.report.findings import count_nodes\n"
        "from kgqa_hpc.report.pictures import covered_graph\n"
        "print(covered_graph(count_nodes([Path(p) for p in sys.argv[1:]], seed=3)), end='')"
    )
    command = [sys.executable, "-c", code, *map(str, paths)]
    environment = {"PYTHONHASHSEED": "5", "PYTHONPATH": str(Path(__file__).parents[2])}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert out.stdout == covered_graph(count_nodes(paths, seed=3))


def test_the_picture_tells_a_sample_and_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = range(300)
    dense = [[a, b] for a in every for b in range(a)]
    nodes = [{"id": f"N{n}", "name": f"<{'x' * 10_000}{n}>", "type": "T"} for n in every]
    found = count_nodes(parts(tmp_path, [(nodes, dense), (nodes[:7], [])]), seed=1)
    drawn = covered_graph(found)
    assert len(drawn) < 200_000
    assert "<x" not in drawn
    told = "all 300 nodes, and the 44,850 joined pairs among them, 5,000 of them drawn, of 44,850 in all"
    assert told in drawn
    assert drawn.count("<circle") == 300
    monkeypatch.setattr(findings, "NODES", 20)
    monkeypatch.setattr(pictures, "LINKS", 190)
    few = covered_graph(count_nodes(parts(tmp_path, [(nodes, dense)]), seed=1))
    assert "20 of 300 nodes, drawn by chance in proportion to their accepted questions" in few
    assert few.count("L") - few.count("LL") >= 190


def test_forces_keep_nodes_apart_and_what_is_joined_together() -> None:
    ring = np.array([(n, (n + 1) % 20) for n in range(20)] + [(20 + n, 20 + (n + 1) % 20) for n in range(20)])
    at = many_nodes(45, ring)  # two rings, and five nodes that nothing joins
    apart = np.linalg.norm(at[:, None] - at[None], axis=2)
    assert apart[np.triu_indices(45, 1)].min() > 0.02
    assert np.median(apart[ring[:, 0], ring[:, 1]]) < 0.5 * np.median(apart)
    assert np.abs(at).max() < 4


def test_sample_keeps_the_numbers_of_both_graphs(tmp_path: Path) -> None:
    tables = as_tables(random_graph(5, 60, 240), tmp_path)
    run = sampled(
        tmp_path,
        {
            "seed": 1,
            "graph": {**tables, "max_degree": 8},
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
    captions = [re.search(r"<title>([^<]+)</title>", svg) for svg in found.values()]
    told = {name: caption[1] for name, caption in zip(found, captions, strict=True) if caption}
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


def test_the_page_has_them_where_the_run_read_a_graph(make_merged: Any) -> None:
    run, _ = make_merged()
    assert "before and after reduction" not in write_report(run.folder).read_text()
    one = profile(random_graph(5, 60, 240))
    run.folder.stats.mkdir(exist_ok=True)
    (run.folder.stats / "graph.json").write_bytes(dump_profiles(Profiles(one, one)))
    page = write_report(run.folder).read_text()
    assert "The graph before and after reduction" in page
    assert page.count('class="figure"') == 10 + 29
