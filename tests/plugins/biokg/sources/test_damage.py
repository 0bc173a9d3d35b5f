"""Damaged files of every format: a graph or one clear error, never a traceback."""

from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.sources.csv import read_csv
from kgqa_hpc.kg.sources.graphml import read_graphml
from kgqa_hpc.kg.sources.triples import read_triples

NODES = b'id,name,type\nG1,"BRCA1, ""early""",gene\nD1,"breast\ncancer",disease\nG2,\xc3\xa9,gene\n'
EDGES = b"source_id,target_id,type\nG1,D1,associates\nG2,D1,associates\n"
TRIPLES = b"head\trelation\ttail\nG1\tr\tD1\nG2\tr\t\xc3\xa9\n"
GRAPHML = (
    b'<?xml version="1.0"?><graphml><key id="k" for="node" attr.name="name"><default>x</default></key>'
    b'<graph><node id="a"><data key="k">\xc3\xa9</data></node><node id="b"/>'
    b'<edge source="a" target="b"><data key="type">r</data></edge></graph></graphml>'
)


def _csv(path: Path, damaged: bytes) -> None:
    path.write_bytes(damaged)
    edges = path.with_name("whole.csv")
    edges.write_bytes(EDGES)
    read_csv(path, edges)


def _triples(path: Path, damaged: bytes) -> None:
    path.write_bytes(damaged)
    read_triples(path)


def _graphml(path: Path, damaged: bytes) -> None:
    path.write_bytes(damaged)
    read_graphml(path)


@st.composite
def _damage(draw, whole: bytes) -> bytes:
    data = bytearray(gzip.compress(whole, mtime=0) if draw(st.booleans()) else whole)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        piece = draw(
            st.sampled_from(
                [b"", b'"', b",", b"\n", b"\r", b"\t", b"\x00", b"\xff", b"<", b">", b"&x;", b"\xe9"]
            )
        )
        data[at : at + draw(st.integers(0, 2))] = piece
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@pytest.mark.parametrize(
    ("read", "whole"),
    [(_csv, NODES), (_triples, TRIPLES), (_graphml, GRAPHML)],
    ids=["csv", "triples", "graphml"],
)
def test_a_damaged_file_gives_a_graph_or_one_clear_error(read, whole):
    @settings(max_examples=150)
    @given(_damage(whole))
    def check(damaged):
        with TemporaryDirectory() as folder:
            try:
                read(Path(folder) / "damaged", damaged)
            except InputError as problem:
                assert "damaged" in problem.message or "whole.csv" in problem.message
                assert "\n" not in problem.message

    check()
