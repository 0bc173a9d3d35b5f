"""README.md of a combined dataset: its files of accepted and rejected records, and a table of its runs.

Without the front matter, `datasets` would load accepted and rejected records together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc.dataset.card import DataFile, cell, configurations
from kgqa_hpc.dataset.facts import gather_facts
from kgqa_hpc.store.run_folder import RunFolder


def write_combined_card(
    folder: Path, runs: Sequence[RunFolder], document: Mapping[str, Any], sums: dict[str, str]
) -> None:
    """Write folder/README.md; `document` is the content of combined.json, `sums` maps file names to sha256."""
    files = [
        DataFile(name, "train", tuple(sorted(path.name for path in folder.glob(f"{name}-*.parquet"))), folder)
        for name in ("accepted", "rejected")
    ]
    front = {
        "pretty_name": "Questions and answers of several runs",
        "task_categories": ["question-answering", "text-generation"],
        "tags": ["synthetic"],
        **configurations(files, sums),
    }
    counts = [name for name in document["runs"][0] if name != "run"]
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=100) + "---",
        "# Questions and answers of several runs\n",
        f"{document['accepted']:,} accepted and {document['rejected']:,} rejected records, joined by kgqa_hpc "
        f"{document['program']}. `provenance.run` says which run a record is of; `combined.json` has the counts.\n",
        f"| run | source | licence | {' | '.join(counts)} |",
        "|---|---|---|" + "---:|" * len(counts),
    ]
    for run, entry in zip(runs, document["runs"], strict=True):
        facts = gather_facts(run, document["program"])
        about = [entry["run"][:16], facts.graph["source"], facts.licence, *(entry[name] for name in counts)]
        lines.append(f"| {' | '.join(map(cell, about))} |")
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
