"""A thread that keeps a worker's leases alive while its main thread starts an engine or writes a result.

It lives and dies with the process: a suspended or killed worker has no heartbeat, and its shards go to
others. When it finds that a lease was taken over, or that somebody else finished the shard, it says so and
lets go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.lease import Lease

Log = Callable[..., None]


class Heartbeat:
    """Renews every lease it was given a few times per expiry. `lost` collects the names of those that
    are gone.
    """

    def __init__(self, expiry: float, log: Log) -> None:
        self._period = expiry / 4
        self._log = log
        self._leases: dict[str, tuple[Lease, Callable[[], bool]]] = {}
        self._lost: dict[str, str] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; leases that were not released expire."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._period + 5)

    def keep(self, lease: Lease, needless: Callable[[], bool] = lambda: False) -> None:
        """Keep `lease` until `forget`, or until `needless()` says that somebody else did the work."""
        with self._lock:
            self._leases[lease.nonce] = (lease, needless)

    def forget(self, lease: Lease) -> None:
        with self._lock:
            self._leases.pop(lease.nonce, None)
            self._lost.pop(lease.nonce, None)

    def lost(self, lease: Lease) -> str:
        """Why the work under this lease should be dropped; empty while it is ours."""
        return self._lost.get(lease.nonce, "")

    def any_lost(self) -> bool:
        """Quick to ask every round."""
        return bool(self._lost)

    def _beat(self) -> None:
        while not self._ended.wait(self._period):
            with self._lock:
                leases = list(self._leases.values())
            for lease, needless in leases:
                self._renew(lease, needless)

    def _renew(self, lease: Lease, needless: Callable[[], bool]) -> None:
        try:
            if not lease.renew():
                self._lose(lease, "taken over")
            elif needless():
                self._lose(lease, "done by another worker")
        except StoreError as problem:
            # A file system that hiccups: the next beat tries again, and until another worker takes the shard
            # over nothing is lost but patience.
            self._log("heartbeat-failed", shard=lease.name, problem=problem.message)

    def _lose(self, lease: Lease, why: str) -> None:
        with self._lock:
            if self._leases.pop(lease.nonce, None):
                self._lost[lease.nonce] = why
