"""Files of queries: JSON Lines, `id` (or the number of the line) and `query`, which is text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kgqa_hpc.documents.tables import document_id, jsonl_rows
from kgqa_hpc.errors import DocumentFormatError


def read_queries(path: Path) -> Iterator[tuple[str, str]]:
    """(id, query) of each line, in order. Raises DocumentFormatError with the line."""
    if not path.is_file():
        raise DocumentFormatError(f"{path}: no such file")
    for number, row in jsonl_rows(path):
        where = f"{path} line {number:,}"
        if not isinstance(row.get("query"), str):
            raise DocumentFormatError(f"{where}: 'query' is missing or not text", "a query is {id, query}")
        yield (document_id(where, row["id"]) if "id" in row else str(number)), row["query"]
