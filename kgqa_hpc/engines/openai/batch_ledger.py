"""The ledger of a run's batches: the requests of each batch, so that none is paid for twice.

A batch is recorded before it is sent, with a name that the server stores, and again with the id that the server gives
it. After a kill, the next process finds the batch by id or by name. Each engine process appends to a journal
of its own (docs/reference/format.md, section 7) and holds a lock on it while it lives; it reads the journals of all.
"""

import fcntl
import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from kgqa_hpc.engines.engine import Request
from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import make_folder
from kgqa_hpc.store.journal import Journal, journals_of, open_next, read_on

JOURNALS = "batches"
_HEADER = {"of": "batches"}
# States of a batch: sending (the server may have it), lost (it does not), sent (it does), ended (no more answers).
State = Literal["sending", "lost", "sent", "ended"]
_ORDER: dict[State, int] = {"sending": 0, "lost": 1, "sent": 2, "ended": 3}


class Batch(NamedTuple):
    """One batch. `keys` are its requests in order; `unanswered` those without an answer at its end."""

    id: str  # the name that the server stores
    keys: tuple[str, ...]
    state: State
    began: float  # seconds since 1970
    server_id: str = ""
    unanswered: tuple[str, ...] = ()


class Ledger:
    """The batches of a run. `model` identifies the settings, besides the request, on which an answer depends."""

    def __init__(self, folder: Path, model: str) -> None:
        make_folder(folder)
        self._folder = folder
        self._model = model.encode()
        self._journal: Journal | None = None
        self._lock = -1
        self.batches: dict[str, Batch] = {}
        self._writer: dict[str, Path] = {}  # by id of a batch: the journal of the process that sends it
        self._unanswered: dict[str, frozenset[str]] = {}  # by id of a batch, as in `Batch`
        self._of_key: dict[str, str] = {}
        self._read_to: dict[Path, int] = {}
        self.read()

    def key(self, request: Request) -> str:
        """A permanent name of a request, equal in all processes; a repeated attempt has another name."""
        return hashlib.sha256(self._model + canonical.dumps(list(request))).hexdigest()[:32]

    def read(self) -> None:
        """Read the records that other processes have written."""
        for path in journals_of(self._folder, JOURNALS):
            if self._journal is None or path != self._journal.path:
                records, self._read_to[path] = read_on(path, self._read_to.get(path, 0), _HEADER)
                for record in records:
                    keys, unanswered = tuple(record["keys"]), tuple(record["unanswered"])
                    self._take(Batch(**record | {"keys": keys, "unanswered": unanswered}), path)

    def batch_of(self, key: str) -> Batch | None:
        """The batch that has answered this request, or will; None if the request is still to be sent."""
        batch = self.batches.get(self._of_key.get(key, ""))
        if batch is None or batch.state == "lost" or key in self._unanswered[batch.id]:
            return None
        return batch

    def sendings(self) -> Counter[str]:
        """Number of batches in which each request was sent."""
        sent = (batch.keys for batch in self.batches.values() if batch.state != "lost")
        return Counter(chain.from_iterable(sent))

    def begin(self, name: str, keys: Iterable[str]) -> Batch:
        """Record that a batch is about to be sent. Raises DiskFull, StoreError."""
        return self._write(Batch(name, tuple(keys), "sending", time.time()))

    def sent(self, batch: Batch, server_id: str) -> Batch:
        return self._write(batch._replace(state="sent", server_id=server_id))

    def lost(self, batch: Batch) -> Batch:
        return self._write(batch._replace(state="lost"))

    def ended(self, batch: Batch, unanswered: Iterable[str]) -> Batch:
        return self._write(batch._replace(state="ended", unanswered=tuple(unanswered)))

    def is_being_sent(self, batch: Batch) -> bool:
        """Whether the process that began to send the batch is alive, by its lock on the journal."""
        path = self._writer[batch.id]
        if self._journal is not None and path == self._journal.path:
            return False
        with open(path, "rb") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        return True

    def close(self) -> None:
        """Close the journal. Idempotent."""
        if self._journal is not None:
            self._journal.close()
            os.close(self._lock)
            self._journal = None

    def _write(self, batch: Batch) -> Batch:
        if self._journal is None:
            self._journal, _ = open_next(self._folder, JOURNALS, _HEADER)
            self._lock = os.open(self._journal.path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._journal.append(batch._asdict())
        self._journal.sync()
        self._take(batch, self._journal.path)
        return batch

    def _take(self, batch: Batch, path: Path) -> None:
        earlier = self.batches.get(batch.id)
        if earlier is not None and _ORDER[earlier.state] > _ORDER[batch.state]:
            return
        self.batches[batch.id] = batch
        self._unanswered[batch.id] = frozenset(batch.unanswered)
        self._writer.setdefault(batch.id, path)
        for key in batch.keys:
            current = self.batches.get(self._of_key.get(key, ""))
            if current is None or current.began <= batch.began:
                self._of_key[key] = batch.id
