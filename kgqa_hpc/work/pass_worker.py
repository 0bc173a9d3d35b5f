"""The worker loop of one pass: lease a shard, open it, send requests, journal answers, commit the result.

The same loop runs alone, under MPI, under srun and in a job array; workers know of each other only through the run
folder. It ends when all shards of the pass are done, or at a stop: then requests in flight are waited for a short
while, journals are made durable and leases released.
"""

import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from kgqa_hpc.cluster.stop import Interrupted
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.engines.engine import LOAD
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.errors import CorruptFile, EngineDied, KgqaError, MissingFile, StoreError
from kgqa_hpc.runs import chain, kept_prompts
from kgqa_hpc.status.log_files import LOADS, write_state
from kgqa_hpc.store.cleanup import quarantine
from kgqa_hpc.store.lease import Lease
from kgqa_hpc.store.partition import load_shard
from kgqa_hpc.store.queue import pass_queue
from kgqa_hpc.store.shards import read_result
from kgqa_hpc.work.item_scheduler import Limits, Scheduler, Task
from kgqa_hpc.work.open_shard import OpenShard, Record
from kgqa_hpc.work.session import Session, TransientErrors, bring_up

# The next shard is opened when the number of waiting tasks falls below this share of the window.
RESERVE = 8
TICK = 0.2  # longest wait of a round in seconds, and so the longest time until a signal is noticed


class PassWorker:
    """The loop of one pass, with its open shards, engine and scheduler."""

    def __init__(self, session: Session, pass_name: str) -> None:
        self._session = session
        self._pass = pass_name
        names = [entry.name for entry in session.config.passes]
        self._before = dict(zip(names[1:], names, strict=False)).get(pass_name)  # name of the previous pass
        self._runtime = session.config.runtime
        self._stop = session.stop
        self._log = session.log.write
        self._queue = pass_queue(session.run, pass_name, session.worker, self._runtime.lease)
        self._chain = chain.build_chain(session.config, pass_name, prompts=kept_prompts(session.run))
        self._engine = EngineProcess(
            session.config.engine_of(pass_name),
            session.log.path.with_suffix(".engine.log"),
            self._runtime.engine_stall,
            session.run.batches,
        )
        self._engine.described = partial(chain.set_engine, self._chain)
        # A batch API answers after hours and keeps its batches after the worker has ended.
        engine_class = ENGINES.get(session.config.engine_of(pass_name).kind)
        self._keeps_batches = getattr(engine_class, "keeps_batches", False)
        self._scheduler: Scheduler | None = None
        self._window = 0
        self._open: dict[str, OpenShard] = {}
        self._complete: list[OpenShard] = []
        self._synced = time.monotonic()
        self._transient_errors = TransientErrors(self._runtime.lease)
        self._blocked = False
        self._load_before = dict(session.server_loads.get(pass_name, dict.fromkeys(LOAD, 0.0)))
        session.activity.pass_name = pass_name

    def work(self) -> bool:
        """Work on the pass until it is complete or the session is to stop; then release leases and stop the engine.

        Returns False if a result of the previous pass is missing or corrupt and must be made again first.
        Raises EngineError, EngineConfigError, DiskFull, StoreError; finished items are saved in any case.
        """
        try:
            complete = self._process_shards()
        except Interrupted:
            # A step did not end within the grace of a stop: its item stays in the state of its journal.
            self._log("interrupted", reason=self._stop.reason)
            complete = False
        except BaseException:
            self._engine.kill()
            for shard in list(self._open.values()):
                # Report the first error: releasing may fail for the same reason, such as a broken disk.
                with suppress(KgqaError):
                    self._leave(shard, "failed")
            raise
        finally:
            self._queue.leases.clock.close()
        if self._session.stopped():
            self._engine.kill()  # an orderly end of the engine may take seconds and has no benefit here
        else:
            self._engine.close()
        self._count_server_load()
        if self._scheduler is not None:
            counters = {**asdict(self._scheduler.counters), "server": self._engine.server_load}
            self._log("pass-left", **{"pass": self._pass}, **counters)
        for shard in list(self._open.values()):
            self._leave(shard, "stopped")
        return complete

    def _process_shards(self) -> bool:
        while not self._session.stopped() and not self._blocked:
            self._refill()
            if self._open or self._complete:
                self._round()
            elif self._queue.complete:
                return True
            else:
                self._idle()
        self._drain()
        return not self._blocked

    def _refill(self) -> None:
        """Open the next shard shortly before the open shards run out of tasks, so that the engine always has requests.

        Not earlier: another worker cannot take a shard that waits here. When free shards run out, the worker holds no
        more tasks than the engine processes at once.
        """
        self._session.check()
        while not self._blocked and not self._session.stopped():
            if self._scheduler:
                window, reserve = self._window, self._window // RESERVE
                if self._queue.supply.low:
                    window, reserve = min(window, self._engine.info.max_batch), 0
                self._scheduler.window = window
                if self._scheduler.waiting > reserve:
                    return
            lease = self._claim()
            if lease is None:
                return
            self._session.heartbeat.keep(lease, partial(self._queue.is_done, lease.shard))
            try:
                self._take(lease)
            except BaseException:
                self._give_back(lease)
                raise

    def _claim(self) -> Lease | None:
        """The next lease; None if no shard is free, or during a passing error of the file system."""
        try:
            lease = self._queue.claim_when_due(idle=not self._open)
        except (StoreError, OSError) as problem:
            self._transient_errors.failed(problem)
            self._log("claim-failed", problem=str(problem))
            self._stop.wait(TICK)
            return None
        self._transient_errors.ok()
        return lease

    def _take(self, lease: Lease) -> None:
        scheduler = self._scheduler or self._start_engine()
        before = self._results_before(lease)
        if scheduler is None or self._blocked:
            self._give_back(lease)
            return
        anchors = load_shard(self._session.run, self._session.shards, lease.shard)
        shard = OpenShard(self._session, self._pass, lease, anchors, before, self._chain)
        self._open[shard.name] = shard
        self._log(
            "shard-opened",
            shard=shard.name,
            items=shard.items,
            resumed=shard.resumed,
            speculative=lease.name != lease.shard,
        )
        if shard.complete:
            self._complete.append(shard)
        scheduler.add(shard.tasks)
        shard.tasks.clear()  # so that an item is freed when it ends, and only its row stays in memory

    def _start_engine(self) -> Scheduler | None:
        """Start the engine when there is a request for it; None if the worker is stopped meanwhile."""
        session, limits = self._session, self._runtime
        began = time.monotonic()
        provenance: dict[str, Any] = {}
        self._window = limits.window or 1
        if any(step.asks for step in self._chain):
            bring_up(self._start_once, limits.engine_restarts, self._session.stopped)
            if self._session.stopped():
                return None
            info = self._engine.info
            provenance = info.provenance()
            session.run.pin(f"engine-{self._pass}", info.identity())
            self._window = limits.window or info.window or 2 * info.max_batch
        self._scheduler = Scheduler(
            self._chain,
            self._engine,
            Limits(self._window, limits.attempts, limits.item_engine_deaths, limits.engine_restarts),
            self._moved,
            last=session.config.passes[-1].name == self._pass,
            stopped=self._session.stopped,
            interruptible=self._stop.interruptible,
        )
        session.activity.counters = self._scheduler.counters
        seconds = round(time.monotonic() - began, 2)
        self._log("engine-started", engine=provenance, window=self._window, seconds=seconds)
        return self._scheduler

    def _start_once(self) -> None:
        self._engine.start(self._session.stopped)
        self._engine.preflight(chain.schemas_of(self._chain), self._session.stopped)

    def _results_before(self, lease: Lease) -> dict[str, Record] | None:
        """The records of the previous pass; sets `_blocked` if they must be made again."""
        if self._before is None:
            return None
        path = self._session.run.result(self._before, lease.shard)
        try:
            records = read_result(path, self._session.run.origin(self._before))
            return {record["id"]: record for record in records}
        except (MissingFile, CorruptFile) as problem:
            if isinstance(problem, CorruptFile):
                quarantine(self._session.run.quarantine, path, problem.message)
            self._log("result-redo", shard=lease.shard, reason=problem.message)
        self._blocked = True
        return None

    def _moved(self, task: Task, ended: bool) -> None:
        shard = self._open[task.shard]
        shard.moved(task, ended)
        if ended:
            self._session.activity.ended += 1
            if shard.complete:
                self._complete.append(shard)

    def _round(self) -> None:
        assert self._scheduler is not None
        counters = self._scheduler.counters
        deaths = counters.deaths
        if self._scheduler.turn(0.0 if self._complete else TICK):
            self._session.activity.answered_at = time.monotonic()
        if counters.deaths > deaths:
            self._log("engine-died", deaths=counters.deaths)
        self._stop.measured = counters.slowest, counters.answers
        while self._complete:
            self._commit(self._complete.pop())
        for shard in list(self._open.values()):
            if why := self._session.heartbeat.lost(shard.lease):
                self._scheduler.drop(shard.name)
                self._leave(shard, why)
        if time.monotonic() - self._synced > self._runtime.commit_every:
            for shard in self._open.values():
                shard.journal.sync()
            self._synced = time.monotonic()
            self._count_server_load()
        self._show()

    def _commit(self, shard: OpenShard) -> None:
        if self._open.pop(shard.name, None) is None:
            return  # the lease was lost meanwhile
        is_first = shard.commit()
        self._give_back(shard.lease)
        seconds = time.monotonic() - shard.opened
        self._queue.durations.append(seconds)
        self._session.activity.shards_done += 1
        self._log(
            "shard-done", shard=shard.name, items=shard.items, first=is_first, seconds=round(seconds, 2)
        )

    def _leave(self, shard: OpenShard, why: str) -> None:
        del self._open[shard.name]
        try:
            shard.journal.close()
        finally:
            self._give_back(shard.lease)
        self._log("shard-left", shard=shard.name, why=why, ended=shard.ended, items=shard.items)

    def _give_back(self, lease: Lease) -> None:
        self._session.heartbeat.forget(lease)
        try:
            lease.release()
        except (StoreError, OSError) as problem:  # a lease that is not released expires
            self._log("release-failed", shard=lease.shard, problem=str(problem))

    def _count_server_load(self) -> None:
        """Write the server errors of the pass, of its earlier engines and the present one, if their counts changed.

        An error of the file system is ignored, because work can go on.
        """
        total = {name: self._load_before[name] + self._engine.server_load[name] for name in LOAD}
        loads = self._session.server_loads
        if any(total.values()) and loads.get(self._pass) != total:
            loads[self._pass] = total
            try:
                write_state(self._session.run.logs, self._session.worker, loads, LOADS)
            except StoreError as problem:
                self._log("server-load-not-written", problem=str(problem))

    def _idle(self) -> None:
        """Wait for a shard that another worker holds; keep reading from the engine, so that its pipe does not fill."""
        if self._scheduler is not None:
            try:
                self._engine.receive(0)
            except EngineDied as death:
                self._log("engine-died", reason=death.message, idle=True)
        self._show()
        self._stop.wait(TICK)

    def _drain(self) -> None:
        if self._scheduler is None:
            return
        in_flight = self._scheduler.in_flight
        self._scheduler.drain(lambda: self._blocked or self._keeps_batches or self._stop.patience_is_over())
        while self._complete:
            self._commit(self._complete.pop())
        cancelled = self._scheduler.in_flight
        self._log("drained", reason=self._stop.reason, in_flight=in_flight, cancelled=cancelled)
        if cancelled:
            self._engine.kill()
        self._show()

    def _show(self) -> None:
        activity = self._session.activity
        activity.open_shards = len(self._open)
        if self._scheduler is not None:
            activity.in_flight = self._scheduler.in_flight
        if not activity.in_flight or self._keeps_batches:
            activity.answered_at = time.monotonic()
