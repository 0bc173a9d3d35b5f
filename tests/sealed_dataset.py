"""A dataset that a test has changed by hand, with sums that fit again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.files import write_sums


def edit_records(dataset: Path, change: Callable[[dict[str, Any]], object], *files: str) -> None:
    """Change each record of the files (accepted, rejected)."""
    for name in files:
        path = dataset / f"{name}.jsonl"
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for record in records:
            change(record)
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    seal(dataset)


def edit_counts(dataset: Path, **counts: Any) -> None:
    """Change keys of accounting.json."""
    path = dataset / "accounting.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **counts}))
    seal(dataset)


def seal(dataset: Path) -> None:
    """Write SHA256SUMS anew, as merge would have for these files."""
    (dataset / "SHA256SUMS").unlink(missing_ok=True)
    write_sums(dataset, {})
