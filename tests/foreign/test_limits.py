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
CSV = {"nodes": ("n.csv", NODES), "edges": ("e.csv", EDGES)}
# The variable, a value that the file exceeds, the source and its files.
CASES = {
    "KGQA_MAX_LINE_BYTES": (10, "csv", CSV),
    "KGQA_MAX_COLUMNS": (2, "csv", CSV),
    "KGQA_MAX_OBO_LINES": (3, "obo", {"path": ("o.obo", OBO)}),
    "KGQA_MAX_XML_TEXT_BYTES": (1_000_000, "rdf", {"path": ("r.rdf", RDF)}),
}


def files_of(folder: Path, files: dict[str, tuple[str, str]]) -> dict[str, str]:
    for name, text in files.values():
        (folder / name).write_text(text)
    return {key: str(folder / name) for key, (name, _) in files.items()}


@pytest.mark.plugin("biokg")
@pytest.mark.parametrize("variable", CASES)
def test_the_variable_that_an_error_names_lets_the_file_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    value, source, files = CASES[variable]
    graph = graph_config({"source": source, **files_of(tmp_path, files)})
    monkeypatch.setenv(variable, str(value))
    with pytest.raises(InputError) as refused:
        load_graph(graph)
    assert variable in refused.value.cure
    monkeypatch.setenv(variable, "100000000")
    load_graph(graph)


def test_a_packed_file_beyond_the_ratio_passes_once_the_variable_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of(tmp_path, CSV)
    packed = tmp_path / "e.csv.gz"
    packed.write_bytes(gzip.compress((EDGES + "a,b,r\n" * 12_000_000).encode(), 1, mtime=0))
    graph = graph_config({"source": "csv", **files, "edges": str(packed)})
    with pytest.raises(InputError) as refused:
        load_graph(graph)
    assert "KGQA_MAX_UNPACKED_RATIO" in refused.value.cure
    monkeypatch.setenv("KGQA_MAX_UNPACKED_RATIO", "500")
    load_graph(graph)


@pytest.mark.parametrize("text", ["0", "-1", "1e6", "many", "٣"])
def test_a_limit_that_is_no_number_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("KGQA_MAX_COLUMNS", text)
    with pytest.raises(InputError, match="is not a whole number above 0"):
        assert COLUMNS.value
    monkeypatch.setenv("KGQA_MAX_COLUMNS", "")
    assert COLUMNS.value == 10_000


def test_a_wrong_limit_ends_a_command_with_2(tmp_path: Path) -> None:
    (tmp_path / "documents.jsonl").write_text('{"id": "a", "text": "b"}\n')
    words = ("index", "build", tmp_path / "index", tmp_path / "documents.jsonl")
    result = kgqa(*words, code=2, KGQA_MAX_LINE_BYTES="x")
    assert "KGQA_MAX_LINE_BYTES='x' is not a whole number above 0" in result.stderr


def test_the_security_page_names_every_limit_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/security.md").read_text()
    for limit in vars(streams).values():
        if isinstance(limit, Limit):
            assert f"`{limit.variable}` | {limit.default:,} |" in page, limit
