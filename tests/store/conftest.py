"""Small real runs on disk for the tests of the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.store.anchors import write_anchors
from kgqa_hpc.store.fingerprint import fingerprint
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.run import RunFolder

Dict = dict[str, Any]


def anchor(number: int) -> Dict:
    """An anchor as `Anchor.to_dict` gives it, different for each number."""
    nodes = [[f"N:{number}-{k}", f"Knoten {number} ü{k}", "Phenotype"] for k in range(3)]
    return {
        "id": f"g01-{number:016x}",
        "kind": "graphlet",
        "shape": 1 + number % 29,
        "nodes": nodes,
        "edges": [[0, 1], [1, 2]],
        "relations": [[0, 1, "is a"], [2, 1, "part of"]],
        "weight": 1.0 + number / 7,
        "extra": {},
    }


def record(anchor_id: str, text: str = "Why?") -> Dict:
    """A record as `Item.to_record` gives it; follows from the id alone, like a deterministic engine's."""
    tokens = {"prompt": 100, "completion": 20, "cached": 64}
    accepted = int(anchor_id[-1], 16) % 2 == 0
    return {
        "id": anchor_id,
        "status": "accepted" if accepted else "rejected",
        "reason": None if accepted else "judge: not valid",
        "output": {"question": f"{text} {anchor_id} é", "answer": "Because."},
        "verdicts": {"judge": {"valid_question": accepted}},
        "trace": [{"step": "generate", "attempt": 0, "text": "{}", "repaired": accepted, "tokens": tokens}],
    }


@pytest.fixture
def make_anchor() -> Callable[[int], Dict]:
    return anchor


@pytest.fixture
def make_record() -> Callable[..., Dict]:
    return record


@pytest.fixture
def config() -> Dict:
    """A resolved configuration as plain data."""
    return parse_config({"engine": {"kind": "scripted"}}, "test").model_dump(mode="json")


@pytest.fixture
def sections(config: Dict) -> Dict:
    return fingerprint(config, {"p5": "aa", "filter": "bb"})


@pytest.fixture
def run(tmp_path: Path, config: Dict, sections: Dict) -> RunFolder:
    """A created run without anchors."""
    return RunFolder.create(tmp_path / "run", config, sections)


@pytest.fixture
def cut_run(run: RunFolder) -> RunFolder:
    """A run of 20 anchors in 5 shards of 4."""
    write_anchors(run.anchors, (anchor(number) for number in range(20)), {"seed": 1})
    partition(run, 4)
    return run
