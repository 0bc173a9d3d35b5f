"""Leases: the right of one worker to one shard, kept by a heartbeat on the shared file system.

A lease is a small file that is created atomically (by a link to a private temp file), so exactly one of any
number of claimants gets it. Its modification time is the heartbeat. A lease without a
heartbeat for `expiry` seconds may be taken over: the old file is renamed away and checked once more, and a
new lease is claimed. No file is locked: a process that dies at any point leaves at most a lease that expires
or a temp file that is swept.

A lease saves work; correct data do not depend on it: if two workers hold one shard (one was suspended and woke up,
or a clock is wrong), both finish it and the first committed result wins. docs/reference/format.md, section 8,
describes how wrong clocks and caches are tolerated.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgqa_hpc.store import atomic, canonical, disk
from kgqa_hpc.store.cleanup import Clock, machine
from kgqa_hpc.store.regular import GONE, open_regular
from kgqa_hpc.text.opener import read_bytes

SUFFIX = ".lease"
SPECULATIVE = ".spec"
# A lease of another machine is watched for this share of the expiry before it is taken over, whatever its age:
# where clients set times (Lustre), the owner's clock may be wrong. An owner sends four heartbeats per expiry.
WATCHED = 0.4


@dataclass(frozen=True, slots=True)
class Holder:
    """The content of a lease file. `age`: seconds since the last heartbeat; `held`: seconds since the claim."""

    name: str
    worker: str
    host: str
    machine: str
    pid: int
    nonce: str
    age: float
    held: float
    inode: int
    modified: int


@dataclass(frozen=True, slots=True)
class _Watch:
    """Observation of a lease's heartbeat by this process: the time of its last change, and whether a change
    was seen.
    """

    beat: tuple[int, int]
    since: float
    saw_it_change: bool


_Test = Callable[[os.stat_result, bytes], bool]


class Lease:
    """A claimed lease. Call `renew` every third of the expiry or so, from any thread."""

    def __init__(self, leases: Leases, name: str, nonce: str) -> None:
        self.name = name
        self.nonce = nonce
        self._leases = leases

    @property
    def shard(self) -> str:
        """The shard's name, without the suffix of a speculative lease."""
        return self.name.removesuffix(SPECULATIVE)

    @property
    def speculative(self) -> bool:
        return self.name.endswith(SPECULATIVE)

    def renew(self) -> bool:
        """Send a heartbeat; False if another worker has taken over the shard. Raises StoreError."""
        return self._leases.renew(self)

    def release(self) -> None:
        """Release the shard if this worker still holds it. Idempotent. Raises StoreError."""
        self._leases.release(self)


class Leases:
    """All leases of one pass, as one worker process sees them. Safe to use from several threads."""

    def __init__(self, folder: Path, worker: str, expiry: float) -> None:
        self.folder = folder
        self.worker = worker
        self.expiry = expiry
        self._clock = Clock(folder)
        self._watched: dict[str, _Watch] = {}
        self.held: set[str] = set()  # nonces of leases claimed here and not released

    def claim(self, name: str) -> Lease | None:
        """Claim the lease of `name`; None while another worker holds it. Raises DiskFull, StoreError."""
        holder = self.holder(name)
        if holder is not None and not (self.expired(holder) and self._depose(holder)):
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
            "claimed": self.now(),
        }
        path = self.path(name)
        atomic.make_folder(path.parent)
        if atomic.write_file(path, canonical.canonical(content) + b"\n", exclusive=True, durable=False):
            self.held.add(nonce)
            return Lease(self, name, nonce)
        return None

    def holder(self, name: str) -> Holder | None:
        """The holder of the lease `name`, or None if there is no lease. The holder of a damaged lease has an
        empty nonce.
        """
        entry = _read(self.path(name))
        return None if entry is None else _holder(name, *entry, self.now())

    def expired(self, holder: Holder) -> bool:
        """Whether the lease may be taken over.

        The age is measured by the file system's clock. A lease is kept for `expiry` after a heartbeat that
        this process observed, and on the first look at a lease of another machine; it is expired in any case
        after twice the `expiry` without an observed heartbeat. Wrong clocks delay a takeover but never
        corrupt data.
        """
        return self.patience(holder) <= 0

    def patience(self, holder: Holder) -> float:
        """Seconds until the lease may be taken over, if no heartbeat is seen until then."""
        if not holder.nonce:
            return 0.0
        watch = self._watch(holder)
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

    def renew(self, lease: Lease) -> bool:
        """Send a heartbeat for a lease; False if another worker has taken over the shard. Raises StoreError."""
        path = self.path(lease.name)
        with atomic.disk_errors(path):
            try:
                fd = open_regular(path)
            # ESTALE is not treated as a lost lease: the file may still exist.
            except (FileNotFoundError, NotADirectoryError):
                return False
            try:
                if _nonce(os.read(fd, 4096)) != lease.nonce:
                    return False
                # The descriptor is used, not the name, so that no heartbeat goes to a new lease of the same name.
                disk.touch(fd)
            finally:
                os.close(fd)
        return True

    def release(self, lease: Lease) -> None:
        """Release a lease if this worker still holds it. Raises StoreError."""
        self.held.discard(lease.nonce)
        self._remove(lease.name, lambda status, data: _nonce(data) == lease.nonce)

    def now(self) -> float:
        """The time of the file system's clock."""
        return self._clock.now()

    def close(self) -> None:
        """Remove this process's clock file. Leases are released one by one."""
        self._clock.close()

    def path(self, name: str) -> Path:
        """Path of the lease of `name`: leases are spread over 256 folders, so that no folder grows long."""
        return self.folder / hashlib.blake2b(name.encode(), digest_size=1).hexdigest() / f"{name}{SUFFIX}"

    def _watch(self, holder: Holder) -> _Watch:
        beat = (holder.inode, holder.modified)
        watch = self._watched.get(holder.name)
        if watch is None or watch.beat != beat:
            # A modification time earlier than the last one is not a heartbeat.
            alive = watch is not None and (watch.beat[0] != beat[0] or watch.beat[1] < beat[1])
            watch = self._watched[holder.name] = _Watch(beat, time.monotonic(), alive)
        return watch

    def _depose(self, holder: Holder) -> bool:
        """Remove an expired lease; False if it was replaced or renewed meanwhile."""
        beat = (holder.inode, holder.modified)
        return self._remove(holder.name, lambda status, data: (status.st_ino, status.st_mtime_ns) == beat)

    def _remove(self, name: str, is_meant: _Test) -> bool:
        """Rename the lease away, check that it is the expected one, and otherwise rename it back."""
        path = self.path(name)
        tombstone = path.with_name(f".{path.name}.{secrets.token_hex(6)}{atomic.TEMP_SUFFIX}")
        with atomic.disk_errors(path):
            try:
                disk.rename(path, tombstone)
            except OSError as problem:
                if problem.errno in GONE:
                    return False
                raise
            meant = is_meant(os.stat(tombstone), read_bytes(tombstone))
            if not meant:
                atomic.link_new(tombstone, path)
            with suppress(FileNotFoundError):
                disk.unlink(tombstone)
        return meant


def holders(folder: Path, now: float) -> Iterator[Holder]:
    """The holders of all leases in a pass's lease folder. Ages are relative to `now`."""
    entries: list[tuple[str, os.stat_result, bytes]] = []
    for path in sorted(folder.glob(f"[0-9a-f][0-9a-f]/*{SUFFIX}")):
        content = None if path.name.startswith(".") else _read(path)
        if content is not None:
            entries.append((path.name.removesuffix(SUFFIX), *content))
    for name, status, data in entries:
        yield _holder(name, status, data, now)


def _read(path: Path) -> tuple[os.stat_result, bytes] | None:
    """Stat result and content of a lease; None if it does not exist. Opening, unlike stat, makes NFS ask its
    server.
    """
    with atomic.disk_errors(path):
        try:
            with open(open_regular(path), "rb", buffering=0) as file:
                return os.fstat(file.fileno()), file.read(4096)
        except OSError as problem:
            if problem.errno in GONE:
                return None
            raise


def _holder(name: str, status: os.stat_result, data: bytes, now: float) -> Holder:
    content = _content(data)
    return Holder(
        name=name,
        worker=content.get("worker", ""),
        host=content.get("host", ""),
        machine=str(content.get("machine", "")),
        pid=content.get("pid", 0),
        nonce=content.get("nonce", ""),
        age=now - status.st_mtime,
        held=now - content.get("claimed", status.st_mtime),
        inode=status.st_ino,
        modified=status.st_mtime_ns,
    )


def _content(data: bytes) -> dict[str, Any]:
    """The parsed members of a lease, with checked types; empty if the data are invalid."""
    try:
        content = canonical.loads(data)
    except ValueError:
        return {}
    kinds = {"worker": str, "host": str, "pid": int, "nonce": str, "claimed": float}
    if not isinstance(content, dict) or not all(
        type(content.get(key)) is kind for key, kind in kinds.items()
    ):
        return {}
    return content


def _nonce(data: bytes) -> str:
    nonce: str = _content(data).get("nonce", "")
    return nonce
