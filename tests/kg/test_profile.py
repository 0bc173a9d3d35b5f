"""The numbers behind the figures of a graph are those of the graph, and are read back as they were written."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.profile import Profiles, dump_profiles, profile, read_profiles


def test_degrees_types_and_names_are_counted(make_graph):
    names = ["", "", *("x" * size for size in (10, 20, 30, 151, 950))]
    graph = make_graph(7, [(0, 1, 0), (1, 0, 0), (1, 2, 1), (3, 3, 2), (4, 5, 0)], names)
    found = profile(graph)
    assert (found.nodes, found.edges) == (7, 5)
    assert found.degrees == Counter(graph.degrees().tolist()) == {0: 2, 1: 4, 2: 1}
    assert list(found.node_types.items()) == [("gene", 4), ("disease", 3)]
    gene, disease = found.names["gene"], found.names["disease"]
    assert (gene.named, gene.longest, gene.above) == (3, 950, 1)
    assert gene.quantiles == tuple(np.percentile([10, 30, 950], [5, 25, 50, 75, 95]).round(1))
    assert (disease.named, disease.longest, disease.above) == (2, 151, 1)


def test_they_are_read_back_as_written_and_nothing_else_is(make_graph, tmp_path):
    one = Profiles(profile(make_graph(3, [(0, 1, 0)])), None)
    path = tmp_path / "graph.json"
    assert read_profiles(path) is None
    path.write_bytes(dump_profiles(one))
    assert read_profiles(path) == one
    path.write_text('{"graph": {"nodes": "<b>"}}')
    with pytest.raises(InputError, match=r"graph\.json: is not what kgqa sample wrote"):
        read_profiles(path)
