"""Chat messages, as OpenAI, TRL, Axolotl and vLLM take them for fine-tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.exports.source import ExportSource, write_lines


class Messages:
    """SPLIT.jsonl with `{"messages": [{"role": "user", …}, {"role": "assistant", …}], "id": …}`."""

    name = "messages"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _line)


def _line(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "user", "content": record["question"]},
            {"role": "assistant", "content": record["answer"]},
        ],
        "id": record["id"],
    }
