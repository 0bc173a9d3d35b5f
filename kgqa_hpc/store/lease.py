"""Leases: the right of one worker to one shard, kept by a heartbeat on the shared file system.

A lease is a small file that is created atomically (by a link to a private temp file), so exactly one of any number of
claimants gets it. Its modification time is the heartbeat. A lease without a heartbeat for `expiry` seconds may be taken
over: the old file is renamed away and checked once more, and a new lease is claimed. No file is locked: a process that
dies at any point leaves at most a lease that expires or a temp file that is swept.

A lease saves work; correct data do not depend on it: if two workers hold one shard (one was suspended and woke up,
or a clock is wrong), both finish it and the first committed result wins. docs/reference/format.md, section 8,
describes how wrong clocks and caches are tolerated.

`Heartbeat` is a thread that keeps a worker's leases alive while its main thread starts an engine or writes a result.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store import atomic, canonical
from kgqa_hpc.store.cleanup import Clock, machine
from kgqa_hpc.text.streams import read_bytes

SUFFIX = ".lease"
SPECULATIVE = ".spec"
# A lease of another machine is watched for this share of the expiry before it is taken over, whatever its age:
# where clients set times (Lustre), the owner's clock may be wrong. An owner sends four heartbeats per expiry.
WATCHED = 0.4


class Holder(NamedTuple):
    """The content of a lease file.

    `beat` is its inode and modification time (ns). `age`: seconds since the last heartbeat; `held`: since the claim.
    """

    name: str
    worker: str
    machine: str
    nonce: str
    age: float
    held: float
    beat: tuple[int, int]


class _Watch(NamedTuple):
    """Observation of a lease's heartbeat by this process: time of its last change, and whether a change was seen."""

    beat: tuple[int, int]
    since: float
    saw_it_change: bool


@dataclass
class Lease:
    """A claimed lease. Call `renew` several times per expiry, from any thread."""

    leases: Leases
    name: str
    nonce: str

    @property
    def shard(self) -> str:
        """The shard's name, which a speculative lease has with a suffix."""
        return self.name.removesuffix(SPECULATIVE)

    def renew(self) -> bool:
        """Send a heartbeat; False if another worker has taken over the shard. Raises StoreError."""
        path = self.leases.path(self.name)
        with atomic.disk_errors(path):
            try:
                fd = atomic.open_regular(path)
            # ESTALE is not treated as a lost lease: the file may still exist.
            except (FileNotFoundError, NotADirectoryError):
                return False
            try:
                is_own = _content(os.read(fd, 4096)).get("nonce") == self.nonce
                if is_own:  # touch the open file, because the name may already belong to a new lease
                    atomic.touch(fd)
                return is_own
            finally:
                os.close(fd)

    def release(self) -> None:
        """Release the shard if this worker still holds it. Idempotent. Raises StoreError."""
        self.leases.held.discard(self.nonce)
        self.leases.remove(self.name, lambda status, data: _content(data).get("nonce") == self.nonce)


class Leases:
    """All leases of one pass, as one worker process sees them. Safe to use from several threads.

    Close the `clock` at the end; leases are released one by one.
    """

    def __init__(self, folder: Path, worker: str, expiry: float) -> None:
        self.folder = folder
        self.worker = worker
        self.expiry = expiry
        self.clock = Clock(folder)
        self._watched: dict[str, _Watch] = {}
        self.held: set[str] = set()  # nonces of the leases that this process has claimed and not released

    def claim(self, name: str) -> Lease | None:
        """Claim the lease of `name`; None while another worker holds it. Raises DiskFull, StoreError."""
        holder = self.holder(name)
        if holder is not None:
            beat = holder.beat
            if not self.expired(holder) or not self.remove(name, lambda status, data: _beat(status) == beat):
                return None
        nonce = secrets.token_hex(8)
        content = {
            "format": "kgqa-lease",
            "version": 1,
            "worker": self.worker,
            "host": socket.gethostname(),
            "machine": machine(),
            "pid": os.getpid(),
            "nonce": nonce,
            "claimed": self.clock.now(),
        }
        path = self.path(name)
        atomic.make_folder(path.parent)
        if atomic.write_file(path, canonical.canonical(content) + b"\n", exclusive=True, durable=False):
            self.held.add(nonce)
            return Lease(self, name, nonce)
        return None

    def holder(self, name: str) -> Holder | None:
        """The holder of the lease `name`; None without a lease. The holder of a damaged lease has an empty nonce."""
        path = self.path(name)
        with atomic.disk_errors(path):
            try:  # opening, unlike stat, makes NFS ask its server
                with open(atomic.open_regular(path), "rb", buffering=0) as file:
                    status, content = os.fstat(file.fileno()), _content(file.read(4096))
            except OSError as problem:
                if problem.errno in atomic.GONE:
                    return None
                raise
        present = self.clock.now()
        return Holder(
            name=name,
            worker=content.get("worker", ""),
            machine=str(content.get("machine", "")),
            nonce=content.get("nonce", ""),
            age=present - status.st_mtime,
            held=present - content.get("claimed", status.st_mtime),
            beat=_beat(status),
        )

    def holders(self) -> list[Holder]:
        """The holders of all leases, by name."""
        names = sorted(path.name for path in self.folder.glob(f"[0-9a-f][0-9a-f]/[!.]*{SUFFIX}"))
        present = (self.holder(name.removesuffix(SUFFIX)) for name in names)
        return [holder for holder in present if holder is not None]

    def expired(self, holder: Holder) -> bool:
        """Whether the lease may be taken over: its age by the file system's clock is above `expiry`.

        It is kept, whatever its age, for `expiry` after a heartbeat that this process observed, and for a share of it
        after the first look at a lease of another machine. It is expired in any case after twice the `expiry` without
        an observed heartbeat. Wrong clocks delay a takeover but never corrupt data.
        """
        return self.patience(holder) <= 0

    def patience(self, holder: Holder) -> float:
        """Seconds until the lease may be taken over, if no heartbeat is seen until then."""
        if not holder.nonce:
            return 0.0
        watch = self._watched.get(holder.name)
        if watch is None or watch.beat != holder.beat:
            # A modification time earlier than the last one is not a heartbeat.
            alive = watch is not None and (watch.beat[0] != holder.beat[0] or watch.beat[1] < holder.beat[1])
            watch = self._watched[holder.name] = _Watch(holder.beat, time.monotonic(), alive)
        unchanged = time.monotonic() - watch.since
        if watch.saw_it_change:
            watched = self.expiry
        elif holder.machine != machine() or not machine():
            watched = WATCHED * self.expiry
        else:
            watched = 0.0
        sooner = max(self.expiry - holder.age, watched - unchanged)
        return min(sooner, 2 * self.expiry - unchanged)

    def beats(self, holder: Holder) -> bool:
        """Whether this process has observed a heartbeat of the lease."""
        watch = self._watched.get(holder.name)
        return watch is not None and watch.saw_it_change

    def path(self, name: str) -> Path:
        """Path of the lease of `name`: leases are spread over 256 folders, so that no folder grows long."""
        return self.folder / hashlib.blake2b(name.encode(), digest_size=1).hexdigest() / f"{name}{SUFFIX}"

    def remove(self, name: str, is_meant: Callable[[os.stat_result, bytes], bool]) -> bool:
        """Remove the lease if `is_meant` accepts its stat result and content.

        It is renamed away before the check, so that nobody changes it meanwhile. A lease that another worker claimed or
        renewed is renamed back; then the result is False.
        """
        path = self.path(name)
        tombstone = path.with_name(f".{path.name}.{secrets.token_hex(6)}{atomic.TEMP_SUFFIX}")
        with atomic.disk_errors(path):
            try:
                atomic.rename(path, tombstone)
            except OSError as problem:
                if problem.errno in atomic.GONE:
                    return False
                raise
            meant = is_meant(os.stat(tombstone), read_bytes(tombstone))
            if not meant:
                atomic.link_new(tombstone, path)
            with suppress(FileNotFoundError):
                atomic.unlink(tombstone)
        return meant


def _beat(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns


def _content(data: bytes) -> dict[str, Any]:
    """The parsed members of a lease, with checked types; empty if the data are invalid."""
    kinds = {"worker": str, "host": str, "pid": int, "nonce": str, "claimed": float}
    try:
        content = canonical.loads(data)
    except ValueError:
        return {}
    valid = isinstance(content, dict) and all(type(content.get(key)) is kind for key, kind in kinds.items())
    return content if valid else {}


# Share of the heartbeat period until the next try after a failed heartbeat, so that many tries precede the expiry.
SOON = 0.2


class Heartbeat(threading.Thread):
    """Thread that renews the leases given to `keep` several times per expiry, and records the lost leases.

    It ends with the process: a suspended or killed worker has no heartbeat, and other workers take its shards. If a
    lease was taken over, or another worker finished the shard, the thread stops renewing it. A passing error of the
    file system is logged and followed by a new try soon; `check` raises any other error in the main thread.
    """

    def __init__(self, expiry: float, log: Callable[..., None] = lambda *_, **__: None) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._period = expiry / 4
        self._log = log
        self._leases: dict[str, tuple[Lease, Callable[[], bool]]] = {}
        self._lost: dict[str, str] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._trouble: BaseException | None = None

    def stop(self) -> None:
        """End the thread; leases that were not released expire."""
        self._ended.set()
        if self.is_alive():
            self.join(timeout=self._period + 5)

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

    def run(self) -> None:
        try:
            answered = True
            while not self._ended.wait(self._period if answered else self._period * SOON):
                answered = True
                with self._lock:
                    renewals = list(self._leases.values())
                for lease, needless in renewals:
                    try:
                        loss = "" if lease.renew() else "taken over"
                        if not loss and needless():
                            loss = "done by another worker"
                    except (StoreError, OSError) as problem:
                        # Without an answer this worker keeps the shard until another worker takes it over.
                        self._log("heartbeat-failed", shard=lease.name, problem=str(problem))
                        answered = False
                        continue
                    with self._lock:
                        if loss and self._leases.pop(lease.nonce, None) is not None:
                            self._lost[lease.nonce] = loss
        except BaseException as problem:  # noqa: BLE001  raised by `check` in the main thread
            self._trouble = problem
