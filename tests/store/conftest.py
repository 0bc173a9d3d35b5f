"""Small real runs on disk for the tests of the store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.registry import OPERATIONAL
from kgqa_hpc.errors import StoreError
from kgqa_hpc.store import atomic
from kgqa_hpc.store.document import read_document
from kgqa_hpc.store.fingerprint import fingerprint
from kgqa_hpc.store.journal import open_next, read_journal, remove_journals
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.partition import load_shard, partition, read_shards_manifest
from kgqa_hpc.store.queue import pass_queue
from kgqa_hpc.store.results import read_result, write_result
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import read_shard, write_anchors

Dict = dict[str, Any]


def anchor(number: int) -> Dict:
    """An anchor as `Anchor.to_dict` gives it, different for each number."""
    nodes = [[f"N:{number}-{k}", f"Knoten {number} ü{k}", "Phenotype"] for k in range(3)]
    return {
        "id": f"g01-{number:016x}",
        "kind": "graphlet",
        "group": f"shape {1 + number % 29}",
        "nodes": nodes,
        "relations": [[0, 1, "is a"], [2, 1, "part of"]],
        "weight": 1.0 + number / 7,
        "data": {"shape": 1 + number % 29},
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


def work(run: RunFolder, worker: str, generated: Callable[[str], object], expiry: float = 100.0) -> None:
    """All of a worker's life on a run: partition, lease, journal, result, until nothing is left.

    `generated(id)` is called when an item had to be made and its append has returned.
    """
    manifest = partition(run, 2)
    queue = pass_queue(run, "main", worker, expiry)
    while (lease := queue.claim()) is not None:
        header = run.origin("main").header(lease.shard, manifest.entry(lease.shard).sha256)
        anchors = load_shard(run, manifest, lease.shard)
        journal, before = open_next(run.results("main"), lease.shard, {**header, "worker": worker})
        records = {r["id"]: r for path in before for r in journaled(path, header)}
        for row in anchors:
            if row["id"] not in records:
                records[row["id"]] = record(row["id"])
                journal.append(records[row["id"]])
                generated(row["id"])
                journal.sync()
            lease.renew()
        write_result(run.result("main", lease.shard), [records[row["id"]] for row in anchors], header)
        journal.close()
        remove_journals(run.results("main"), lease.shard)
        lease.release()
    queue.leases.close()


def journaled(path: Path, header: Dict) -> list[Dict]:
    """Records of another's journal; none when it was removed before or while we look, for there is a result."""
    try:
        return read_journal(path, header)[0]
    except StoreError:
        assert not path.exists()
        return []


def check_whole(run: RunFolder) -> None:
    """Every file that has its final name is whole, and every other one is recognisable litter."""
    for path in run.path.rglob("*"):
        if path.is_dir() or (path.name.startswith(".") and path.name.endswith(atomic.TEMP_SUFFIX)):
            continue
        if path.parent == run.shards and path.suffix == ".h5":
            read_shard(path)
        elif path.suffix == ".h5" and path != run.anchors:
            read_result(path)
        elif path.suffix == ".journal":
            assert not read_journal(path, {"pass": "main"})[1]
        elif path.suffix == ".json":
            read_document(path)
        else:
            assert path.suffix in (".yaml", ".lease") or path == run.anchors
    assert not run.quarantine.exists()


def check_complete(run: RunFolder, number: int) -> None:
    """Every anchor has its record exactly once, and nothing but results is left of the work."""
    names = read_shards_manifest(run).names
    records = [r for name in names for r in read_result(run.result("main", name))]
    assert records == [record(anchor(k)["id"]) for k in range(number)]
    left = {path.name for path in run.results("main").iterdir()}
    assert {name for name in left if not name.startswith(".")} == {f"{name}.h5" for name in names}


def temps(run: RunFolder) -> list[str]:
    """Names of the temp files in a run, except the clocks of living workers."""
    found = [path.name for path in run.path.rglob(f".*{atomic.TEMP_SUFFIX}")]
    return [name for name in found if not name.startswith(".clock.")]


@pytest.fixture
def life() -> Any:
    """The functions above, for tests of whole lives."""
    return SimpleNamespace(work=work, check_whole=check_whole, check_complete=check_complete, temps=temps)


@pytest.fixture
def config() -> Dict:
    """A resolved configuration as plain data."""
    return parse_config({"engine": {"kind": "scripted"}}, "test").plain()


@pytest.fixture
def sections(config: Dict) -> Dict:
    return fingerprint(config, {"p5": "aa", "filter": "bb"}, OPERATIONAL)


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


@pytest.fixture
def leases(tmp_path: Path) -> Callable[..., Leases]:
    """Makes workers' views of one folder of leases."""
    return lambda worker="w1", expiry=10_000.0: Leases(tmp_path / "leases" / "main", worker, expiry)


def age(path: Path, seconds: float) -> None:
    """Let the last heartbeat lie `seconds` back."""
    then = time.time() - seconds
    os.utime(path, (then, then))
