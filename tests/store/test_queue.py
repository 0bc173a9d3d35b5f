"""queue: every shard is worked on, none twice at once, and looking costs little.

tests/store/test_queue_stateful.py plays any order of claims, crashes and commits against a model.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kgqa_hpc.store import atomic
from kgqa_hpc.store import queue as queue_module
from kgqa_hpc.store.lease import Lease
from kgqa_hpc.store.partition import shard_name
from kgqa_hpc.store.queue import SLOW, ShardQueue, done_shards, pass_queue
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_result
from tests.disk_watch import counted
from tests.store.conftest import claimed, in_children, of_shards

Clock = Callable[[float], None]
EXPIRY = 100_000.0  # leases do not expire by themselves, however slow the machine is


@pytest.fixture
def many(tmp_path: Path) -> RunFolder:
    return of_shards(tmp_path / "run", 80)


@pytest.fixture
def few(tmp_path: Path) -> RunFolder:
    return of_shards(tmp_path / "run", 5)


def queue_of(run: RunFolder, worker: str) -> ShardQueue:
    return pass_queue(run, "main", worker, EXPIRY)


def claim_all(queue: ShardQueue) -> list[Lease]:
    return list(iter(queue.claim, None))


def commit(run: RunFolder, shard: str) -> None:
    write_result(run.result("main", shard), [{"id": shard, "status": "accepted"}], {})


def work_off(run: RunFolder, queue: ShardQueue) -> list[str]:
    done = []
    while (lease := queue.claim()) is not None:
        commit(run, lease.shard)
        done.append(lease.shard)
        lease.release()
    return done


def look_at_all(queue: ShardQueue) -> None:
    """Search in vain until every shard was looked at."""
    for _ in range(-(-len(queue._todo) // queue_module.LOOKS)):
        assert queue.claim() is None


def expire(queue: ShardQueue, lease: Lease, clock: Clock) -> None:
    os.utime(queue.leases.path(lease.name), (1, 1))
    clock(1000)


def test_each_worker_has_its_own_order_and_keeps_it_over_restarts(many: RunFolder) -> None:
    orders = []
    for worker in ("w1", "w1", "w2"):
        queue = queue_of(many, worker)
        orders.append([queue.next() for _ in range(80)])
    assert orders[0] == orders[1] != orders[2]
    assert set(orders[1]) == set(orders[2])


def test_a_result_that_appears_between_look_and_claim_is_not_done_again(
    few: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = queue_of(few, "w1")
    claim = queue.leases.claim
    monkeypatch.setattr(queue.leases, "claim", lambda name: commit(few, name) or claim(name))
    assert queue.claim() is None
    assert len(done_shards(few, "main")) == 5
    assert queue.leases.held == set()


def test_a_claim_that_another_wins_tries_the_next(few: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, quick = queue_of(few, "w1"), queue_of(few, "w2")
    claim, stolen = queue.leases.claim, []

    def late(name: str) -> Lease | None:
        if not stolen:
            stolen.append(name)
            quick.leases.claim(name)
        return claim(name)

    monkeypatch.setattr(queue.leases, "claim", late)
    assert claimed(queue).shard != stolen[0]


def test_the_last_slow_shard_is_leased_a_second_time(few: RunFolder, clock: Clock) -> None:
    slow, quick = queue_of(few, "w1"), queue_of(few, "w2")
    held = claimed(slow)
    work_off(few, quick)
    assert quick.claim() is None
    assert quick.claim(slow_after=1000) is None
    second = claimed(quick, -1)
    assert (second.name, second.shard) == (f"{held.shard}.spec", held.shard)
    assert queue_of(few, "w3").claim(slow_after=-1) is None
    assert slow.claim(slow_after=-1) is None  # not on its own
    expire(slow, held, clock)
    assert quick.claim(slow_after=-1) is None, "not the same shard again"
    commit(few, second.shard)
    second.release()
    assert quick.claim(slow_after=-1) is None
    assert quick.complete


def test_speculation_on_a_shard_that_is_just_done_or_free_ends_in_nothing(
    few: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = queue_of(few, "w1"), queue_of(few, "w2")
    held = claimed(slow)
    work_off(few, quick)
    monkeypatch.setattr(quick, "is_done", lambda name, surely=False: surely)
    assert quick.claim(slow_after=-1) is None
    assert quick.leases.holder(f"{held.shard}.spec") is None
    held.release()
    assert quick.claim(slow_after=-1) is None


def test_waiting_workers_look_at_few_shards_and_list_nothing(
    many: RunFolder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_all(queue_of(many, "w1"))
    idle = queue_of(many, "w2")
    look_at_all(idle)
    looks: list[str] = []
    monkeypatch.setattr(idle.leases, "holder", looks.append)
    monkeypatch.setattr(idle, "is_done", lambda name, surely=False: looks.append(name))
    monkeypatch.setattr(queue_module, "_names", lambda folder, suffix: pytest.fail("listed"))
    assert idle.claim() is None
    assert len(looks) <= queue_module.SAMPLE


def test_a_search_looks_at_few_of_many_leases_and_the_next_one_goes_on(
    many: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = claim_all(queue_of(many, "w1"))
    idle = queue_of(many, "w2")
    order = list(idle._todo)
    next(lease for lease in leases if lease.shard == order[-1]).release()
    looks: list[str] = []
    holder = idle.leases.holder
    monkeypatch.setattr(idle.leases, "holder", lambda name: looks.append(name) or holder(name))
    assert idle.claim() is None
    assert looks == order[: queue_module.LOOKS]
    assert idle.claim() is None
    assert claimed(idle).shard == order[-1]
    assert looks[:80] == order, "each was looked at once, in the worker's own order"


def test_a_nearly_complete_run_takes_one_listing(many: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(79):
        commit(many, shard_name(number))
    queue = queue_of(many, "w1")
    listings = []
    names = queue_module._names
    monkeypatch.setattr(queue_module, "_names", lambda *args: listings.append(1) or names(*args))
    assert work_off(many, queue) == ["shard-000079"]
    assert len(listings) <= 1
    assert queue.complete


def test_a_worker_that_waits_learns_by_one_listing_that_the_others_are_done(
    few: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "DONE_IN_A_ROW", 2)
    held = claim_all(queue_of(few, "w1"))
    idle = queue_of(few, "w2")
    assert idle.claim() is None
    for lease in held:
        commit(few, lease.shard)
    assert idle.claim() is None
    assert idle.complete


def test_a_living_lease_is_looked_at_less_often_the_more_shards_remain(many: RunFolder, clock: Clock) -> None:
    busy, idle = queue_of(many, "w1"), queue_of(many, "w2")
    leases = claim_all(busy)
    look_at_all(idle)
    for lease in leases:
        os.utime(busy.leases.path(lease.name))  # everyone's heart beats
    clock(70)
    look_at_all(idle)
    longest = max(idle._not_before.values()) - time.monotonic()
    assert 0.74 * 80 * queue_module.PACE <= longest <= 1.26 * 80 * queue_module.PACE


def test_a_lease_that_may_be_a_dead_workers_is_looked_at_when_it_would_expire(
    many: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "PACE", 100.0)  # as with tens of thousands of shards
    claim_all(queue_of(many, "w1"))
    idle = pass_queue(many, "main", "w2", 300.0)
    look_at_all(idle)
    assert max(idle._not_before.values()) - time.monotonic() <= 1.25 * 301


def test_the_wait_grows_with_jitter_and_starts_anew_after_a_lease(few: RunFolder) -> None:
    held, queue = claim_all(queue_of(few, "w1")), queue_of(few, "w2")
    waits = []
    for _ in range(40):
        assert queue.claim() is None
        waits.append(queue.poll_interval())
    assert waits[0] < 1.0
    assert 0.75 * queue_module.LONGEST_WAIT <= waits[-1] <= 1.25 * queue_module.LONGEST_WAIT
    assert len(set(waits)) == 40
    held[0].release()
    queue._not_before.clear()
    assert queue.claim() is not None
    assert queue.poll_interval() < 1.0


def test_results_and_nothing_else_count_as_done(few: RunFolder) -> None:
    assert done_shards(few, "main") == set()
    commit(few, "shard-000003")
    (few.results("main") / "shard-000004.w0.journal").touch()
    (few.results("main") / ".shard-000002.h5.0.kgqa-tmp").touch()
    assert done_shards(few, "main") == {"shard-000003"}


def test_free_shards_run_out_when_others_hold_many_and_never_for_a_worker_alone(many: RunFolder) -> None:
    first, second = queue_of(many, "w1"), queue_of(many, "w2")
    assert not second.supply.low
    assert all(first.claim() for _ in range(40))
    assert not first.supply.low
    assert all(second.claim() for _ in range(40))
    assert second.supply.low


def test_after_a_look_in_vain_a_worker_does_not_look_again_at_once(few: RunFolder, clock: Clock) -> None:
    leases, idle = claim_all(queue_of(few, "w1")), queue_of(few, "w2")
    assert idle.claim_when_due(idle=True) is None
    for lease in leases:
        lease.release()
    assert idle.claim_when_due(idle=True) is None, "too early"
    clock(1000)
    assert idle.claim_when_due(idle=True) is not None


def test_an_idle_worker_helps_a_straggler_when_it_knows_how_long_a_shard_takes(few: RunFolder) -> None:
    slow, quick = queue_of(few, "w1"), queue_of(few, "w2")
    held = claimed(slow)
    claim_all(quick)
    assert quick.slow_after is None, "nothing is known yet"
    quick.durations.append(0.01)
    assert quick.slow_after == EXPIRY, "never sooner than a lease expires"
    quick.durations.append(1_000_000)
    assert quick.slow_after == pytest.approx(SLOW * 500_000.005)
    early, busy, late = (queue_of(few, f"w{number}") for number in (3, 4, 5))
    for helper in (early, busy, late):
        helper.durations.append(0.01)
    assert early.claim_when_due(idle=True) is None, "neither is slow yet"
    path = slow.leases.path(held.name)
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps(content | {"claimed": content["claimed"] - 2 * EXPIRY}))
    assert held.renew(), "its heart beats: it is slow, not dead"
    assert busy.claim_when_due(idle=False) is None
    lease = late.claim_when_due(idle=True)
    assert lease is not None
    assert (lease.name, lease.shard) == (f"{held.shard}.spec", held.shard)


WORKERS, SHARDS = 32, 1_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_processes_do_every_shard_once_and_claiming_is_cheap(tmp_path: Path) -> None:
    run = of_shards(tmp_path / "run", SHARDS)

    def work(number: int) -> None:
        claims = committed = 0
        with counted() as calls:
            queue = queue_of(run, f"w{number}")
            while not queue.complete:
                if (lease := queue.claim()) is None:
                    time.sleep(0.05)
                    continue
                claims += 1
                result = run.result("main", lease.shard)
                committed += atomic.write_file(result, b"x", exclusive=True, durable=False)
                lease.release()
            queue.leases.clock.close()
        (tmp_path / f"counts-{number}").write_text(f"{claims} {committed} {len(calls)}")

    in_children(WORKERS, work)
    counts = [tuple(map(int, path.read_text().split())) for path in tmp_path.glob("counts-*")]
    claims, committed, calls = (sum(column) for column in zip(*counts, strict=True))
    assert claims == committed == len(done_shards(run, "main")) == SHARDS
    assert queue_of(run, "last").leases.holders() == []
    # Lease and result, each: create, write, link, close, unlink; release: rename, unlink. The rest are claims
    # that another worker won, and folders.
    assert calls < 16 * SHARDS
