"""The pairs in three formats of fine-tuning programs: chat messages, Alpaca, ShareGPT.

A multiple-choice question carries its options, and its answer the letter. Records with a column `sequence` (literature
runs with `map_protein`) carry it: a question about "the protein" has no answer without it. With `--with reasoning` the
writer's reasoning stands before the answer, between <think> and </think>.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.exports.source import THINKING, ExportSource, write_lines
from kgqa_hpc.steps.answer_fields import choices_of, right_letter, with_choices


class Messages:
    """SPLIT.jsonl with `{"messages": [{"role": "user", …}, {"role": "assistant", …}], "id": …}`.

    Chat messages, as OpenAI, TRL, Axolotl and vLLM take them.
    """

    name = "messages"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _messages)


class Alpaca:
    """SPLIT.jsonl with `{"instruction": question, "input": sequence or "", "output": answer, "id": …}`.

    The columns of the Alpaca dataset, which most trainers read.
    """

    name = "alpaca"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _instruction)


class ShareGpt:
    """SPLIT.jsonl with `{"conversations": [{"from": "human", …}, {"from": "gpt", …}], "id": …}`.

    As LLaMA-Factory, FastChat and Axolotl read it.
    """

    name = "sharegpt"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _conversation)


def asked(record: dict[str, Any]) -> str:
    """The user's turn: the question with its options, and before it the protein's sequence where the record has one."""
    question, sequence = with_choices(record["question"], choices_of(record)), record.get("sequence")
    return f"Protein sequence: {sequence}\n\n{question}" if sequence else question


def answered(record: dict[str, Any]) -> str:
    """The assistant's turn: the answer, after its letter where the question has options; before it the reasoning."""
    answer = f"{right_letter(record)}. {record['answer']}" if choices_of(record) else record["answer"]
    reasoning = record.get(THINKING)
    return f"<think>\n{reasoning}\n</think>\n\n{answer}" if reasoning else answer


def _messages(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "user", "content": asked(record)},
            {"role": "assistant", "content": answered(record)},
        ],
        "id": record["id"],
    }


def _instruction(record: dict[str, Any]) -> dict[str, Any]:
    pair = {
        "instruction": with_choices(record["question"], choices_of(record)),
        "input": record.get("sequence") or "",
        "output": answered(record),
    }
    return {**pair, "id": record["id"]}


def _conversation(record: dict[str, Any]) -> dict[str, Any]:
    turns = [
        {"from": "human", "value": asked(record)},
        {"from": "gpt", "value": answered(record)},
    ]
    return {"id": record["id"], "conversations": turns}
