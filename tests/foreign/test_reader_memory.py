"""Memory of each reader on hostile files of at most 1 MB, packed: below 500 MB, whatever they unpack to."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import JsonChild

MOST_MIB = 500
MIB = 1 << 20
UNPACKED = 640 * MIB
# The parts of a file: a beginning, a part that is repeated until the packed file nears 1 MB, an end.
Parts = tuple[str, str, str]
NODES = ("id,name,type\na,A,t\n", "", "")
EDGES = ("source_id,target_id,type\na,a,r\n", "", "")
RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
APOC = '{"type": "node", "id": "0", "labels": ["A"], "properties": {"name": "'
CASES: dict[str, tuple[str, dict[str, tuple[str, Parts]]]] = {
    "csv, a cell": ("csv", {"nodes": ("n.csv.gz", ("id,name,type\na,", "A" * MIB, ",t\n")), "edges": ("e.csv", EDGES)}),
    "csv, an open quote": (
        "csv",
        {"nodes": ("n.csv.gz", ('id,name,type\na,"', "A,\n" * 300_000, "")), "edges": ("e.csv", EDGES)},
    ),
    "csv, a header": (
        "csv",
        {"nodes": ("n.csv.gz", ("id,name,type", ",c" * 500_000, "\n")), "edges": ("e.csv", EDGES)},
    ),
    "csv, the same edge": (
        "csv",
        {"nodes": ("n.csv", NODES), "edges": ("e.csv.gz", ("source_id,target_id,type\n", "a,a,r\n" * 150_000, ""))},
    ),
    "triples, a line": ("triples", {"path": ("t.tsv.gz", ("a\tr\t", "b" * MIB, "\n"))}),
    "triples, the same line": ("triples", {"path": ("t.tsv.gz", ("", "a\tr\tb\n" * 150_000, ""))}),
    "rdf, entities": (
        "rdf",
        {
            "path": (
                "r.owl",
                (
                    "<!DOCTYPE rdf:RDF [<!ENTITY a0 'ha'>"
                    + "".join(f"<!ENTITY a{k + 1} '{f'&a{k};' * 10}'>" for k in range(12))
                    + f"]>{RDF}&a12;",
                    "",
                    "</rdf:RDF>",
                ),
            )
        },
    ),
    "rdf, a text": ("rdf", {"path": ("r.rdf.gz", (f'{RDF}<rdf:Description rdf:about="a"><x>', "x" * MIB, ""))}),
    "rdf, a literal": ("rdf", {"path": ("r.nt.gz", ('<urn:a> <urn:b> "', "x" * MIB, '" .\n'))}),
    "rdf, the same triple": ("rdf", {"path": ("r.nt.gz", ("", "<urn:a> <urn:b> <urn:c> .\n" * 40_000, ""))}),
    "graphml, elements": ("graphml", {"path": ("g.graphml.gz", ("<graphml>", "<j/>" * 250_000, "</graphml>"))}),
    "graphml, a text": ("graphml", {"path": ("g.graphml.gz", ("<graphml><desc>", "x" * MIB, "</desc></graphml>"))}),
    "obo, a line": ("obo", {"path": ("o.obo.gz", ("format-version: 1.2\n\n[Term]\nid: a\nname: ", "x" * MIB, "\n"))}),
    "obo, lines of a term": ("obo", {"path": ("o.obo.gz", ("[Term]\nid: a\nname: a\n", "xref: b\n" * 120_000, ""))}),
    "kgx, a line": ("kgx", {"nodes": ("n.jsonl.gz", ('{"id": "', "x" * MIB, '"}\n')), "edges": ("e.tsv", EDGES)}),
    "neo4j, a line": ("neo4j", {"path": ("a.jsonl.gz", (APOC, "x" * MIB, '"}}\n'))}),
    "hetionet, a node": ("hetionet", {"path": ("h.json.gz", ('{"nodes": [\n{"kind": "', "x" * MIB, '"}]}'))}),
    "documents, a line": ("documents", {"path": ("d.jsonl.gz", ('{"id": "a", "text": "', "x" * MIB, '"}\n'))}),
    "documents, nested": ("documents", {"path": ("d.jsonl", ('{"id": "a", "text": ' + "[" * 900_000, "", ""))}),
    "documents, elements": ("documents", {"path": ("d.xml.gz", ("<a>", "<j/>" * 250_000, "</a>"))}),
    "documents, a text": ("documents", {"path": ("d.xml.gz", ("<a>", "x" * MIB, "</a>"))}),
    "a script": ("script", {"path": ("s.gasl", ("SET n = " + "(" * 900_000, "", ""))}),
    "a script of commands": ("script", {"path": ("s.gasl", ("COUNT v AS n\n" * 70_000, "", ""))}),
    "a configuration with aliases": (
        "configuration",
        {
            "path": (
                "c.yaml",
                ("a0: &a0 [x]\n" + "".join(f"a{k + 1}: &a{k + 1} [{f'*a{k},' * 9}]\n" for k in range(12)), "", ""),
            )
        },
    ),
    "a nested configuration": ("configuration", {"path": ("c.yaml", ("[" * 900_000, "", ""))}),
    "rating cells": ("cells", {"path": ("c.csv", ("id\n" + '"' + "x" * 900_000, "", ""))}),
    "rating columns": ("cells", {"path": ("c.csv", ("id" + ",c" * 450_000 + "\n" + "1\n" * 10, "", ""))}),
    "records, nested": ("records", {"path": ("r.jsonl", ('{"id": ' + "[" * 900_000, "", ""))}),
    "records, a key each": (
        "records",
        {"path": ("r.jsonl", ("".join(f'{{"id":"{k}","k{k}":1}}\n' for k in range(38_000)), "", ""))},
    ),
}  # fmt: skip


# One record of a little less than the largest that the limits admit: begin, MiB of text, end.
KGX_EDGES = "subject\tpredicate\tobject\n"
RECORDS: dict[str, tuple[str, dict[str, tuple[str, str, int, str]]]] = {
    "csv": ("csv", {"nodes": ("n.csv", "id,name,type,note\na,a,t,", 15, "\n"), "edges": ("e.csv", EDGES[0], 0, "")}),
    "triples": ("triples", {"path": ("t.tsv", "a\tr\t", 15, "\n")}),
    "rdf": ("rdf", {"path": ("r.rdf", f'{RDF}<rdf:Description rdf:about="urn:a"><e:x xmlns:e="urn:">', 15, "")}),
    "graphml": ("graphml", {"path": ("g.graphml", "<graphml><desc>", 63, "</desc></graphml>")}),
    "obo": ("obo", {"path": ("o.obo", "[Term]\nid: a\nname: a\ndef: ", 15, "\n")}),
    "kgx": ("kgx", {"nodes": ("n.jsonl", '{"id": "a", "name": "', 15, '"}\n'), "edges": ("e.tsv", KGX_EDGES, 0, "")}),
    "neo4j": ("neo4j", {"path": ("a.jsonl", APOC, 15, '"}}\n')}),
    "documents of lines": ("documents", {"path": ("d.jsonl", '{"id": "a", "text": "', 15, '"}\n')}),
    "documents of xml": ("documents", {"path": ("d.xml", "<PubmedArticleSet>", 63, "</PubmedArticleSet>")}),
}  # fmt: skip


@pytest.fixture(scope="module")
def meter() -> Iterator[JsonChild]:
    """Measures the peak memory of a reader, in a process forked for it (measure_memory.py)."""
    started = JsonChild(Path(__file__).with_name("measure_memory.py"))
    yield started
    started.end()


def write(path: Path, parts: Parts) -> None:
    """The file; of a packed one the middle part is repeated until it unpacks to more than a reader may hold.

    Or until it has 0.9 MB.
    """
    begin, middle, end = (part.encode() for part in parts)
    if path.suffix != ".gz":
        path.write_bytes(begin + middle + end)
        return
    member = gzip.compress(middle, mtime=0)  # a gzip file may have many members
    times = min(UNPACKED // len(middle), 900_000 // len(member)) if middle else 0
    path.write_bytes(gzip.compress(begin, mtime=0) + member * times + gzip.compress(end, mtime=0))


@pytest.mark.slow
@pytest.mark.plugin("biokg", "literature")
@pytest.mark.parametrize("name", [*CASES, *RECORDS])
def test_a_reader_keeps_to_its_memory_on_a_hostile_file_and_on_the_largest_record(
    tmp_path: Path, meter: JsonChild, name: str
) -> None:
    reader, files = {**CASES, **RECORDS}[name]
    for file, *parts in files.values():
        if name in CASES:
            write(tmp_path / file, *parts)
            assert (tmp_path / file).stat().st_size <= 1_100_000
        else:
            begin, mebibytes, end = parts
            (tmp_path / file).write_text(begin + "x" * (mebibytes * MIB) + end)
    paths = {key: str(tmp_path / file) for key, (file, *_) in files.items()}
    answer = meter.ask({"reader": reader, "files": paths})
    mib, said = answer["mib"], answer["said"]
    print(f"{name}: {mib} MiB, {said}")
    assert 0 < mib < MOST_MIB, said
    assert "crashed" not in said, said
    assert name in RECORDS or "MemoryError" not in said, said
