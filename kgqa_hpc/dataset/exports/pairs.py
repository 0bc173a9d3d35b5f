"""Formats with one JSON value per record: of fine-tuning programs, of question families, and text to query.

In the formats of fine-tuning programs a multiple-choice question includes its options, and its answer the
letter. The column `sequence` (literature runs with `map_protein`) is added to the question, because a
question about "the protein" cannot be answered without it. With `--with reasoning` the model's reasoning
precedes the answer, between <think> and </think>.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.dataset.exports.source import THINKING, ExportSource, Line, write_lines
from kgqa_hpc.steps.item import choices_of, right_letter, with_choices

Record = dict[str, Any]
QUALITY = "quality_score"  # the label of the scoring step (`as: quality_score`)


def _asked(record: Record) -> str:
    """The user's turn: the protein's sequence if the record has one, then the question with its options."""
    question, sequence = with_choices(record["question"], choices_of(record)), record.get("sequence")
    return f"Protein sequence: {sequence}\n\n{question}" if sequence else question


def _answered(record: Record) -> str:
    """The assistant's turn: the reasoning if requested, the letter if the question has options, then the
    answer.
    """
    answer = f"{right_letter(record)}. {record['answer']}" if choices_of(record) else record["answer"]
    reasoning = record.get(THINKING)
    return f"<think>\n{reasoning}\n</think>\n\n{answer}" if reasoning else answer


class Messages:
    """SPLIT.jsonl with `{"messages": [{"role": "user", …}, {"role": "assistant", …}], "id": …}`.

    Chat messages, as OpenAI, TRL, Axolotl and vLLM take them.
    """

    name = "messages"

    def write(self, source: ExportSource, folder: Path) -> None:
        def line(record: Record) -> Line:
            user = {"role": "user", "content": _asked(record)}
            return {
                "messages": [user, {"role": "assistant", "content": _answered(record)}],
                "id": record["id"],
            }

        write_lines(source, folder, line)


class Alpaca:
    """SPLIT.jsonl with `{"instruction": question, "input": sequence or "", "output": answer, "id": …}`.

    The columns of the Alpaca dataset, which most trainers read.
    """

    name = "alpaca"

    def write(self, source: ExportSource, folder: Path) -> None:
        def line(record: Record) -> Line:
            question = with_choices(record["question"], choices_of(record))
            texts = {
                "instruction": question,
                "input": record.get("sequence") or "",
                "output": _answered(record),
            }
            return {**texts, "id": record["id"]}

        write_lines(source, folder, line)


class ShareGpt:
    """SPLIT.jsonl with `{"conversations": [{"from": "human", …}, {"from": "gpt", …}], "id": …}`.

    As LLaMA-Factory, FastChat and Axolotl read it.
    """

    name = "sharegpt"

    def write(self, source: ExportSource, folder: Path) -> None:
        def line(record: Record) -> Line:
            human = {"from": "human", "value": _asked(record)}
            return {"id": record["id"], "conversations": [human, {"from": "gpt", "value": _answered(record)}]}

        write_lines(source, folder, line)


class TextToQuery:
    """SPLIT.jsonl with id, question, query (SPARQL), cypher and answers, of the records that have a query."""

    name = "text-to-query"

    def write(self, source: ExportSource, folder: Path) -> None:
        def line(record: Record) -> Line | None:
            if not record.get("query"):
                return None
            answers = record["answers"] if "answers" in record else [record["asked"]]
            return {
                **_members(record, "id", "question", "query"),
                "cypher": record.get("cypher"),
                "answers": answers,
            }

        write_lines(source, folder, line)


class Standard:
    """SPLIT.json: id, question, answer, type, and metadata (difficulty, quality_score, graph_nodes_used)."""

    name = "standard"

    def write(self, source: ExportSource, folder: Path) -> None:
        def entry(record: Record) -> Line:
            metadata = {
                "difficulty": record.get("difficulty"),
                QUALITY: (record.get("features") or {}).get(QUALITY),
                "graph_nodes_used": record.get("graph_nodes_used"),
            }
            kind = record.get("reasoning_type") or record["kind"]
            return {**_members(record, "id", "question", "answer"), "type": kind, "metadata": metadata}

        _write_list(source, folder, entry)


class Choices:
    """SPLIT.json of the records with options: question, choices, letter of the answer, type, quality."""

    name = "choices"

    def write(self, source: ExportSource, folder: Path) -> None:
        def entry(record: Record) -> Line | None:
            if not record.get("choices"):
                return None
            return {
                **_members(record, "id", "question", "choices"),
                "answer": record["answer_letter"],
                "reasoning_type": record.get("reasoning_type"),
                QUALITY: (record.get("features") or {}).get(QUALITY),
            }

        _write_list(source, folder, entry)


class ChainOfThought:
    """SPLIT.json of the records with steps: question, an answer with its reasoning, and the steps."""

    name = "chain-of-thought"

    def write(self, source: ExportSource, folder: Path) -> None:
        def entry(record: Record) -> Line | None:
            steps = record.get("steps")
            if not steps:
                return None
            lines = [
                f"Step {number}: {step['entity']} {step['relation'].replace('_', ' ')} {step['target']}."
                for number, step in enumerate(steps, start=1)
            ]
            answer = "\n".join([*lines, f"Therefore: {record['answer']}"])
            return {**_members(record, "id", "question"), "answer": answer, "steps": steps}

        _write_list(source, folder, entry)


def _members(record: Record, *names: str) -> Line:
    return {name: record[name] for name in names}


def _write_list(source: ExportSource, folder: Path, entry: Callable[[Record], Line | None]) -> None:
    """One SPLIT.json for each part, a JSON list of `entry(record)`; None leaves the record out."""
    for split in source.splits:
        with (folder / f"{split}.json").open("wb") as file:
            for number, content in enumerate(filter(None, map(entry, source.records(split)))):
                file.write(b"[\n" if number == 0 else b",\n")
                file.write(orjson.dumps(content))
            file.write(b"\n]\n" if file.tell() else b"[]\n")
