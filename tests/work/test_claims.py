"""When a worker asks for another shard, and when it helps a straggler."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kgqa_hpc.store.lease import Lease
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.queue import SLOW, ShardQueue, pass_queue
from tests.runs import make_run

EXPIRY = 600.0  # nothing expires by itself, however long a test is held up


@pytest.fixture
def claims(tmp_path: Path) -> Callable[[str], ShardQueue]:
    """Makes a worker's claims on a run of two shards."""
    run = make_run(tmp_path / "run", 20)
    partition(run, 10)
    return lambda worker: pass_queue(run, "main", worker, EXPIRY)


def claimed(claims: ShardQueue) -> Lease:
    lease = claims.claim_when_due(idle=True)
    assert lease is not None
    return lease


def test_after_a_look_in_vain_it_does_not_look_again_at_once(
    claims: Callable[[str], ShardQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    ours, theirs = claims("a"), claims("b")
    leases = [claimed(ours), claimed(ours)]
    assert theirs.claim_when_due(idle=True) is None
    for lease in leases:
        lease.release()
    assert theirs.claim_when_due(idle=True) is None, "too early"
    monkeypatch.setattr(time, "monotonic", lambda: now + EXPIRY / 2)
    claimed(theirs)


def test_a_straggler_is_helped_by_an_idle_worker_that_knows_how_long_a_shard_takes(
    claims: Callable[[str], ShardQueue],
) -> None:
    slow, quick = claims("a"), claims("b")
    held = claimed(slow)
    claimed(quick)
    # Its heartbeat goes on: it is slow, not dead.
    assert quick.slow_after is None, "nothing is known yet"
    quick.finished(0.01)
    assert quick.slow_after == EXPIRY, "never sooner than a lease expires"
    quick.finished(1000)
    assert quick.slow_after == pytest.approx(SLOW * 500.005)
    early, busy, late = claims("c"), claims("d"), claims("e")
    for helper in (early, busy, late):
        helper.finished(0.01)
    assert early.claim_when_due(idle=True) is None, "neither is slow yet"
    path = slow.leases.path(held.name)
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps(content | {"claimed": content["claimed"] - 2 * EXPIRY}))
    assert held.renew()
    assert busy.claim_when_due(idle=False) is None
    lease = claimed(late)
    assert (lease.name, lease.shard) == (f"{held.shard}.spec", held.shard)
