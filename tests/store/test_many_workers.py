"""64 real processes lease from one folder with 10,000 shards: none is done twice, and claiming is cheap."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kgqa_hpc.store import atomic
from kgqa_hpc.store.document import write_document
from kgqa_hpc.store.lease import holders
from kgqa_hpc.store.partition import ShardsManifest
from kgqa_hpc.store.queue import done_shards, pass_queue
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import ShardEntry
from tests.disk_watch import watch

WORKERS, SHARDS = 64, 10_000


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that has its manifest of shards; the shards themselves are not looked at here."""
    run = RunFolder(tmp_path / "run")
    atomic.make_folder(run.shards)
    atomic.make_folder(run.results("main"))
    entries = tuple(ShardEntry(f"shard-{number:06d}", 1, "0" * 64) for number in range(SHARDS))
    write_document(run.shards_manifest, ShardsManifest("0" * 64, 1, SHARDS, entries).to_dict())
    return run


def work(run: RunFolder, worker: str) -> tuple[int, int, int]:
    """Claim and finish shards until all are done; (claimed, committed, calls that change something on
    disk).
    """
    calls: list[str] = []
    claimed = committed = 0
    with watch(lambda call, where: calls.append(call)):
        queue = pass_queue(run, "main", worker, expiry=3600.0)
        while not queue.complete:
            lease = queue.claim()
            if lease is None:
                time.sleep(0.05)
                continue
            claimed += 1
            result = run.result("main", lease.shard)
            committed += atomic.write_file(result, worker.encode(), exclusive=True, durable=False)
            lease.release()
        queue.leases.close()
    return claimed, committed, len(calls)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_shard_is_claimed_and_done_once(run: RunFolder, tmp_path: Path) -> None:
    began = time.monotonic()
    children = []
    for number in range(WORKERS):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                counts = work(run, f"w{number}")
                (tmp_path / f"counts-{number}").write_text(" ".join(map(str, counts)))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * WORKERS
    seconds = time.monotonic() - began
    counts = [tuple(map(int, path.read_text().split())) for path in tmp_path.glob("counts-*")]
    claimed, committed, calls = (sum(column) for column in zip(*counts, strict=True))
    rate, each = SHARDS / seconds, calls / SHARDS
    print(f"{WORKERS} processes, {SHARDS:,} shards: {rate:,.0f} claims/s, {each:.1f} changes on disk each")
    assert committed == len(done_shards(run, "main")) == SHARDS
    assert claimed == SHARDS
    assert len(counts) == WORKERS
    assert list(holders(run.leases("main"), time.time())) == []
    # Lease and result, each: create, write, link, close, unlink; release: rename, unlink. What is above that
    # are claims that another worker won, and folders.
    assert each < 16
