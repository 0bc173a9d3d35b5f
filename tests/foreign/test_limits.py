"""Limits of input files: a variable sets each, and with them every reader stays below 500 MB on hostile files."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.settings import graph_config, load_graph
from kgqa_hpc.text import streams
from kgqa_hpc.text.streams import COLUMNS, UNPACKED_FREELY, Limit
from tests.command import JsonChild, kgqa

NODES, EDGES = "id,name,type\na,A,t\nb,B,t\n", "source_id,target_id,type\na,b,r\n"
OBO = "format-version: 1.2\n\n[Term]\nid: a\nname: a\nis_a: b\nxref: c\n\n[Term]\nid: b\nname: b\n"
RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
LONG_TEXT = (
    f'{RDF}<rdf:Description rdf:about="urn:a" xmlns:e="urn:"><e:x rdf:resource="urn:b"/>'
    f"<e:y>{'y' * (3 << 20)}</e:y></rdf:Description></rdf:RDF>"
)
CSV = {"nodes": ("n.csv", NODES.encode()), "edges": ("e.csv", EDGES.encode())}
MEMBER = gzip.compress(b"a,b,r\n" * 100_000, mtime=0)
PACKED = gzip.compress(EDGES.encode(), mtime=0) + MEMBER * 120
# The variable, a value that the file exceeds (empty: the default), a value that it does not, the source and its files.
LIMITS = {
    "KGQA_MAX_LINE_BYTES": ("10", "100000000", "csv", CSV),
    "KGQA_MAX_COLUMNS": ("2", "100000000", "csv", CSV),
    "KGQA_MAX_OBO_LINES": ("3", "100000000", "obo", {"path": ("o.obo", OBO.encode())}),
    "KGQA_MAX_XML_TEXT_BYTES": ("1000000", "100000000", "rdf", {"path": ("r.rdf", LONG_TEXT.encode())}),
    "KGQA_MAX_UNPACKED_RATIO": ("", "5000", "csv", {**CSV, "edges": ("e.csv.gz", PACKED)}),
}


@pytest.mark.plugin("biokg")
@pytest.mark.parametrize("variable", LIMITS)
def test_the_variable_that_an_error_names_lets_the_file_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    low, high, source, files = LIMITS[variable]
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


MOST_MIB = 500
MIB = 1 << 20
UNPACKED = 512 * MIB  # more than a reader may hold
# What a reader needs beside the file.
BESIDE = {
    "csv": {
        "nodes": ("n.csv", "id,name,type\na,A,t\n"),
        "edges": ("e.csv", "source_id,target_id,type\na,a,r\n"),
    },
    "kgx": {"edges": ("e.tsv", "subject\tpredicate\tobject\n")},
}
APOC = '{"type": "node", "id": "0", "labels": ["A"], "properties": {"name": "'
ENTITIES = "<!ENTITY a0 'ha'>" + "".join(f"<!ENTITY a{k + 1} '{f'&a{k};' * 10}'>" for k in range(12))
ALIASES = "".join(f"a{k + 1}: &a{k + 1} [{f'*a{k},' * 9}]\n" for k in range(12))
KEYS = "".join(f'{{"id":"{k}","k{k}":1}}\n' for k in range(38_000))
# Reader, the key of its file and the file's name; a beginning, a part, an end. The part of a packed file is repeated
# until that nears 1 MB. A number is the MiB of a text: of a record near the largest that the limits admit.
CASES: dict[str, tuple[str, str, str | int, str]] = {
    "csv, a cell": ("csv nodes n.csv.gz", "id,name,type\na,", "A" * MIB, ",t\n"),
    "csv, an open quote": ("csv nodes n.csv.gz", 'id,name,type\na,"', "A,\n" * 300_000, ""),
    "csv, a header": ("csv nodes n.csv.gz", "id,name,type", ",c" * 500_000, "\n"),
    "csv, the same edge": ("csv edges e.csv.gz", "source_id,target_id,type\n", "a,a,r\n" * 150_000, ""),
    "csv, a record": ("csv nodes n.csv", "id,name,type,note\na,a,t,", 15, "\n"),
    "triples, a line": ("triples path t.tsv.gz", "a\tr\t", "b" * MIB, "\n"),
    "triples, the same line": ("triples path t.tsv.gz", "", "a\tr\tb\n" * 150_000, ""),
    "triples, a record": ("triples path t.tsv", "a\tr\t", 15, "\n"),
    "rdf, entities": ("rdf path r.owl", f"<!DOCTYPE rdf:RDF [{ENTITIES}]>{RDF}&a12;", "", "</rdf:RDF>"),
    "rdf, a text": ("rdf path r.rdf.gz", f'{RDF}<rdf:Description rdf:about="a"><x>', "x" * MIB, ""),
    "rdf, a literal": ("rdf path r.nt.gz", '<urn:a> <urn:b> "', "x" * MIB, '" .\n'),
    "rdf, the same triple": ("rdf path r.nt.gz", "", "<urn:a> <urn:b> <urn:c> .\n" * 40_000, ""),
    "rdf, a record": ("rdf path r.rdf", f'{RDF}<rdf:Description rdf:about="urn:a"><e:x xmlns:e="urn:">', 15, ""),
    "graphml, elements": ("graphml path g.graphml.gz", "<graphml>", "<j/>" * 250_000, "</graphml>"),
    "graphml, a text": ("graphml path g.graphml.gz", "<graphml><desc>", "x" * MIB, "</desc></graphml>"),
    "graphml, a record": ("graphml path g.graphml", "<graphml><desc>", 63, "</desc></graphml>"),
    "obo, a line": ("obo path o.obo.gz", "format-version: 1.2\n\n[Term]\nid: a\nname: ", "x" * MIB, "\n"),
    "obo, lines of a term": ("obo path o.obo.gz", "[Term]\nid: a\nname: a\n", "xref: b\n" * 120_000, ""),
    "obo, a record": ("obo path o.obo", "[Term]\nid: a\nname: a\ndef: ", 15, "\n"),
    "kgx, a line": ("kgx nodes n.jsonl.gz", '{"id": "', "x" * MIB, '"}\n'),
    "kgx, a record": ("kgx nodes n.jsonl", '{"id": "a", "name": "', 15, '"}\n'),
    "neo4j, a line": ("neo4j path a.jsonl.gz", APOC, "x" * MIB, '"}}\n'),
    "neo4j, a record": ("neo4j path a.jsonl", APOC, 15, '"}}\n'),
    "hetionet, a node": ("hetionet path h.json.gz", '{"nodes": [\n{"kind": "', "x" * MIB, '"}]}'),
    "documents, a line": ("documents path d.jsonl.gz", '{"id": "a", "text": "', "x" * MIB, '"}\n'),
    "documents, nested": ("documents path d.jsonl", '{"id": "a", "text": ', "[" * 900_000, ""),
    "documents, elements": ("documents path d.xml.gz", "<a>", "<j/>" * 250_000, "</a>"),
    "documents, a text": ("documents path d.xml.gz", "<a>", "x" * MIB, "</a>"),
    "documents, a record of lines": ("documents path d.jsonl", '{"id": "a", "text": "', 15, '"}\n'),
    "documents, a record of xml": ("documents path d.xml", "<PubmedArticleSet>", 63, "</PubmedArticleSet>"),
    "a script": ("script path s.gasl", "SET n = ", "(" * 900_000, ""),
    "a script of commands": ("script path s.gasl", "", "COUNT v AS n\n" * 70_000, ""),
    "a configuration with aliases": ("configuration path c.yaml", "a0: &a0 [x]\n", ALIASES, ""),
    "a nested configuration": ("configuration path c.yaml", "", "[" * 900_000, ""),
    "rating cells": ("cells path c.csv", 'id\n"', "x" * 900_000, ""),
    "rating columns": ("cells path c.csv", "id", ",c" * 450_000, "\n" + "1\n" * 10),
    "records, nested": ("records path r.jsonl", '{"id": ', "[" * 900_000, ""),
    "records, a key each": ("records path r.jsonl", "", KEYS, ""),
}  # fmt: skip
# Packed sizes of those that have the most parts, which take long: read up to 80 times that, without the 66 MiB that any
# file may have. Kept, these parts would take more than MOST_OF_MANY.
MANY_PARTS = {"csv, an open quote": 100_000, "graphml, elements": 100_000, "rdf, the same triple": 300_000}
MOST_OF_MANY = 200


@pytest.fixture(scope="module")
def meter() -> Iterator[JsonChild]:
    """Measures the peak memory of a reader, in a process forked for it (measure_memory.py)."""
    started = JsonChild(Path(__file__).with_name("measure_memory.py"))
    yield started
    started.end()


def write(path: Path, name: str, begin: str, part: str | int, end: str) -> None:
    if isinstance(part, int):
        path.write_text(begin + "x" * (part * MIB) + end)
        return
    if path.suffix == ".gz":
        member = gzip.compress(part.encode(), mtime=0)  # a gzip file may have many members
        times = min(UNPACKED // len(part), MANY_PARTS.get(name, 900_000) // len(member))
        first, last = (gzip.compress(text.encode(), mtime=0) for text in (begin, end))
        path.write_bytes(first + member * times + last)
    else:
        path.write_text(begin + part + end)
    assert path.stat().st_size <= 1_100_000


@pytest.mark.slow
@pytest.mark.plugin("biokg", "literature")
@pytest.mark.parametrize("name", CASES)
def test_a_reader_keeps_to_its_memory_on_a_hostile_file_and_on_the_largest_record(
    tmp_path: Path, meter: JsonChild, name: str
) -> None:
    words, begin, part, end = CASES[name]
    reader, key, file = words.split()
    paths = {key: tmp_path / file}
    write(paths[key], name, begin, part, end)
    for other, (beside, text) in BESIDE.get(reader, {}).items():
        if other != key:
            paths[other] = tmp_path / beside
            paths[other].write_text(text)
    order = {"reader": reader, "files": {key: str(path) for key, path in paths.items()}}
    answer = meter.ask({**order, "freely": 0 if name in MANY_PARTS else UNPACKED_FREELY})
    mib, said = answer["mib"], answer["said"]
    print(f"{name}: {mib} MiB, {said}")
    assert 0 < mib < (MOST_OF_MANY if name in MANY_PARTS else MOST_MIB), said
    assert "crashed" not in said, said
    assert isinstance(part, int) or "MemoryError" not in said, said
