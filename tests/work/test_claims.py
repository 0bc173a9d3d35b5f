"""When a worker asks for another shard, and when it helps a straggler."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.queue import pass_queue
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.work.pace import SLOW, Claims
from tests.runs import make_run

EXPIRY = 600.0  # nothing expires by itself, however long a test is held up


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = make_run(tmp_path / "run", 20)
    partition(made, 10)
    return made


def claims(run: RunFolder, worker: str) -> Claims:
    return Claims(pass_queue(run, "main", worker, EXPIRY))


def test_after_a_look_in_vain_it_does_not_look_again_at_once(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    ours, theirs = claims(run, "a"), claims(run, "b")
    leases = [ours.next(idle=True), ours.next(idle=True)]
    assert all(leases)
    assert theirs.next(idle=True) is None
    for lease in leases:
        assert lease is not None
        lease.release()
    assert theirs.next(idle=True) is None, "too early"
    monkeypatch.setattr(time, "monotonic", lambda: now + EXPIRY / 2)
    assert theirs.next(idle=True) is not None


def test_a_straggler_is_helped_by_an_idle_worker_that_knows_how_long_a_shard_takes(run: RunFolder) -> None:
    slow, quick = claims(run, "a"), claims(run, "b")
    held = slow.next(idle=True)
    assert held is not None
    own = quick.next(idle=True)
    assert own is not None
    # Its heartbeat goes on: it is slow, not dead.
    assert quick.slow_after is None, "nothing is known yet"
    quick.finished(0.01)
    assert quick.slow_after == EXPIRY, "never sooner than a lease expires"
    quick.finished(1000)
    assert quick.slow_after == pytest.approx(SLOW * 500.005)
    early, late = claims(run, "c"), claims(run, "d")
    early.finished(0.01)
    late.finished(0.01)
    assert early.next(idle=True) is None, "neither is slow yet"
    path = Leases(run.leases("main"), "any", EXPIRY).path(held.name)
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps(content | {"claimed": content["claimed"] - 2 * EXPIRY}))
    assert held.renew()
    lease = late.next(idle=True)
    assert lease is not None
    assert (lease.speculative, lease.shard) == (True, held.shard)


def test_a_busy_worker_helps_nobody(run: RunFolder) -> None:
    ours, theirs = claims(run, "a"), claims(run, "b")
    assert ours.next(idle=True)
    assert ours.next(idle=True)
    theirs.finished(0.0001)
    assert theirs.next(idle=False) is None


def test_it_knows_when_all_is_done(run: RunFolder) -> None:
    ours = claims(run, "a")
    run.results("main").mkdir(parents=True)
    for shard in ("shard-000000", "shard-000001"):
        run.result("main", shard).touch()
    assert ours.next(idle=True) is None
    assert ours.complete
