"""A run of a family up to its sample, and what its dataset holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc import stages
from kgqa_hpc.store.run_folder import RunFolder


def sampled(folder: Path, config: dict[str, Any]) -> RunFolder:
    """The run of a configuration in folder/run, its anchors drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    run = stages.init(folder / "run.yaml", folder / "run")
    stages.import_graph(run.path)
    stages.sample(run.path)
    return run


def dataset(run: RunFolder) -> dict[str, bytes]:
    stages.merge(run.path)
    return {path.name: path.read_bytes() for path in sorted(run.dataset.glob("*.jsonl"))}


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]
