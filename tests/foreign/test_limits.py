"""Limits of input files: an environment variable sets each, and its error names the variable."""

import gzip
from pathlib import Path

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.settings import graph_config, load_graph
from kgqa_hpc.text import streams
from kgqa_hpc.text.streams import COLUMNS, Limit
from tests.command import kgqa

NODES, EDGES = "id,name,type\na,A,t\nb,B,t\n", "source_id,target_id,type\na,b,r\n"
OBO = "format-version: 1.2\n\n[Term]\nid: a\nname: a\nis_a: b\nxref: c\n\n[Term]\nid: b\nname: b\n"
RDF = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="urn:">'
    f'<rdf:Description rdf:about="urn:a"><e:x rdf:resource="urn:b"/><e:y>{"y" * (3 << 20)}</e:y>'
    "</rdf:Description></rdf:RDF>"
)
CSV = {"nodes": ("n.csv", NODES.encode()), "edges": ("e.csv", EDGES.encode())}
MEMBER = gzip.compress(b"a,b,r\n" * 100_000, mtime=0)
PACKED = gzip.compress(EDGES.encode(), mtime=0) + MEMBER * 120
# The variable, a value that the file exceeds (empty: the default), a value that it does not, the source and its files.
CASES = {
    "KGQA_MAX_LINE_BYTES": ("10", "100000000", "csv", CSV),
    "KGQA_MAX_COLUMNS": ("2", "100000000", "csv", CSV),
    "KGQA_MAX_OBO_LINES": ("3", "100000000", "obo", {"path": ("o.obo", OBO.encode())}),
    "KGQA_MAX_XML_TEXT_BYTES": ("1000000", "100000000", "rdf", {"path": ("r.rdf", RDF.encode())}),
    "KGQA_MAX_UNPACKED_RATIO": ("", "5000", "csv", {**CSV, "edges": ("e.csv.gz", PACKED)}),
}


@pytest.mark.plugin("biokg")
@pytest.mark.parametrize("variable", CASES)
def test_the_variable_that_an_error_names_lets_the_file_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    low, high, source, files = CASES[variable]
    for name, content in files.values():
        (tmp_path / name).write_bytes(content)
    paths = {key: str(tmp_path / name) for key, (name, _) in files.items()}
    graph = graph_config({"source": source, **paths})
    monkeypatch.setenv(variable, low)
    with pytest.raises(InputError) as refused:
        load_graph(graph)
    assert variable in refused.value.cure
    monkeypatch.setenv(variable, high)
    load_graph(graph)


@pytest.mark.plugin("literature")
@pytest.mark.parametrize("text", ["0", "-1", "1e6", "many", "٣"])
def test_a_limit_that_is_no_number_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("KGQA_MAX_COLUMNS", text)
    with pytest.raises(InputError, match="is not a whole number above 0"):
        assert COLUMNS.value
    monkeypatch.setenv("KGQA_MAX_COLUMNS", "")
    assert COLUMNS.value == 10_000
    (tmp_path / "d.jsonl").write_text('{"id": "a", "text": "b"}\n')
    words = ("index", "build", tmp_path / "index", tmp_path / "d.jsonl")
    said = kgqa(*words, code=2, KGQA_MAX_LINE_BYTES=text).stderr
    assert f"KGQA_MAX_LINE_BYTES={text!r} is not a whole number above 0" in said


def test_the_security_page_names_every_limit_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/security.md").read_text()
    for limit in vars(streams).values():
        if isinstance(limit, Limit):
            assert f"`{limit.variable}` | {limit.default:,} |" in page, limit
