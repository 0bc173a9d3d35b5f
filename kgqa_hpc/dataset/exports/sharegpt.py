"""Conversations in the form of ShareGPT, which LLaMA-Factory, FastChat and Axolotl read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.exports.source import ExportSource, write_lines


class ShareGpt:
    """SPLIT.jsonl with `{"conversations": [{"from": "human", …}, {"from": "gpt", …}], "id": …}`."""

    name = "sharegpt"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _line)


def _line(record: dict[str, Any]) -> dict[str, Any]:
    turns = [
        {"from": "human", "value": record["question"]},
        {"from": "gpt", "value": record["answer"]},
    ]
    return {"id": record["id"], "conversations": turns}
