"""Instruction, input, output: the columns of the Alpaca dataset, which most trainers read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.exports.source import ExportSource, write_lines


class Alpaca:
    """SPLIT.jsonl with `{"instruction": question, "input": "", "output": answer, "id": …}`."""

    name = "alpaca"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _line)


def _line(record: dict[str, Any]) -> dict[str, Any]:
    pair = {"instruction": record["question"], "input": "", "output": record["answer"]}
    return {**pair, "id": record["id"]}
