"""The coordinator: the process that cuts shards, cleans up, removes expired leases, and writes the status.

The role is a lease like any other, so a coordinator that dies is replaced. Rank 0 claims it at once, the other ranks
when it is free. The work may be done late, or by two processes at once, without harm: workers wait only for the
partition.
"""

import os
import time
from collections.abc import Sequence

from kgqa_hpc.cluster import slurm
from kgqa_hpc.errors import CorruptFile, MissingFile, StoppedEarly
from kgqa_hpc.status.log_files import note_progress, read_states, sweep_states
from kgqa_hpc.status.render import metrics
from kgqa_hpc.status.snapshot import Status, compose, load_totals, to_document
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.cleanup import quarantine
from kgqa_hpc.store.lease import Lease, Leases, holders
from kgqa_hpc.store.partition import ShardsManifest, partition
from kgqa_hpc.store.queue import done_shards, sweep
from kgqa_hpc.store.results import verify_result
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.work.session import Session

ROLE = ".lead"  # no pass can be named so
NOTE_EVERY = 60.0  # s between two notes in the history
SWEEP_EVERY = 3600.0  # s


class Coordinator:
    """The coordinator's role: its lease and its work. After `take`, only one thread may use it."""

    def __init__(self, session: Session) -> None:
        self.status: Status | None = None
        self._session, self._run, self._log = session, session.run, session.log.write
        worker, expiry = session.worker, session.config.runtime.lease
        self._passes = [entry.name for entry in session.config.passes]
        self._roles = Leases(self._run.leases(ROLE), worker, expiry)
        self._leases = [Leases(self._run.leases(name), worker, expiry) for name in self._passes]
        self._lease: Lease | None = None
        self._shards: ShardsManifest | None = None
        self._noted = self._swept = -SWEEP_EVERY
        self._verified: set[str] = set()

    @property
    def leading(self) -> bool:
        return self._lease is not None

    def take(self) -> bool:
        """Acquire or renew the role's lease; returns whether this process holds it now. Raises DiskFull, StoreError."""
        if self._lease is not None and self._session.heartbeat.lost(self._lease):
            self._session.heartbeat.forget(self._lease)
            self._lease = None
        if self._lease is None:
            self._lease = self._roles.claim("lead")
            if self._lease is not None:
                self._session.heartbeat.keep(self._lease)
                self._log("leads")
        return self._lease is not None

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
                swept = sweep(self._run, name)
                if any(swept):
                    self._log("swept", **swept._asdict(), **{"pass": name})
            sweep_states(self._run.logs)
        if not last:
            self._reclaim()
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
                    raise StoppedEarly("stopped early while checking results", "run the same command again")
                try:
                    verify_result(path, origin)
                    self._verified.add(str(path))
                except MissingFile:  # another process has just moved it to quarantine
                    continue
                except CorruptFile as problem:
                    quarantine(self._run.quarantine, path, problem.message)
                    self._log("result-corrupt", file=str(path), reason=problem.message)
        return sum(len(set(shards) - done_shards(self._run, name)) for name in self._passes)

    def resign(self) -> None:
        """Release the role's lease. Raises StoreError."""
        if self._lease is not None:
            self._session.heartbeat.forget(self._lease)
            self._lease.release()
            self._lease = None
        for leases in (self._roles, *self._leases):
            leases.close()

    def _reclaim(self) -> None:
        """Remove expired leases, so that the next worker that looks finds the shard free at once."""
        for name, leases in zip(self._passes, self._leases, strict=True):
            for holder in holders(leases.folder, leases.now()):
                if leases.expired(holder) and (lease := leases.claim(holder.name)) is not None:
                    lease.release()
                    self._log("reclaimed", shard=holder.name, of=holder.worker, **{"pass": name})

    def _publish(self, shards: ShardsManifest, *, note: bool) -> None:
        states, queue = list(read_states(self._run.logs)), slurm.queue_state(self._run.logs)
        self.status = compose(self._run, shards, self._totals, states, queue)
        if note:
            self._noted = time.monotonic()
            note_progress(self._run.logs, self.status["work"]["ended"])
        document = to_document(self._run, self.status, self._totals, shards.names)
        write_file(self._run.status_file, document, durable=False)
        make_folder(self._run.logs)
        write_file(self._run.logs / "metrics.prom", metrics(self.status).encode(), durable=False)


def record_own_job(run: RunFolder) -> None:
    """Record the Slurm job of this process, if there is one; only rank 0 does, once per job."""
    job = slurm.own_job(os.environ)
    if job is not None and job not in slurm.recorded_jobs(run.logs):
        slurm.record_job(run.logs, job, "run")
