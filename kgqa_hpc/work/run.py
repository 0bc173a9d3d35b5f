"""`kgqa run`: the work of one process of a run, from opening the folder to its exit code.

The same function serves a single process, several at once, ranks of mpiexec or srun, and tasks of a job array. It
returns when every shard of every pass is done; StoppedEarly (exit code 75) means that the same command goes
on where it stopped: at a time limit, on a signal, or when the run has spent its `runtime.budget`.
"""

import gc
import os
import random
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kgqa_hpc.cluster import slurm
from kgqa_hpc.cluster.ranks import World, assign_gpus, discover, leave, shake_hands, worker_name
from kgqa_hpc.cluster.stop import PATIENCE, Stop, deadline_of
from kgqa_hpc.config import RunConfig
from kgqa_hpc.errors import CorruptFile, InputError, KgqaError, StoppedEarly, StoreError
from kgqa_hpc.runs import checks, open_for_work
from kgqa_hpc.runs.trust import require_agreed, shown
from kgqa_hpc.status import log_files
from kgqa_hpc.status.pass_totals import money
from kgqa_hpc.status.snapshot import load_totals, survey
from kgqa_hpc.store.cleanup import time_at
from kgqa_hpc.store.lease import Heartbeat
from kgqa_hpc.store.partition import ShardsManifest, read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import read_header
from kgqa_hpc.terminal import Progress, note
from kgqa_hpc.text.plain_text import about, plain, shell_word
from kgqa_hpc.work.coordinator import Coordinator, Reporter
from kgqa_hpc.work.pass_worker import PassWorker
from kgqa_hpc.work.session import Logbook, Session

LOOK_EVERY_S = 1.0
CURE = "raise it in the configuration, then kgqa init and kgqa run again"
SHARE = 0.02  # largest share of the time for checks of the budget, which read the run's files

# Seconds that a rank waits for the other ranks at the end; all finish within one poll interval of the queue.
TOGETHER = 20.0
# New objects between two garbage collections (CPython: 700). Items make no cycles, and a collection
# visits the records of all open shards: 8 % of a worker's time (tools/bench_scheduler.py).
GC_AFTER = 50_000
# Bytes of a block that is allocated and freed once: glibc then keeps twice as much free memory, about two
# shards' results, instead of returning it to the kernel at each commit (8 % of a worker's time).
KEPT_FREE = 16 << 20
Further = Callable[[RunFolder, RunConfig, Callable[[float], bool]], bool]


def run_command(
    folder: Path, worker: str | None = None, *, trust: bool = False, further: Further = lambda *_: False
) -> None:
    """Work on a run until it is complete. `worker` is the stem of this worker's name in logs.

    `trust` is consent to the commands and servers of the configuration (runs/trust.py). `further` is called when
    every shard is done and returns whether the run has grown meanwhile (kgqa_hpc/target.py).

    Raises StoppedEarly, or any KgqaError; under MPI it does not return but ends the process.
    """
    world = discover(os.environ)
    if world.launcher != "mpi":
        _run(folder, world, worker, trust, further)
        return
    comm = shake_hands(world, folder)
    code, patience = 0, TOGETHER
    try:
        _run(folder, world, worker, trust, further)
    except StoppedEarly as stop:
        code = stop.exit_code
        if world.rank == 0:
            print(plain(str(stop)), file=sys.stderr)
    except KgqaError as problem:
        code, patience = problem.exit_code, 0.0
        print(plain(f"error: rank {world.rank}: {problem}"), file=sys.stderr)
    except BaseException as problem:  # noqa: BLE001  whatever it is, the process must leave MPI in order
        code, patience = 1, 0.0
        traceback.print_exception(problem)
    if comm is None:
        sys.exit(code)
    leave(comm, code, patience)


def _run(folder: Path, world: World, requested_name: str | None, trust: bool, further: Further) -> None:
    gc.set_threshold(GC_AFTER)
    bytes(KEPT_FREE)
    run, config = open_for_work(folder)
    _agree(run, config, world, trust)
    for line in checks.missing_packages(config, "engine", "passes", "dataset") if world.rank == 0 else ():
        note(f"note: {line}")
    if not run.anchors.exists():
        raise InputError(f"{run.anchors} is missing", f"first: kgqa sample {shell_word(folder)}")
    assign_gpus(world, _gpus_per_worker(config), os.environ)
    job_end = slurm.job_end(os.environ, ask=world.launcher in ("alone", "array") or world.size == 1)
    stop = Stop(deadline_of(config.runtime.time_limit, job_end, time_at(run.path)), config.runtime.margin)
    worker = worker_name(world, requested_name)
    log_name = f"{slurm.own_job(os.environ) or 'local'}/{worker}.jsonl"
    with stop.listening(), closing(Logbook(run.logs / log_name, worker)) as log:
        facts = _facts(world)
        seconds = None if stop.deadline is None else round(stop.deadline - time.monotonic(), 1)
        log.write("started", **facts, deadline=seconds)
        if world.rank == 0 and (job := slurm.own_job(os.environ)):
            slurm.record_job(run.logs, job, "run")
        try:
            _work_through(run, config, worker, stop, log, facts)
            while further(run, config, stop.wait):
                run, config = open_for_work(folder)
                _agree(run, config, world, False)
                _work_through(run, config, worker, stop, log, facts)
        except BaseException as problem:
            text = problem.message if isinstance(problem, KgqaError) else repr(problem)
            with suppress(StoreError):  # the log itself may be the file that cannot be written
                log.write("ended", error=type(problem).__name__, text=text)
            raise
        log.write("ended", error=None)


def _agree(run: RunFolder, config: RunConfig, world: World, trust: bool) -> None:
    """Require consent to every command and server of the configuration, and show them on rank 0."""
    if trust and world.rank != 0:
        return  # rank 0 records the consent and shows the settings
    dangerous = require_agreed(run, config.plain(), trust=trust)
    for key, value in dangerous.items() if world.rank == 0 else ():
        note(f"run     {key}: {shown(value)}")


def _work_through(
    run: RunFolder, config: RunConfig, worker: str, stop: Stop, log: Logbook, facts: dict[str, Any]
) -> None:
    """Process all passes; a heartbeat and a reporter thread run meanwhile. Raises StoppedEarly."""
    is_first, heartbeat = facts["rank"] == 0, Heartbeat(config.runtime.lease, log.write)
    session = Session(run, config, worker, stop, log, heartbeat, facts)
    lead = Coordinator(session)
    reporter = Reporter(session, lead, Progress() if is_first else None)
    spending = Spending(run, config.runtime.budget.limits if config.runtime.budget else {})
    spending.require_rest()

    def check() -> None:
        heartbeat.check()
        reporter.check()
        spending.check(stop)

    heartbeat.start()
    if is_first:
        with suppress(StoreError):  # the reporter will meet the same error and report it
            lead.take()
    reporter.start()
    failed, complete = True, False
    try:
        session.check, session.shards = check, _await_shards(run, reporter, stop)
        complete = _all_passes(session, lead)
        failed = False
    finally:
        reporter.stop(failed=failed, complete=complete)
        heartbeat.stop()
    if spending.cure and config.target is None:  # the last requests may have spent the budget
        complete = survey(run.path)["complete"]
    if stop.reason is not None and not complete:
        raise StoppedEarly(f"stopped early: {stop.reason}; everything finished is saved", spending.cure)


def _all_passes(session: Session, lead: Coordinator) -> bool:
    """Work on the passes in order; return whether all are complete, False at a stop.

    If a result of the previous pass must be made again, go back to that pass.
    """
    names = [entry.name for entry in session.config.passes]
    position = 0
    while session.stop.reason is None:
        if position == len(names):
            if not (lead.lease and lead.verify(session.shards.names)):
                return True
            position = 0
        position += 1 if PassWorker(session, names[position]).work() else -1
    return False


def _await_shards(run: RunFolder, reporter: Reporter, stop: Stop) -> ShardsManifest:
    """Wait until the coordinator has cut (or extended) the shards; return their manifest."""
    pause = 0.1
    anchors_sha256 = read_header(run.anchors, "anchors")["sha256"]
    while True:
        reporter.check()
        if run.shards_manifest.exists():
            try:
                manifest = read_shards_manifest(run)
                if manifest.anchors_sha256 == anchors_sha256:
                    return manifest
            except CorruptFile:
                pass  # the coordinator will set the manifest aside and cut the shards again
        if stop.wait(random.uniform(0.5, 1.5) * pause):
            raise StoppedEarly(f"stopped early: {stop.reason}; nothing was begun", "run it again")
        pause = min(pause * 1.2, 5.0)


def _gpus_per_worker(config: RunConfig) -> int:
    """The largest number of GPUs that an engine of the run needs; the variable KGQA_GPUS_PER_WORKER overrides it."""
    setting = os.environ.get("KGQA_GPUS_PER_WORKER", "")
    if setting.isdigit():
        return int(setting)
    return max(int(engine.gpus_per_worker) for engine in config.engines)


def _facts(world: World) -> dict[str, Any]:
    return {
        **asdict(world),
        "host": socket.gethostname(),
        **log_files.place(),
        "pid": os.getpid(),
        "job": os.environ.get("SLURM_JOB_ID"),
        "restart": os.environ.get("SLURM_RESTART_COUNT"),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


class Spending:
    """Check of the budget against the spending of all workers.

    `limits` are the limits by name; without limits the check never stops the run.
    """

    def __init__(
        self, run: RunFolder, limits: Mapping[str, float], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._limits, self._now = run, limits, now
        self._totals = load_totals(run, []) if limits else []
        self._began = self._next = now()
        self._silent = False  # whether the user was told that an engine reports no tokens
        self.cure = ""  # the cure for the user; set when the budget stops the run
        self._earlier = log_files.active_time(log_files.read_notes(run.logs))[0] if "hours" in limits else 0.0

    def require_rest(self) -> None:
        """Raises InputError when the budget of unfinished work is spent: the same command again would do nothing."""
        exceeded = self._exceeded()
        if exceeded and survey(self._run.path)["complete"]:
            self._limits, exceeded = {}, []
        for name, spent in exceeded:
            limit = f"{about(spent)} of {self._limits[name]:,g} are spent"
            raise InputError(f"runtime.budget.{name}: {limit}", CURE)

    def check(self, stop: Stop) -> None:
        """Request a stop when the budget is spent. Requests in flight are still waited for, because they cost money."""
        began = self._now()
        if not self._limits or began < self._next:
            return
        for name, spent in self._exceeded()[:1]:
            self.cure = f"runtime.budget.{name}: {CURE}"
            limit = f"the budget of {self._limits[name]:,g} {'' if name == 'money' else name}".rstrip()
            stop.request(f"{about(spent)} of {limit} are spent", PATIENCE)
        now = self._now()
        self._next = now + max(LOOK_EVERY_S, (now - began) / SHARE)

    def _exceeded(self) -> list[tuple[str, float]]:
        """The spent limits, each with the amount spent."""
        if not self._limits:
            return []
        for pass_totals in self._totals:
            pass_totals.refresh(self._run)
        figures = money(self._run, self._totals)
        used = [totals.all_tokens for totals in self._totals]
        if not self._silent and {"money", "tokens"} & self._limits.keys():
            silent = (totals.requests for totals in self._totals if not any(totals.tokens.values()))
            self._silent = any(silent)
            if self._silent:
                note("note: the engine reports no tokens, so only budgets of items and hours can stop it")
        spent: dict[str, float] = {
            "money": float(figures["spent"]) if figures else 0.0,
            "tokens": sum(tokens["prompt"] + tokens["completion"] for tokens in used),
            "items": max((totals.through for totals in self._totals), default=0),
            "hours": (self._earlier + self._now() - self._began) / log_files.HOUR,
        }
        return [(name, spent[name]) for name, limit in self._limits.items() if spent[name] >= limit]
