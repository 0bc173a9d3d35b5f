"""Tables: the records for spreadsheets, and the distinct edges behind them as triples."""

import csv
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.dataset.exports.source import ExportSource
from kgqa_hpc.errors import InputError

# A cell with such a first character would be a formula in a spreadsheet program; a leading apostrophe, which
# such programs hide, prevents that.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class CsvTable:
    """SPLIT.csv (UTF-8, RFC 4180) with every column of the records."""

    name = "csv"

    def write(self, source: ExportSource, folder: Path) -> None:
        for split in source.splits:
            with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                for number, record in enumerate(source.records(split)):
                    if number == 0:
                        writer.writerow(record)
                    writer.writerow([_cell(value) for value in record.values()])


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, dict | list):
        return orjson.dumps(value).decode()
    return value


class Triples:
    """Tab-separated tables, readable as a graph source: SPLIT.tsv (head, relation, tail by node id, pairs);
    nodes.tsv (id, name, type).

    Raises InputError for records without nodes and edges.
    """

    name = "triples"

    def write(self, source: ExportSource, folder: Path) -> None:
        nodes: dict[str, tuple[str, str]] = {}
        for split in source.splits:
            counts: dict[tuple[str, str, str], int] = {}
            for record in source.records(split):
                if "nodes" not in record or "edges" not in record:
                    raise InputError(f"{record['id']} has no nodes and edges", "use another format")
                ids = [node["id"] for node in record["nodes"]]
                nodes |= {node["id"]: (node["name"], node["type"]) for node in record["nodes"]}
                edges = zip(record["edges"], record["edge_labels"], strict=True)
                for triple in {(ids[head], label, ids[tail]) for (head, tail), label in edges}:
                    counts[triple] = counts.get(triple, 0) + 1
            rows = ((*triple, str(number)) for triple, number in sorted(counts.items()))
            _write(folder / f"{split}.tsv", [("head", "relation", "tail", "pairs"), *rows])
        _write(
            folder / "nodes.tsv",
            [("id", "name", "type"), *((id, *attributes) for id, attributes in sorted(nodes.items()))],
        )


def _write(path: Path, rows: list[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows(rows)
