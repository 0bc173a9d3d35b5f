"""Rendered prompts and records are compared with the graph's file edge by edge: each edge as it stands, none else."""

import csv
import random
import re
from functools import cache

import pytest

from kgqa_hpc import stages
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.runs import open_run
from kgqa_hpc.runs.chain import build_chain, kind_of
from kgqa_hpc.steps.item import Item
from kgqa_hpc.store.shards import AnchorsFile
from tests.project import write_tables

SEED = 29
NODES = 60
TYPES = ("treats", "has phenotype", "is near")
CONFIG = """
seed: 7
graph: {{source: csv, nodes: nodes.csv, edges: edges.csv, min_degree: 1}}
anchors: {{kind: graphlet, per_shape: 4}}
prompts: {{edge_types: {typed}}}
passes: [{{name: main, steps: [{{use: generate, prompt: {prompt}}}, judge]}}]
engine: {{kind: scripted}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A directed graph with edges both ways, several types between the same two nodes, and odd names."""
    folder = tmp_path_factory.mktemp("edges")
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    names = [f"{draw.choice(['node', 'Ñandú', '[NAD]', 'p53-'])}{i}" for i in range(NODES)]
    names[3], names[4] = "6'''-feruloylspinosin", "1,2-(dimethyl) [x] “y”"
    pairs = {tuple(draw.sample(range(NODES), 2)) for _ in range(150)}
    pairs |= {(b, a) for a, b in sorted(pairs)[:40]}
    rows = {(a, b, draw.choice(TYPES)) for a, b in sorted(pairs)}
    rows |= {(a, b, "near to") for a, b in sorted(pairs)[:30]}
    lines = [(f"N{a}", f"N{b}", kind) for a, b, kind in sorted(rows)]
    write_tables(folder, [(f"N{i}", name, "T") for i, name in enumerate(names)], [*lines, *lines[:20]])
    return folder


@cache
def sampled(project, prompt, typed):
    run, file = project / f"{prompt}-{typed}", project / f"{prompt}-{typed}.yaml"
    file.write_text(CONFIG.format(prompt=prompt, typed=str(typed).lower()))
    stages.init(file, run)
    stages.import_graph(run)
    stages.sample(run)
    folder, config = open_run(run)
    with AnchorsFile(folder.anchors) as anchors:
        return config, [Anchor.from_dict(row) for row in anchors.rows()]


def edges_among(project, anchor):
    """What edges.csv says of the nodes of an anchor."""
    with (project / "edges.csv").open(encoding="utf-8", newline="") as file:
        rows = [tuple(row) for row in csv.reader(file)][1:]
    names = {node.id: node.name for node in anchor.nodes}
    return {(names[a], kind, names[b]) for a, b, kind in rows if a in names and b in names and a != b}


def prompt_text(config, anchor):
    return build_chain(config, "main")[0].request(Item(anchor), 0).messages[-1]["content"]


@pytest.mark.parametrize("prompt", ["p5", "p1_1", "published_p5"])
def test_without_types_a_prompt_lists_each_directed_pair_of_the_graph_once(project, prompt):
    config, anchors = sampled(project, prompt, typed=False)
    assert len(anchors) > 60
    both_ways = 0
    for anchor in anchors:
        text = prompt_text(config, anchor).split("Edges:")[1]
        shown = [tuple(map(int, pair)) for pair in re.findall(r"[(\[](\d+), (\d+)[)\]]", text)]
        names = [node.name for node in anchor.nodes]
        expected = {(head, tail) for head, _, tail in edges_among(project, anchor)}
        assert len(shown) == len(set(shown))
        assert {(names[a], names[b]) for a, b in shown} == expected, anchor.id
        both_ways += any((b, a) in expected for a, b in expected)
    assert both_ways > 5


def test_with_types_a_prompt_has_a_readable_line_and_a_record_a_triple_for_each_edge_of_the_graph(project):
    config, anchors = sampled(project, "p5", typed=True)
    for anchor in anchors:
        lines = prompt_text(config, anchor).split("Edges:\n")[1].splitlines()
        shown = [re.fullmatch(r"- (.+) —(.+)→ (.+)", line) for line in lines if "→" in line]
        assert all(shown)
        told = [found.groups() for found in shown if found]
        assert len(told) == len(set(told))
        triples = kind_of(config).record(anchor, {})["triples"]
        assert set(told) == set(map(tuple, triples)) == edges_among(project, anchor), anchor.id
