#!/usr/bin/env python3
"""How well do thousands of workers share one run? A simulation in virtual time, with the published times
per item.

    tools/simulate_workers.py                                   3,200 workers, 1 M items, several shard sizes
    tools/simulate_workers.py --workers 400 --items 270000 --shard-size 64

An item takes 5.00 s: 3.11 s to write a question and 1.89 s to judge it, from the 27,821 questions and 45,674
judgements a day on one A6000 of BioGraphletQA, sections 3.2.2 and 3.3, with a spread of lengths and of the
machines' speed. Each worker answers one request after the other, so the few minutes in which the last batch
of a GPU drains are not in here: tools/bench_scheduler.py shows those. Shards are found, leased, renewed and
committed by the rules of store/queue.py and work/pace.py; each file-system call on metadata takes
--latency seconds of the worker's time and is counted.

efficiency  work done over what all workers could have done until the last result was committed
slowest     when the last worker ends its own work, over the mean of all
calls/s     on metadata: on average; peak/s in the busiest second, and which one that is: the last shards are
            all leased, and workers that have nothing to do look for one that is not
helped      shards that got a second, speculative worker
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
from dataclasses import dataclass, field

from kgqa_hpc.store.queue import DONE_IN_A_ROW, LONGEST_WAIT, LOOKS, SAMPLE
from kgqa_hpc.work.pace import SLOW

ITEM = 86_400 / 27_821 + 86_400 / 45_674  # s, to write and to judge one question
SPREAD = 0.35  # of one item's time, standard deviation over mean; chosen
MACHINES = 0.02  # of a worker's speed; cards of one model differ by about so much; chosen
START = 30.0  # s within which all workers of a job have started; chosen
EXPIRY = 120.0  # s, the default of runtime.lease
# Calls on metadata per act: docs/reference/format.md, section 8, "What thousands cost", and commit's temp, link,
# folder, journal.
IS_DONE, READ_LEASE, CLAIM, RELEASE, COMMIT, BEAT = 1, 2, 12, 3, 10, 4
TARGET = 0.98  # efficiency that a shard size should reach
FREE, LEASED, DONE = 0, 1, 2
ASK, END = 0, 1


@dataclass(slots=True)
class Shard:
    items: int
    state: int = FREE
    claimed: float = 0.0
    ends: float = 0.0
    helped: bool = False


@dataclass(slots=True)
class Worker:
    start: float
    pace: float
    known: list[Shard]  # not known to be done, as of its last listing
    ready: float = 0.0  # when the engine has finished what it has
    ended: float = 0.0
    shard_time: float = 0.0
    in_vain: int = 0


@dataclass(frozen=True)
class Outcome:
    shards: int
    hours: float
    efficiency: float
    slowest: float
    calls_mean: float
    calls_peak: float
    peak_at: int  # s since the first worker could start
    helped: int

    def line(self) -> str:
        return (
            f"{self.shards:>8,} {self.hours:>7.2f} {self.efficiency:>11.4f} {self.slowest:>8.3f}"
            f" {self.calls_mean:>11,.0f} {self.calls_peak:>9,.0f} {self.peak_at:>6,} s {self.helped:>7,}"
        )


@dataclass
class Simulation:
    """All shards and workers. `run` plays them to the end and says how it went."""

    workers: int
    items: int
    shard_size: int
    latency: float = 0.001
    seed: int = 1
    looks: int = LOOKS
    calls: dict[int, float] = field(default_factory=dict)  # by second
    useful: float = 0.0  # s of work that was not done twice

    def run(self) -> Outcome:
        chance = self.chance = random.Random(self.seed)
        full, rest = divmod(self.items, self.shard_size)
        self.shards = [Shard(self.shard_size) for _ in range(full)] + ([Shard(rest)] if rest else [])
        self.undone, self.listed = list(self.shards), 0.0
        self.free = self.left = len(self.shards)
        team = [
            Worker(chance.uniform(0, START), max(chance.gauss(1, MACHINES), 0.5), self.undone)
            for _ in range(self.workers)
        ]
        self.events: list[tuple[float, int, int, Worker, Shard | None]] = []
        for worker in team:
            worker.ready = worker.start
            self._at(worker.start, ASK, worker)
        end = 0.0
        while self.events:
            now, _, what, worker, shard = heapq.heappop(self.events)
            if what == ASK:
                self._ask(now, worker)
            elif shard is not None:
                self._commit(now, worker, shard)
                end = max(end, now + COMMIT * self.latency)
        spans = [worker.ended - worker.start for worker in team]
        return Outcome(
            len(self.shards),
            end / 3600,
            self.useful / sum(end - worker.start for worker in team),
            max(spans) / statistics.fmean(spans),
            sum(self.calls.values()) / end,
            max(self.calls.values()),
            max(self.calls, key=self.calls.__getitem__),
            sum(shard.helped for shard in self.shards),
        )

    def _at(self, when: float, what: int, worker: Worker, shard: Shard | None = None) -> None:
        heapq.heappush(self.events, (when, self.chance.getrandbits(40), what, worker, shard))

    def _ask(self, now: float, worker: Worker) -> None:
        """Look for the next shard while the engine has one more item to do, as worker.py does."""
        if not self.left:
            return
        shard, now = self._find(now, worker)
        if shard is None:
            worker.in_vain += 1
            pause = min(0.5 * 1.5 ** min(worker.in_vain, 20), LONGEST_WAIT)
            self._at(now + pause * self.chance.uniform(0.75, 1.25), ASK, worker)
            return
        worker.in_vain = 0
        needed = sum(self._item() for _ in range(shard.items)) * worker.pace
        begin = max(now, worker.ready)
        if shard.state == FREE:
            shard.state, shard.claimed, shard.ends = LEASED, now, begin + needed
            self.free -= 1
            self.useful += needed
        else:  # speculative: goes on from what is in the first one's journal
            needed *= max(shard.ends - begin, 0.0) / max(shard.ends - shard.claimed, 1.0)
        worker.ready = begin + needed
        self._spread(begin, worker.ready, (worker.ready - now) / (EXPIRY / 4) * BEAT)
        self._at(worker.ready, END, worker, shard)
        self._at(max(now, worker.ready - ITEM), ASK, worker)

    def _find(self, now: float, worker: Worker) -> tuple[Shard | None, float]:
        """Shards in the worker's own random order, until one is free."""
        in_a_row, looks = 0, 0
        while self.free and looks < self.looks:
            shard = self.chance.choice(worker.known)
            now = self._call(now, IS_DONE)
            if shard.state == DONE:
                in_a_row += 1
                if in_a_row >= DONE_IN_A_ROW:
                    in_a_row, worker.known = 0, self._list(now)
                    now = self._call(now, 1 + len(self.shards) // 1000)
                continue
            in_a_row = 0
            if shard.state == FREE:
                return shard, self._call(now, READ_LEASE + CLAIM)
            now, looks = self._call(now, READ_LEASE), looks + 1
        return self._find_late(now, worker)

    def _find_late(self, now: float, worker: Worker) -> tuple[Shard | None, float]:
        """None found, by as many looks as one search may take; a slow shard may be helped."""
        if not self.free:  # as if the worker remembered no lease that it looked at before
            now = self._call(now, min(self.looks, self.left) * (IS_DONE + READ_LEASE))
        if now < worker.ready:
            return None, now
        left = self._list(now)
        for shard in self.chance.sample(left, min(SAMPLE, len(left))):
            slow_after = max(SLOW * worker.shard_time, EXPIRY)
            if shard.state == LEASED and not shard.helped and now - shard.claimed > slow_after:
                shard.helped = True
                return shard, self._call(now, CLAIM)
        return None, now

    def _commit(self, now: float, worker: Worker, shard: Shard) -> None:
        worker.shard_time, worker.ended = now - shard.claimed, now
        self._call(now, COMMIT + RELEASE)
        if shard.state != DONE:
            shard.state = DONE
            self.left -= 1

    def _list(self, now: float) -> list[Shard]:
        """The shards not done. One list serves all who look within the same second."""
        if now - self.listed > 1.0:
            self.undone, self.listed = [shard for shard in self.undone if shard.state != DONE], now
        return self.undone

    def _item(self) -> float:
        return ITEM * self.chance.lognormvariate(-(SPREAD**2) / 2, SPREAD)

    def _call(self, now: float, number: int) -> float:
        self.calls[int(now)] = self.calls.get(int(now), 0.0) + number
        return now + number * self.latency

    def _spread(self, begin: float, end: float, number: float) -> None:
        """Calls in equal parts over a stretch of time."""
        seconds = range(int(begin), max(int(end), int(begin) + 1))
        for second in seconds:
            self.calls[second] = self.calls.get(second, 0.0) + number / len(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=3200)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--shard-size", type=int, action="append", help="several: one line each")
    parser.add_argument("--latency", type=float, default=0.001, help="s per call on metadata (default 0.001)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--looks", type=int, default=LOOKS, help="living leases looked at in one search")
    args = parser.parse_args()
    print(f"{args.workers:,} workers, {args.items:,} items of {ITEM:.2f} s, seed {args.seed}")
    print("    size   shards   hours  efficiency  slowest     calls/s    peak/s       at  helped")
    reached = []
    for size in sorted(args.shard_size or [4, 6, 8, 16, 32]):
        outcome = Simulation(args.workers, args.items, size, args.latency, args.seed, args.looks).run()
        print(f"{size:>8}{outcome.line()}", flush=True)
        reached += [size] if outcome.efficiency >= TARGET else []
    share = args.items // args.workers
    each = f"{share:,} items per worker"
    if reached:
        print(
            f"largest of these that reaches {TARGET}: {reached[-1]}, {share // reached[-1]} shards at {each}"
        )
    else:
        smaller = max(share // 50, 1)
        print(f"none of these reaches {TARGET}; runtime.shard_size {smaller} is 50 shards a worker at {each}")


if __name__ == "__main__":
    main()
