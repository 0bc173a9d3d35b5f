#!/usr/bin/env python3
"""Simulate thousands of workers that share one run, in virtual time, with the published times per item.

    tools/simulate_workers.py                                   3,200 workers, 1 M items, several shard sizes
    tools/simulate_workers.py --workers 400 --items 270000 --shard-size 64
    tools/simulate_workers.py --batch 1 --saturation 1          cards that answer one request after the other

An item takes 5.00 s of a card: 3.11 s to write a question and 1.89 s to judge it, from the 27,821 questions and
45,674 judgements a day on one A6000 of BioGraphletQA, sections 3.2.2 and 3.3. Each card is a batching GPU
(kgqa_hpc/engines/scripted.py): --batch sequences at once, of which --saturation use it fully; fewer
sequences are no faster. A worker keeps a quarter more than a batch in flight (85 items at a batch of 68), and every
card drains at the end. Shards are found, leased, renewed and
committed by the rules of store/queue.py; each file-system call on metadata takes
--latency seconds of the worker's time and is counted.

efficiency  work done over the capacity of all workers until the last result was committed
slowest     end of the last worker's own work, over the mean of all workers
drain       from the last claim to the last result, in seconds
calls/s     metadata calls on average; peak/s in the busiest second, with its time: all remaining shards are
            leased then, and idle workers search for a free one
helped      shards that got a second, speculative worker
"""

import argparse
import heapq
import random
import statistics
from dataclasses import dataclass, field

from kgqa_hpc.engines.scripted import Batch, Cost, GpuModel
from kgqa_hpc.store.queue import DONE_IN_A_ROW, LONGEST_WAIT, LOOKS, SAMPLE, SLOW, Supply
from kgqa_hpc.work.pass_worker import RESERVE

ITEM = 86_400 / 27_821 + 86_400 / 45_674  # s, to write and to judge one question
QUESTION = 86_400 / 27_821 / ITEM  # share of the writing
# Of an answer's length around its mean, evenly: the widest that keeps questions within the published 1,000 new tokens.
SPREAD = 1 / 3
BATCH = 68  # sequences at once
# Sequences that use an A6000 fully: it reads 40 GB of weights for a token of each at 768 GB/s, so a sequence gets at
# most 19 of the published 241 tokens a second. Calculated, not measured.
SATURATION = 13
IN_FLIGHT = 1.25  # times the batch, as the engines have it
MACHINES = 0.02  # of a worker's speed; cards of one model differ by about so much; chosen
START = 30.0  # s within which all workers of a job have started; chosen
EXPIRY = 120.0  # s, the default of runtime.lease
# Calls on metadata per act: docs/reference/format.md, section 8, "What thousands cost", and commit's temp, link,
# folder, journal.
IS_DONE, READ_LEASE, CLAIM, RELEASE, COMMIT, BEAT = 1, 2, 12, 3, 10, 4
TARGET = 0.95  # efficiency that a shard size should reach
FREE, LEASED, DONE = 0, 1, 2


@dataclass(slots=True)
class Shard:
    items: int
    state: int = FREE
    claimed: float = 0.0
    helped: bool = False
    left: int = 0  # items that nobody has answered


@dataclass(slots=True)
class Share:
    """What one worker does of a shard: all of it, or as a helper what was left."""

    shard: Shard
    claimed: float
    left: int


@dataclass(slots=True)
class Worker:
    start: float
    pace: float
    known: list[Shard]  # not known to be done, as of its last listing
    card: Batch[Share]
    ended: float = 0.0
    shard_time: float = 0.0
    in_vain: int = 0
    look_again: float = 0.0
    supply: Supply = field(default_factory=Supply)
    turn: int = 0  # number of the worker's latest planned event; earlier events are void


@dataclass(frozen=True)
class Outcome:
    shards: int
    hours: float
    efficiency: float
    slowest: float
    drain: float
    calls_mean: float
    calls_peak: float
    peak_at: int  # s since the first worker could start
    helped: int

    def line(self) -> str:
        return (
            f"{self.shards:>8,} {self.hours:>7.2f} {self.efficiency:>11.4f} {self.slowest:>8.3f}"
            f" {self.drain:>5.0f} s {self.calls_mean:>11,.0f} {self.calls_peak:>9,.0f}"
            f" {self.peak_at:>6,} s {self.helped:>7,}"
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
    batch: int = BATCH
    saturation: int = SATURATION
    calls: dict[int, float] = field(default_factory=dict)  # by second
    useful: float = 0.0  # s of a card that were not spent twice

    def run(self) -> Outcome:
        chance = self.chance = random.Random(self.seed)
        full, rest = divmod(self.items, self.shard_size)
        self.shards = [Shard(self.shard_size) for _ in range(full)] + ([Shard(rest)] if rest else [])
        self.undone, self.listed, self.claimed = list(self.shards), 0.0, 0.0
        self.free = self.left = len(self.shards)
        self.window = int(self.batch * IN_FLIGHT)
        card = GpuModel(batch=self.batch, decode_tokens_per_s=1, saturation=self.saturation)
        team = [
            Worker(chance.uniform(0, START), max(chance.gauss(1, MACHINES), 0.5), self.undone, Batch(card))
            for _ in range(self.workers)
        ]
        self.events: list[tuple[float, int, int, Worker]] = []
        for worker in team:
            self._plan(worker, worker.start)
        self.end = 0.0
        while self.events:
            now, _, turn, worker = heapq.heappop(self.events)
            if turn == worker.turn:
                self._work(now, worker)
        spans = [worker.ended - worker.start for worker in team]
        return Outcome(
            len(self.shards),
            self.end / 3600,
            self.useful / sum(self.end - worker.start for worker in team),
            max(spans) / statistics.fmean(spans),
            self.end - self.claimed,
            sum(self.calls.values()) / self.end,
            max(self.calls.values()),
            max(self.calls, key=self.calls.__getitem__),
            sum(shard.helped for shard in self.shards),
        )

    def _plan(self, worker: Worker, when: float) -> None:
        worker.turn += 1
        heapq.heappush(self.events, (when, self.chance.getrandbits(40), worker.turn, worker))

    def _work(self, now: float, worker: Worker) -> None:
        """Take the answers that are there, claim what is missing, as pass_worker.py does."""
        for share in worker.card.pop_ready(now):
            share.left -= 1
            share.shard.left = min(share.shard.left, share.left)
            if not share.left and share.shard.state != DONE:
                now = self._commit(now, worker, share)
        while self.left and now >= worker.look_again and self._hungry(worker):
            now = self._ask(now, worker)
        hungry = self.left and self._hungry(worker)
        times = [worker.card.next_time(), max(worker.look_again, now) if hungry else None]
        if any(time is not None for time in times):
            self._plan(worker, max(now, min(time for time in times if time is not None)))

    def _hungry(self, worker: Worker) -> bool:
        if worker.supply.low:
            return len(worker.card) <= self.batch
        return len(worker.card) - self.window <= self.window // RESERVE

    def _ask(self, now: float, worker: Worker) -> float:
        shard, now = self._find(now, worker)
        if shard is None:
            worker.in_vain += 1
            pause = min(0.5 * 1.5 ** min(worker.in_vain, 20), LONGEST_WAIT)
            worker.look_again = now + pause * self.chance.uniform(0.75, 1.25)
            return now
        worker.in_vain = 0
        first = shard.state == FREE
        if first:
            shard.state, shard.claimed, shard.left = LEASED, now, shard.items
            self.free -= 1
            self.claimed = now
        share = Share(shard, now, shard.left)  # a helper goes on from what is in the first one's journal
        for _ in range(shard.left):
            seconds = self._item() * worker.pace
            self.useful += seconds if first else 0.0
            worker.card.add(share, Cost(0, 0, 1, seconds * self.saturation), now)
        return now

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
            worker.supply.free.append(shard.state == FREE)
            if shard.state == FREE:
                return shard, self._call(now, READ_LEASE + CLAIM)
            now, looks = self._call(now, READ_LEASE), looks + 1
        return self._find_late(now, worker)

    def _find_late(self, now: float, worker: Worker) -> tuple[Shard | None, float]:
        """End of a search without a free shard, after the maximum number of lookups; may help a slow shard."""
        if not self.free:  # as if the worker remembered no lease that it looked at before
            now = self._call(now, min(self.looks, self.left) * (IS_DONE + READ_LEASE))
        if len(worker.card):
            return None, now
        left = self._list(now)
        for shard in self.chance.sample(left, min(SAMPLE, len(left))):
            slow_after = max(SLOW * worker.shard_time, EXPIRY)
            if shard.state == LEASED and not shard.helped and now - shard.claimed > slow_after:
                shard.helped = True
                return shard, self._call(now, CLAIM)
        return None, now

    def _commit(self, now: float, worker: Worker, share: Share) -> float:
        """Commit a shard; also counts the heartbeats of its lease."""
        self._spread(share.claimed, now, (now - share.claimed) / (EXPIRY / 4) * BEAT)
        now = self._call(now, COMMIT + RELEASE)
        worker.shard_time, worker.ended = now - share.claimed, now
        share.shard.state = DONE
        self.left -= 1
        self.end = max(self.end, now)
        return now

    def _list(self, now: float) -> list[Shard]:
        """The unfinished shards; workers that list within the same second share one listing."""
        if now - self.listed > 1.0:
            self.undone, self.listed = [shard for shard in self.undone if shard.state != DONE], now
        return self.undone

    def _item(self) -> float:
        """Seconds of a card for a question and its judgement."""
        write, judge = (1 + self.chance.uniform(-SPREAD, SPREAD) for _ in range(2))
        return ITEM * (QUESTION * write + (1 - QUESTION) * judge)

    def _call(self, now: float, number: int) -> float:
        self.calls[int(now)] = self.calls.get(int(now), 0.0) + number
        return now + number * self.latency

    def _spread(self, begin: float, end: float, number: float) -> None:
        """Count `number` calls, spread evenly from `begin` to `end`."""
        seconds = range(int(begin), max(int(end), int(begin) + 1))
        for second in seconds:
            self.calls[second] = self.calls.get(second, 0.0) + number / len(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=3200)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument(
        "--shard-size", type=int, action="append", help="numbers of workers; prints a line for each"
    )
    parser.add_argument("--latency", type=float, default=0.001, help="s per call on metadata (default 0.001)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=BATCH, help="sequences at once on a card")
    parser.add_argument("--saturation", type=int, default=SATURATION, help="sequences that use a card fully")
    parser.add_argument("--looks", type=int, default=LOOKS, help="living leases looked at in one search")
    args = parser.parse_args()
    print(f"{args.workers:,} workers, {args.items:,} items of {ITEM:.2f} s, seed {args.seed}")
    print("    size   shards   hours  efficiency  slowest   drain     calls/s    peak/s       at  helped")
    reached = []
    for size in sorted(args.shard_size or [4, 6, 8, 16, 32]):
        options = args.latency, args.seed, args.looks, args.batch, args.saturation
        outcome = Simulation(args.workers, args.items, size, *options).run()
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
