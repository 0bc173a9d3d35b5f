"""queue: every shard is worked on, none twice at once, and looking costs little."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from kgqa_hpc.store import queue as queue_module
from kgqa_hpc.store.lease import Lease
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.queue import ShardQueue, done_shards, pass_queue
from kgqa_hpc.store.results import write_result
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_anchors


@pytest.fixture
def many(run: RunFolder, make_anchor: Callable[[int], dict[str, Any]]) -> RunFolder:
    """A run of 80 shards of one anchor."""
    write_anchors(run.anchors, (make_anchor(number) for number in range(80)), {})
    partition(run, 1)
    return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the monotonic clock on."""
    state = {"now": time.monotonic()}
    monkeypatch.setattr(time, "monotonic", lambda: state["now"])
    return lambda seconds: state.update(now=state["now"] + seconds)


def queue_of(run: RunFolder, worker: str) -> ShardQueue:
    """A worker's queue; leases do not expire by themselves, however slow the machine is."""
    return pass_queue(run, "main", worker, expiry=100_000.0)


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
    for _ in range(-(-queue.total // queue_module.LOOKS)):
        assert queue.claim() is None


def test_one_worker_gets_every_shard_once_and_then_is_complete(cut_run: RunFolder) -> None:
    queue = queue_of(cut_run, "w1")
    assert not queue.complete
    assert sorted(work_off(cut_run, queue)) == [f"shard-{k:06d}" for k in range(5)]
    assert queue.complete
    assert len(queue.done()) == queue.total == 5
    assert queue.claim() is None


def test_workers_share_the_shards_and_none_is_worked_on_twice(many: RunFolder) -> None:
    queues = [queue_of(many, f"w{number}") for number in range(4)]
    done: list[str] = []
    while any(leases := [queue.claim() for queue in queues]):
        held = [lease for lease in leases if lease]
        assert len({lease.shard for lease in held}) == len(held)
        for lease in held:
            commit(many, lease.shard)
            done.append(lease.shard)
            lease.release()
    assert sorted(done) == sorted(set(done))
    assert len(done) == 80
    for queue in queues:
        for _ in range(80):
            if not queue.complete:
                assert queue.claim() is None
        assert queue.complete


def test_each_worker_has_its_own_order_and_keeps_it_over_restarts(many: RunFolder) -> None:
    def order(worker: str) -> list[str | None]:
        queue = queue_of(many, worker)
        return [queue.next() for _ in range(80)]

    assert order("w1") == order("w1")
    assert order("w1") != order("w2")
    assert sorted(filter(None, order("w1"))) == sorted(filter(None, order("w2")))


def test_a_shard_that_another_worker_holds_is_passed_over(cut_run: RunFolder) -> None:
    first, second = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    held = [first.claim(), first.claim()]
    got = [second.claim() for _ in range(4)]
    assert all(held)
    assert [bool(lease) for lease in got] == [True, True, True, False]
    assert not second.complete


def test_a_dead_workers_shard_comes_back_when_its_lease_expires(
    cut_run: RunFolder, clock: Callable[[float], None]
) -> None:
    dead, alive = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    lost = dead.claim()
    assert lost is not None
    assert len(work_off(cut_run, alive)) == 4
    assert alive.claim() is None
    path = alive.leases.path(lost.name)
    os.utime(path, (1, 1))
    clock(200)
    assert work_off(cut_run, alive) == [lost.shard]
    assert alive.complete
    assert not lost.renew()


def test_a_released_shard_comes_back_soon(cut_run: RunFolder, clock: Callable[[float], None]) -> None:
    first, second = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    drained = first.claim()
    assert drained is not None
    work_off(cut_run, second)
    drained.release()
    clock(10)
    assert work_off(cut_run, second) == [drained.shard]


def test_a_result_that_appears_between_look_and_claim_is_not_done_again(cut_run: RunFolder) -> None:
    queue = queue_of(cut_run, "w1")
    real = queue.leases.claim

    def late(name: str) -> Lease | None:
        commit(cut_run, name)
        return real(name)

    queue.leases.claim = late  # type: ignore[method-assign]
    assert queue.claim() is None
    assert len(queue.done()) == 5
    assert queue.leases.held == set()


def test_a_claim_that_another_worker_wins_goes_on_to_the_next(cut_run: RunFolder) -> None:
    queue, quick = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    real = queue.leases.claim
    stolen: list[str] = []

    def late(name: str) -> Lease | None:
        if not stolen:
            stolen.append(name)
            quick.leases.claim(name)
        return real(name)

    queue.leases.claim = late  # type: ignore[method-assign]
    lease = queue.claim()
    assert lease is not None
    assert lease.shard != stolen[0]


def test_a_worker_is_never_given_a_shard_that_it_still_holds(
    cut_run: RunFolder, clock: Callable[[float], None]
) -> None:
    """Its heart stopped, its lease expired or went to another worker, and it does not know yet."""
    zombie, other = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    mine = zombie.claim()
    assert mine is not None
    work_off(cut_run, other)
    os.utime(zombie.leases.path(mine.name), (1, 1))
    clock(1000)
    assert zombie.claim(slow_after=-1) is None
    second = other.claim()
    assert second is not None
    os.utime(other.leases.path(second.name), (2, 2))
    clock(1000)
    assert zombie.claim(slow_after=-1) is None
    mine.release()
    assert zombie.claim() is None  # learns that it is free to ask again
    again = zombie.claim()
    assert again is not None
    assert again.shard == mine.shard


def test_a_speculating_worker_is_not_given_the_same_shard_again(
    cut_run: RunFolder, clock: Callable[[float], None]
) -> None:
    dead, quick = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    held = dead.claim()
    assert held is not None
    work_off(cut_run, quick)
    second = quick.claim(slow_after=-1)
    assert second is not None
    assert second.speculative
    os.utime(dead.leases.path(held.name), (1, 1))
    clock(1000)
    assert quick.claim(slow_after=-1) is None


def test_the_last_slow_shard_is_leased_a_second_time(cut_run: RunFolder) -> None:
    slow, quick = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    held = slow.claim()
    assert held is not None
    work_off(cut_run, quick)
    assert quick.claim() is None
    assert quick.claim(slow_after=1000) is None
    second = quick.claim(slow_after=-1)
    assert second is not None
    assert (second.speculative, second.shard) == (True, held.shard)
    assert queue_of(cut_run, "w3").claim(slow_after=-1) is None
    assert slow.claim(slow_after=-1) is None  # not on its own
    commit(cut_run, second.shard)
    second.release()
    assert quick.claim(slow_after=-1) is None
    assert quick.complete


def test_speculation_on_a_shard_that_is_just_done_or_free_ends_in_nothing(
    cut_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    held = slow.claim()
    assert held is not None
    work_off(cut_run, quick)
    monkeypatch.setattr(quick, "is_done", lambda name, surely=False: surely)
    assert quick.claim(slow_after=-1) is None
    assert quick.leases.holder(f"{held.shard}.spec") is None
    held.release()
    assert quick.claim(slow_after=-1) is None


def test_waiting_workers_look_at_few_shards_and_list_nothing(
    many: RunFolder, clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = queue_of(many, "w1")
    while busy.claim():
        pass
    idle = queue_of(many, "w2")
    look_at_all(idle)
    looks: list[str] = []
    monkeypatch.setattr(idle.leases, "holder", lambda name: looks.append(name))
    monkeypatch.setattr(idle, "is_done", lambda name, surely=False: looks.append(name))
    monkeypatch.setattr(idle, "done", lambda: pytest.fail("listed"))
    assert idle.claim() is None
    assert len(looks) <= queue_module.SAMPLE


def test_a_search_looks_at_few_of_many_leases_and_the_next_one_goes_on(
    many: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = queue_of(many, "w1")
    leases = []
    while lease := busy.claim():
        leases.append(lease)
    idle = queue_of(many, "w2")
    order = list(idle._todo)
    free = next(lease for lease in leases if lease.shard == order[-1])
    free.release()
    looks: list[str] = []
    real = idle.leases.holder
    monkeypatch.setattr(idle.leases, "holder", lambda name: looks.append(name) or real(name))
    assert idle.claim() is None
    assert looks == order[: queue_module.LOOKS]
    assert idle.claim() is None
    lease = idle.claim()
    assert lease is not None
    assert lease.shard == free.shard
    assert looks[:80] == order, "each was looked at once, in the worker's own order"


def test_a_nearly_complete_run_is_learnt_by_one_listing(
    many: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(79):
        commit(many, f"shard-{number:06d}")
    queue = queue_of(many, "w1")
    listings = []
    real = queue.done
    monkeypatch.setattr(queue, "done", lambda: listings.append(1) or real())
    lease = queue.claim()
    assert lease is not None
    assert lease.shard == "shard-000079"
    assert len(listings) <= 1
    commit(many, lease.shard)
    assert queue.claim() is None
    assert queue.complete


def test_a_worker_that_waits_learns_by_one_listing_that_the_others_are_done(
    cut_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "DONE_IN_A_ROW", 2)
    busy, idle = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    held = [busy.claim() for _ in range(5)]
    assert idle.claim() is None
    for lease in held:
        assert lease is not None
        commit(cut_run, lease.shard)
    assert idle.claim() is None
    assert idle.complete


def test_a_living_lease_is_looked_at_less_often_the_more_shards_are_left(
    many: RunFolder, clock: Callable[[float], None]
) -> None:
    busy, idle = queue_of(many, "w1"), queue_of(many, "w2")
    leases = []
    while lease := busy.claim():
        leases.append(lease)
    look_at_all(idle)
    for lease in leases:
        os.utime(busy.leases.path(lease.name))  # everyone's heart beats
    clock(70)
    look_at_all(idle)
    longest = max(idle._not_before.values()) - time.monotonic()
    assert 0.74 * 80 * queue_module.PACE <= longest <= 1.26 * 80 * queue_module.PACE


def test_the_wait_grows_with_jitter_and_starts_anew_after_a_lease(cut_run: RunFolder) -> None:
    first, queue = queue_of(cut_run, "w1"), queue_of(cut_run, "w2")
    held = [first.claim() for _ in range(5)]
    waits = []
    for _ in range(40):
        assert queue.claim() is None
        waits.append(queue.poll_interval())
    assert waits[0] < 1.0
    assert 0.75 * queue_module.LONGEST_WAIT <= waits[-1] <= 1.25 * queue_module.LONGEST_WAIT
    assert len(set(waits)) == 40
    assert held[0] is not None
    held[0].release()
    queue._not_before.clear()
    assert queue.claim() is not None
    assert queue.poll_interval() < 1.0


def test_results_and_nothing_else_count_as_done(cut_run: RunFolder) -> None:
    assert done_shards(cut_run, "main") == set()
    commit(cut_run, "shard-000003")
    (cut_run.results("main") / "shard-000004.w0.journal").touch()
    (cut_run.results("main") / ".shard-000002.h5.0.kgqa-tmp").touch()
    assert done_shards(cut_run, "main") == {"shard-000003"}
