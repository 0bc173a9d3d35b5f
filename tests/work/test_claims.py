"""When a worker asks for another shard, and when it helps a straggler."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.queue import ShardQueue
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.work.claims import SLOW, Claims
from tests.runs import make_run
from tests.waiting import wait_for

EXPIRY = 0.5


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = make_run(tmp_path / "run", 20)
    partition(made, 10)
    return made


def claims(run: RunFolder, worker: str, expiry: float = 600) -> Claims:
    return Claims(ShardQueue(run, "main", worker, expiry))


def test_after_a_look_in_vain_it_does_not_look_again_at_once(run: RunFolder) -> None:
    ours, theirs = claims(run, "a"), claims(run, "b")
    leases = [ours.next(idle=True), ours.next(idle=True)]
    assert all(leases)
    assert theirs.next(idle=True) is None
    for lease in leases:
        assert lease is not None
        lease.release()
    assert theirs.next(idle=True) is None, "too early"
    wait_for(lambda: theirs.next(idle=True) is not None, "the pause to pass")


def test_a_straggler_is_helped_by_an_idle_worker_that_knows_how_long_a_shard_takes(run: RunFolder) -> None:
    slow, quick = claims(run, "a"), claims(run, "b", EXPIRY)
    held = slow.next(idle=True)
    assert held is not None
    own = quick.next(idle=True)
    assert own is not None
    # Its heartbeat goes on: it is slow, not dead.
    assert quick.slow_after is None, "nothing is known yet"
    quick.finished(0.01)
    assert quick.slow_after == EXPIRY, "never sooner than a lease expires"
    quick.finished(10)
    assert quick.slow_after == pytest.approx(SLOW * 5.005)
    quick = claims(run, "c", EXPIRY)
    quick.finished(0.01)

    def helps() -> bool:
        assert held.renew()
        assert own.renew()
        lease = quick.next(idle=True)
        return lease is not None and lease.speculative

    wait_for(helps, "a speculative lease")


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
