"""The coordinator: the process that cuts shards, cleans up, removes expired leases, and writes the status.

The role is a lease like any other, so a coordinator that dies is replaced. Rank 0 claims it at once, the other ranks
when it is free. The work may be done late, or by two processes at once, without harm: workers wait only for the
partition.

The reporter thread of each worker takes the role when it is free, and writes the worker's state and the progress. After
a passing error of the file system it tries again. A lasting error (a full disk while cutting shards) ends the thread,
and `check` raises it in the main thread.
"""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict

from kgqa_hpc.cluster import slurm
from kgqa_hpc.errors import CorruptFile, MissingFile, StoppedEarly, StoreError
from kgqa_hpc.status import log_files, pass_totals, render
from kgqa_hpc.status.snapshot import Status, compose, load_totals, survey, to_document
from kgqa_hpc.store import atomic, canonical, cleanup, queue
from kgqa_hpc.store.lease import Lease, Leases
from kgqa_hpc.store.partition import ShardsManifest, partition
from kgqa_hpc.store.sealed import verify
from kgqa_hpc.store.shards import RESULT
from kgqa_hpc.terminal import Progress
from kgqa_hpc.work.session import Session, TransientErrors, may_pass

ROLE = ".lead"  # folder of the role's lease; no pass can have this name
# Seconds between two notes in the history, and between two calls of squeue, which loads Slurm's controller.
NOTE_EVERY = 60.0
SWEEP_EVERY = 3600.0  # seconds between two sweeps of old files


class Coordinator:
    """The coordinator's role: its lease and its work. After `take`, only one thread may use it."""

    def __init__(self, session: Session) -> None:
        self.status: Status | None = None
        self._session, self._run, self._log = session, session.run, session.log.write
        worker, expiry = session.worker, session.config.runtime.lease
        self._passes = [entry.name for entry in session.config.passes]
        self._roles = Leases(self._run.leases(ROLE), worker, expiry)
        self._leases = [Leases(self._run.leases(name), worker, expiry) for name in self._passes]
        self.lease: Lease | None = None  # of the role, while this process holds it
        self._shards: ShardsManifest | None = None
        self._noted = self._swept = -SWEEP_EVERY
        # The run's jobs in Slurm's queue, as of the last note.
        self._queue: list[dict[str, str]] | None = None
        self._verified: set[str] = set()

    def take(self) -> bool:
        """Acquire or renew the role's lease; returns whether this process holds it now. Raises DiskFull, StoreError."""
        if self.lease is not None and self._session.heartbeat.lost(self.lease):
            self._session.heartbeat.forget(self.lease)
            self.lease = None
        if self.lease is None:
            self.lease = self._roles.claim("lead")
            if self.lease is not None:
                self._session.heartbeat.keep(self.lease)
                self._log("leads")
        return self.lease is not None

    def duties(self, *, last: bool = False) -> None:
        """Do all duties whose interval has passed. With `last`, the process is ending: also write the final status.

        Raises DiskFull, StoreError, FingerprintMismatch (the shards were cut from another anchors.h5), StoppedEarly.
        """
        if self._shards is None:
            self._shards = partition(
                self._run, self._session.config.runtime.shard_size, stopped=self._session.stopped
            )
            self._totals = load_totals(self._run, self._shards.names)
        now = time.monotonic()
        if now - self._swept >= SWEEP_EVERY:
            self._swept = now
            for name in self._passes:
                swept = queue.sweep(self._run, name)
                if any(swept):
                    self._log("swept", **swept._asdict(), **{"pass": name})
            log_files.sweep_states(self._run.logs)
        # Remove expired leases, so that the next worker that looks finds the shard free at once.
        for name, leases in zip(self._passes, self._leases, strict=True) if not last else ():
            for holder in leases.holders():
                if leases.expired(holder) and (lease := leases.claim(holder.name)) is not None:
                    lease.release()
                    self._log("reclaimed", shard=holder.name, of=holder.worker, **{"pass": name})
        for totals in self._totals:
            totals.refresh(self._run)
        self._publish(self._shards, note=last or now - self._noted >= NOTE_EVERY)

    def verify(self, shards: Sequence[str]) -> int:
        """Verify the checksum of every result once and move corrupt results to quarantine.

        Returns the number of `shards` without a result afterwards, whichever process moved it.
        """
        for name in self._passes:
            origin = self._run.origin(name)
            for path in sorted(self._run.results(name).glob("shard-*.h5")):
                if str(path) in self._verified:
                    continue
                if self._session.stopped():
                    raise StoppedEarly("stopped early while checking results")
                try:
                    origin.require(path, verify(path, RESULT))
                    self._verified.add(str(path))
                except MissingFile:  # another process has just moved it to quarantine
                    continue
                except CorruptFile as problem:
                    cleanup.quarantine(self._run.quarantine, path, problem.message)
                    self._log("result-corrupt", file=str(path), reason=problem.message)
        return sum(len(set(shards) - queue.done_shards(self._run, name)) for name in self._passes)

    def resign(self) -> None:
        """Release the role's lease. Raises StoreError."""
        if self.lease is not None:
            self._session.heartbeat.forget(self.lease)
            self.lease.release()
            self.lease = None
        for leases in (self._roles, *self._leases):
            leases.clock.close()

    def _publish(self, shards: ShardsManifest, *, note: bool) -> None:
        if note:
            self._queue = slurm.queue_state(self._run.logs)
        states = list(log_files.read_states(self._run.logs))
        self.status = compose(self._run, shards, self._totals, states, self._queue)
        if note:
            self._noted = time.monotonic()
            log_files.note_progress(self._run.logs, self.status["work"]["ended"])
        document = to_document(self._run, self.status, self._totals, shards.names)
        atomic.write_file(self._run.status_file, document, durable=False)
        atomic.make_folder(self._run.logs)
        atomic.write_file(
            self._run.logs / "metrics.prom", render.metrics(self.status).encode(), durable=False
        )


TICK = 0.5  # seconds between two checks of the timers
# Shortest and longest seconds between two states and two rounds of duties: few workers report often, thousands seldom.
SOONEST, LATEST = 5.0, 30.0
# Number of workers that may try to write the final status if the coordinator is dead.
FEW = 16


class Reporter(threading.Thread):
    """The reporter of a worker, a thread from `start` to `stop`."""

    def __init__(self, session: Session, lead: Coordinator, progress: Progress | None) -> None:
        super().__init__(name="reporter", daemon=True)
        self._session, self._run, self._log = session, session.run, session.log.write
        self._lead, self._progress = lead, progress
        self._began = time.monotonic()
        self._every = min(LATEST, max(SOONEST, session.facts["size"] / 20))
        self._seen: Status | None = None
        self._ended = threading.Event()
        self._trouble: BaseException | None = None
        self._transient_errors = TransientErrors(session.config.runtime.lease)

    def check(self) -> None:
        """Raise the exception that ended the thread, if there was one."""
        if self._trouble is not None:
            raise self._trouble

    def stop(self, *, failed: bool, complete: bool) -> None:
        """Remove this worker's state, write the final status, release the coordinator's role.

        The final status of a `complete` run is written by the first process that finds it missing, even if the
        coordinator was killed. Raises DiskFull, StoreError.
        """
        self._ended.set()
        if self.is_alive():
            self.join()
        log_files.remove_state(self._run.logs, self._session.worker)
        try:
            if not failed and self._trouble is None:
                self._finish(complete)
        finally:
            if self._progress is not None:
                words = _words(self._seen) if self._seen else (0, 0, "nothing was begun")
                self._progress.update(*words, last=True)
            self._lead.resign()

    def _finish(self, complete: bool) -> None:
        """Show the progress, and write the final status if this process is the coordinator or takes over its role.

        If the run is complete and its status file does not say so, no coordinator is left: this process may take over.
        """
        try:
            missing = complete and not (self._read_status() or {}).get("complete")
            # Thousands of processes must not all write: then only the coordinator's successor does.
            few = self._session.facts["size"] <= FEW
            if self._lead.lease or (missing and (few or self._lead.take())):
                self._lead.duties(last=True)
            if self._progress is not None:
                self._seen = self._lead.status or survey(self._run.path)
        except StoppedEarly:
            pass  # the shards were not cut yet: there is no state to write
        except (StoreError, OSError) as problem:
            if not may_pass(problem):
                raise
            self._log("last-look-failed", problem=str(problem))

    def run(self) -> None:
        due = 0.0
        try:
            while not self._ended.wait(TICK if due else 0):
                if time.monotonic() >= due:
                    pause = self._every if self._report_once() else TICK
                    due = time.monotonic() + pause * random.uniform(0.8, 1.2)
                if self._progress is not None and self._seen is not None:
                    self._progress.update(*_words(self._seen))
        except StoppedEarly:
            pass  # the main thread stops for the same reason
        except BaseException as problem:  # noqa: BLE001  raised by `check` in the main thread
            self._trouble = problem

    def _report_once(self) -> bool:
        """Write state and status; returns whether that succeeded. An error that may pass is tolerated for a while."""
        try:
            now = time.monotonic()
            session = self._session
            activity = asdict(session.activity)
            state = {**session.facts, "worker": session.worker, "up": round(now - self._began, 1)}
            state["pass"], counters = activity.pop("pass_name"), activity.pop("counters")
            silent = round(now - activity.pop("answered_at"), 1)
            log_files.write_state(
                self._run.logs, session.worker, {**state, **activity, "silent": silent, **counters}
            )
            if self._lead.take():
                self._lead.duties()
            if self._progress is not None:
                self._seen = (self._lead.status if self._lead.lease else self._read_status()) or self._seen
        except (StoreError, OSError) as problem:
            self._transient_errors.failed(problem)
            self._log("report-failed", problem=str(problem))
            return False
        self._transient_errors.ok()
        return True

    def _read_status(self) -> Status | None:
        """The status that the coordinator has written; None if the file is missing or of another form."""
        try:
            status: Status = canonical.loads(atomic.read_if_there(self._run.status_file) or b"")
            _words(status)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return None
        return status


def _words(status: Status) -> tuple[int, int, str]:
    """The number of finished items, the number of all items, and the text of the progress line."""
    items, shards = status["items"], status["shards"]
    words = [f"shards {shards['done']:,} of {shards['total']:,}", pass_totals.acceptance_words(status)]
    if status["workers"]["alive"] > 1:
        words.append(f"{status['workers']['alive']} workers")
    return min(items["ended"], items["total"]), items["total"], " · ".join(filter(None, words))
