"""Small real runs on disk for the tests of the store."""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines import operational
from kgqa_hpc.store import atomic
from kgqa_hpc.store.canonical import write_document
from kgqa_hpc.store.fingerprint import fingerprint
from kgqa_hpc.store.lease import Lease, Leases
from kgqa_hpc.store.partition import ShardsManifest, partition, shard_name
from kgqa_hpc.store.queue import ShardQueue
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import ShardEntry, write_anchors
from tests.store.strikes import DONE, end, start

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
def config() -> Dict:
    """A resolved configuration as plain data."""
    return parse_config({"engine": {"kind": "scripted"}}, "test").plain()


def sections_of(config: Dict) -> Dict:
    return fingerprint(config, {"p5": "aa", "filter": "bb"}, operational)


@pytest.fixture
def sections(config: Dict) -> Dict:
    return sections_of(config)


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Stops the monotonic clock, and sets it to so many seconds after that moment."""
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    return lambda seconds: monkeypatch.setattr(time, "monotonic", lambda: now + seconds)


def of_shards(folder: Path, number: int) -> RunFolder:
    """A run that has its manifest of so many shards; the shards themselves are not looked at."""
    run = RunFolder(folder)
    for needed in (run.shards, run.results("main")):
        atomic.make_folder(needed)
    entries = tuple(ShardEntry(shard_name(position), 1, "0" * 64) for position in range(number))
    write_document(run.shards_manifest, ShardsManifest("0" * 64, 1, number, entries).to_dict())
    return run


def claimed(leases: Leases | ShardQueue, *what: Any) -> Lease:
    """A lease that must be free."""
    lease = leases.claim(*what)
    assert lease is not None
    return lease


def at_once(number: int, act: Callable[[int], object]) -> list[Any]:
    """Call `act(0)` to `act(number - 1)` in threads that start together; the results that are not false."""
    start, results = threading.Barrier(number), []

    def run(own: int) -> None:
        start.wait()
        if result := act(own):
            results.append(result)

    threads = [threading.Thread(target=run, args=(own,)) for own in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def in_children(number: int, act: Callable[[int], object]) -> None:
    """Call `act(0)` to `act(number - 1)` in forked processes side by side; all must end well."""
    children = [start(partial(act, own), lambda call, where: None) for own in range(number)]
    assert [end(child) for child in children] == [DONE] * number


def flip(path: Path, position: int) -> None:
    """Flip a bit of this byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def age(*paths: Path, seconds: float) -> None:
    """Let the last change of these files, or the heartbeat of leases, lie `seconds` back."""
    for path in paths:
        os.utime(path, (time.time() - seconds,) * 2)
