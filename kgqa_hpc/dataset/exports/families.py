"""The three forms of the guide to question families (standard, with choices, chain of thought), and text to query.

All values come from the records, and no date is added, so the same dataset gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.dataset.exports.source import ExportSource, write_lines

Record = dict[str, Any]
QUALITY = "quality_score"  # the label of the scoring step (`as: quality_score`)


class Standard:
    """SPLIT.json: id, question, answer, type, and metadata (difficulty, quality_score, graph_nodes_used)."""

    name = "standard"

    def write(self, source: ExportSource, folder: Path) -> None:
        _write_lists(source, folder, _standard)


class Choices:
    """SPLIT.json of the records with options: question, choices, letter of the answer, type, quality."""

    name = "choices"

    def write(self, source: ExportSource, folder: Path) -> None:
        _write_lists(source, folder, _choices)


class ChainOfThought:
    """SPLIT.json of the records with steps: question, an answer with its reasoning, and the steps."""

    name = "chain-of-thought"

    def write(self, source: ExportSource, folder: Path) -> None:
        _write_lists(source, folder, _chain)


class TextToQuery:
    """SPLIT.jsonl with id, question, query (SPARQL), cypher and answers, of the records that have a query."""

    name = "text-to-query"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _query)


def _standard(record: Record) -> Record | None:
    return {
        "id": record["id"],
        "question": record["question"],
        "answer": record["answer"],
        "type": record.get("reasoning_type") or record["kind"],
        "metadata": {
            "difficulty": record.get("difficulty"),
            QUALITY: _quality(record),
            "graph_nodes_used": record.get("graph_nodes_used"),
        },
    }


def _choices(record: Record) -> Record | None:
    if not record.get("choices"):
        return None
    return {
        "id": record["id"],
        "question": record["question"],
        "choices": record["choices"],
        "answer": record["answer_letter"],
        "reasoning_type": record.get("reasoning_type"),
        QUALITY: _quality(record),
    }


def _chain(record: Record) -> Record | None:
    steps = record.get("steps")
    if not steps:
        return None
    lines = [
        f"Step {number}: {step['entity']} {step['relation'].replace('_', ' ')} {step['target']}."
        for number, step in enumerate(steps, start=1)
    ]
    answer = "\n".join([*lines, f"Therefore: {record['answer']}"])
    return {"id": record["id"], "question": record["question"], "answer": answer, "steps": steps}


def _query(record: Record) -> Record | None:
    if not record.get("query"):
        return None
    answers = record["answers"] if "answers" in record else [record["asked"]]
    pair = {name: record[name] for name in ("id", "question", "query")}
    return {**pair, "cypher": record.get("cypher"), "answers": answers}


def _quality(record: Record) -> Any:
    return (record.get("features") or {}).get(QUALITY)


def _write_lists(source: ExportSource, folder: Path, form: Callable[[Record], Record | None]) -> None:
    """One SPLIT.json for each part: a JSON list of `form(record)`; None leaves the record out."""
    for split in source.splits:
        with (folder / f"{split}.json").open("wb") as file:
            for number, entry in enumerate(filter(None, map(form, source.records(split)))):
                file.write(b"[\n" if number == 0 else b",\n")
                file.write(orjson.dumps(entry))
            file.write(b"\n]\n" if file.tell() else b"[]\n")
