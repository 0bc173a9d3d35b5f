"""A thread that keeps a worker's leases alive while its main thread starts an engine or writes a result.

It ends with the process: a suspended or killed worker has no heartbeat, and other workers take its shards. If a lease
was taken over, or another worker finished the shard, the thread logs that and stops renewing it. A passing error of
the file system is followed by a new try soon; `check` raises any other error in the main thread.
"""

import threading
from collections.abc import Callable

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.lease import Lease

Log = Callable[..., None]
# Share of the heartbeat period until the next try after a failed heartbeat, so that many tries precede the expiry.
SOON = 0.2


class Heartbeat:
    """Thread that renews the leases given to `keep` several times per expiry, and records the lost leases."""

    def __init__(self, expiry: float, log: Log) -> None:
        self._period = expiry / 4
        self._log = log
        self._leases: dict[str, tuple[Lease, Callable[[], bool]]] = {}
        self._lost: dict[str, str] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; leases that were not released expire."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._period + 5)

    def check(self) -> None:
        """Raise the exception that ended the thread, if any."""
        if self._trouble is not None:
            raise self._trouble

    def keep(self, lease: Lease, needless: Callable[[], bool] = lambda: False) -> None:
        """Renew `lease` until `forget`, or until `needless()` returns that another worker did the work."""
        with self._lock:
            self._leases[lease.nonce] = (lease, needless)

    def forget(self, lease: Lease) -> None:
        with self._lock:
            self._leases.pop(lease.nonce, None)
            self._lost.pop(lease.nonce, None)

    def lost(self, lease: Lease) -> str:
        """The reason why the work under this lease should be dropped; empty while this worker holds it."""
        return self._lost.get(lease.nonce, "")

    def any_lost(self) -> bool:
        """Whether any lease was lost; fast, for a call in each round of the loop."""
        return bool(self._lost)

    def _beat(self) -> None:
        try:
            answered = True
            while not self._ended.wait(self._period if answered else self._period * SOON):
                with self._lock:
                    leases = list(self._leases.values())
                answers = [self._renew(lease, needless) for lease, needless in leases]
                answered = all(answers)
        except BaseException as problem:  # noqa: BLE001  raised by `check` in the main thread
            self._trouble = problem

    def _renew(self, lease: Lease, needless: Callable[[], bool]) -> bool:
        """Renew one lease; return whether the file system answered.

        Without an answer this worker keeps the shard until another worker takes it over.
        """
        try:
            loss = "" if lease.renew() else "taken over"
            if not loss and needless():
                loss = "done by another worker"
        except (StoreError, OSError) as problem:
            self._log("heartbeat-failed", shard=lease.name, problem=str(problem))
            return False
        with self._lock:
            if loss and self._leases.pop(lease.nonce, None) is not None:
                self._lost[lease.nonce] = loss
        return True
