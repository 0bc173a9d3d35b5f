"""Questions with the queries that answer them, for training and testing models that write queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.dataset.exports.source import ExportSource


class TextToQuery:
    """SPLIT.jsonl with id, question, query (SPARQL), cypher and answers, of the records that have a query."""

    name = "text-to-query"

    def write(self, source: ExportSource, folder: Path) -> None:
        for split in source.splits:
            with (folder / f"{split}.jsonl").open("wb") as file:
                file.writelines(orjson.dumps(line) + b"\n" for line in _lines(source, split))


def _lines(source: ExportSource, split: str) -> Iterator[dict[str, Any]]:
    for record in source.records(split):
        if record.get("query"):
            answers = record["answers"] if "answers" in record else [record["asked"]]
            pair = {name: record[name] for name in ("id", "question", "query")}
            yield {**pair, "cypher": record.get("cypher"), "answers": answers}
