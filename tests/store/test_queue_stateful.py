"""Leases and queue against a model in memory: workers claim, beat, stop, wake, crash, commit in any order."""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kgqa_hpc.store import atomic
from kgqa_hpc.store.lease import Lease
from kgqa_hpc.store.queue import ShardQueue, done_shards, pass_queue
from tests.store.conftest import of_shards

EXPIRY = 1000.0
SHARDS = [f"shard-{number:06d}" for number in range(4)]
WORKERS = st.sampled_from(["w1", "w2", "w3"])


@dataclass
class Worker:
    queue: ShardQueue
    leases: list[Lease] = field(default_factory=list)


@dataclass
class Held:
    """What the model knows of a lease's name: whose it is and when its heart beat last."""

    nonce: str
    beat: float


class LeaseMachine(RuleBasedStateMachine):
    """Time is moved by hand: the real one plus `ahead`, for the file system's clock and the monotonic one."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.run = of_shards(self.folder / "run", len(SHARDS))
        self.ahead = 0.0
        self.real = (atomic.touch, time.monotonic)
        atomic.touch = lambda target: os.utime(target, (time.time() + self.ahead,) * 2)
        time.monotonic = lambda: self.real[1]() + self.ahead  # type: ignore[assignment]
        self.workers = {name: Worker(self._queue(name)) for name in ("w1", "w2", "w3")}
        self.held: dict[str, Held] = {}
        self.done: dict[str, str] = {}

    def _queue(self, name: str) -> ShardQueue:
        return pass_queue(self.run, "main", name, EXPIRY)

    def _now(self) -> float:
        return time.time() + self.ahead

    def _alive(self, name: str) -> bool:
        """Whether the model expects nobody to take the lease over. The edge itself is nobody's to judge."""
        return name in self.held and self._now() - self.held[name].beat < EXPIRY - 60

    @rule(worker=WORKERS, slow_after=st.sampled_from([None, -1.0, 5000.0]))
    def claim(self, worker: str, slow_after: float | None) -> None:
        me = self.workers[worker]
        lease = me.queue.claim(slow_after)
        if lease is None:
            return
        assert lease.shard not in self.done, "a done shard was leased"
        assert not self._alive(lease.name), "a living worker lost its lease"
        holding = {mine.shard for mine in me.leases if mine.nonce in me.queue.leases.held}
        assert lease.shard not in holding, "a worker got a shard that it still holds"
        os.utime(me.queue.leases.path(lease.name), (self._now(),) * 2)
        self.held[lease.name] = Held(lease.nonce, self._now())
        me.leases.append(lease)

    @rule(worker=WORKERS)
    def beat(self, worker: str) -> None:
        for lease in self.workers[worker].leases:
            mine = self.held.get(lease.name, Held("", 0)).nonce == lease.nonce
            assert lease.renew() == mine
            if mine:
                self.held[lease.name].beat = self._now()

    @rule(worker=WORKERS)
    def release(self, worker: str) -> None:
        me = self.workers[worker]
        for lease in me.leases:
            lease.release()
            if self.held.get(lease.name, Held("", 0)).nonce == lease.nonce:
                del self.held[lease.name]
        me.leases.clear()

    @rule(worker=WORKERS)
    def commit(self, worker: str) -> None:
        """Finish what one believes to hold, zombie or not: the first one counts."""
        me = self.workers[worker]
        for lease in me.leases:
            path = self.run.result("main", lease.shard)
            first = atomic.write_file(path, worker.encode(), exclusive=True)
            assert first == (lease.shard not in self.done)
            self.done.setdefault(lease.shard, worker)
        self.release(worker)

    @rule(worker=WORKERS)
    def crash(self, worker: str) -> None:
        self.workers[worker] = Worker(self._queue(worker))

    @rule(seconds=st.sampled_from([1.0, 300.0, 700.0, 2000.0]))
    def wait(self, seconds: float) -> None:
        self.ahead += seconds

    @precondition(lambda self: self.held)
    @rule(number=st.integers(0, 3), garbage=st.sampled_from([b"", b"\x00\x00", b'{"nonce":1}']))
    def rot(self, number: int, garbage: bytes) -> None:
        """The disk damages a lease: it is nobody's from then on."""
        name = sorted(self.held)[number % len(self.held)]
        self.workers["w1"].queue.leases.path(name).write_bytes(garbage)
        del self.held[name]

    @invariant()
    def the_first_result_stays(self) -> None:
        for shard, worker in self.done.items():
            assert self.run.result("main", shard).read_bytes() == worker.encode()
        assert done_shards(self.run, "main") == set(self.done)

    @invariant()
    def nobody_dead_is_believed_alive(self) -> None:
        leases = self.workers["w1"].queue.leases
        for name in SHARDS:
            holder = leases.holder(name)
            if holder is not None and self._alive(name):
                assert holder.nonce == self.held[name].nonce

    def teardown(self) -> None:
        """Whatever happened: after a while a fresh worker finishes everything."""
        try:
            self.ahead += 3 * EXPIRY
            last = self._queue("last")
            for _ in range(20):
                while (lease := last.claim()) is not None:
                    assert atomic.write_file(self.run.result("main", lease.shard), b"last", exclusive=True)
                    lease.release()
                self.ahead += 100.0
            assert last.complete
            assert done_shards(self.run, "main") == set(SHARDS)
        finally:
            atomic.touch, time.monotonic = self.real  # type: ignore[assignment]
            shutil.rmtree(self.folder)


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
