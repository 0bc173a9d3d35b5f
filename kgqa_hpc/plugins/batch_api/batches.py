"""The batches of a run: their ledger, and the services that answer them.

A batch is recorded before it is sent, with a name that the server stores, and again with the id that the server gives
it, so that none is paid for twice: after a kill, the next process finds the batch by id or by name. Each engine process
appends to a journal of its own (docs/reference/format.md, section 7) and holds a lock on it while it lives; it reads
the journals of all.

The services are OpenAI's Batch API, and a program on this machine (`vllm run-batch`). The API takes the upload of a
file, the creation of a batch and the download of the answers. The program answers one batch at a time, under the
supervisor of the openai engine's servers: it ends with this process. A batch whose program was killed is run again
from its input. The methods of both services raise Trouble.
"""

import fcntl
import hashlib
import io
import os
import secrets
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from kgqa_hpc.engines.engine import SEE_LOG, Request
from kgqa_hpc.engines.openai.chat_api import ChatApi
from kgqa_hpc.engines.openai.own_server import supervised
from kgqa_hpc.engines.openai.replies import Trouble, dict_of, error_code, read_body, read_error
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import make_folder
from kgqa_hpc.store.journal import Journal, journals_of, open_next, read_on

JOURNALS = "batches"
_HEADER = {"of": "batches"}
# States of a batch: sending (the server may have it), lost (it does not), sent (it does), ended (no more answers).
State = Literal["sending", "lost", "sent", "ended"]
_ORDER: dict[State, int] = {"sending": 0, "lost": 1, "sent": 2, "ended": 3}
TIMEOUT_S = 300.0  # limit of a request, and of each read of a download
TRANSFER_S = 3600.0  # limit of a whole upload or download: files have up to 200 MB
LARGEST_FILE = 1 << 30
LARGEST_LINE = 16 << 20
PAID_AGAIN = "if the file is lost, delete RUN/batches: its requests are sent and paid for again"
MARK = "kgqa"  # key of a batch's metadata that holds the ledger's name
_ENDED = {"completed", "failed", "expired", "cancelled"}
CLOSE_S = 30.0  # limit for a program to end


class Batch(NamedTuple):
    """One batch. `keys` are its requests in order; `unanswered` those without an answer at its end."""

    id: str  # the name that the server stores
    keys: tuple[str, ...]
    state: State
    began: float  # seconds since 1970
    server_id: str = ""
    unanswered: frozenset[str] = frozenset()


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
                    keys, unanswered = tuple(record["keys"]), frozenset(record["unanswered"])
                    self._take(Batch(**record | {"keys": keys, "unanswered": unanswered}), path)

    def batch_of(self, key: str) -> Batch | None:
        """The batch that has answered this request, or will; None if the request is still to be sent."""
        batch = self.batches.get(self._of_key.get(key, ""))
        return None if batch is None or batch.state == "lost" or key in batch.unanswered else batch

    def sendings(self) -> Counter[str]:
        """Number of batches in which each request was sent."""
        sent = (batch.keys for batch in self.batches.values() if batch.state != "lost")
        return Counter(chain.from_iterable(sent))

    def record(self, batch: Batch) -> Batch:
        """Write a batch: before it is sent, and whenever its state changes. Raises DiskFull, StoreError."""
        if self._journal is None:
            self._journal, _ = open_next(self._folder, JOURNALS, _HEADER)
            self._lock = os.open(self._journal.path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        unanswered = [key for key in batch.keys if key in batch.unanswered]
        self._journal.append(batch._asdict() | {"unanswered": unanswered})
        self._journal.sync()
        self._take(batch, self._journal.path)
        return batch

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

    def _take(self, batch: Batch, path: Path) -> None:
        earlier = self.batches.get(batch.id)
        if earlier is not None and _ORDER[earlier.state] > _ORDER[batch.state]:
            return
        self.batches[batch.id] = batch
        self._writer.setdefault(batch.id, path)
        for key in batch.keys:
            current = self.batches.get(self._of_key.get(key, ""))
            if current is None or current.began <= batch.began:
                self._of_key[key] = batch.id


class Look(NamedTuple):
    """State of a batch at the server: whether it has ended, its files of answers, and the reason of a refusal."""

    ended: bool
    files: tuple[str, ...] = ()
    refused: str = ""
    crowded: bool = False  # refused because the account's queue is full


class BatchServer:
    """OpenAI's Batch API, over HTTP."""

    def __init__(self, api: ChatApi) -> None:
        self._api = api

    def upload(self, data: bytes) -> str:
        """Upload the requests, without cost; returns the file's id."""
        import aiohttp

        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", io.BytesIO(data), filename="kgqa.jsonl", content_type="application/jsonl")
        return self._id(self._api.run(self._api.json("POST", "files", TRANSFER_S, data=form)), "file")

    def create(self, file: str, name: str) -> str:
        """Create a batch from a file; returns its id."""
        body = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {MARK: name},
        }
        return self._id(self._api.run(self._api.json("POST", "batches", TIMEOUT_S, json=body)), "batch")

    def find(self, name: str, began: float) -> str | None:
        """The id of the batch with this name, created since `began`; None if there is none."""
        query = {"limit": "100"}
        while True:
            reply = self._api.run(self._api.json("GET", "batches", TIMEOUT_S, params=query))
            if not isinstance(listed := dict_of(reply).get("data"), list):
                raise Trouble(f"{self._api.url}: its list of batches has no data", again=True)
            batches = [entry for entry in listed if isinstance(entry, dict)]
            for entry in batches:
                if dict_of(entry.get("metadata")).get(MARK) == name:
                    return self._id(entry, "batch")
            # The list has the newest batches first. The two clocks are assumed to differ by less than an hour.
            times = [entry["created_at"] for entry in batches if isinstance(entry.get("created_at"), int)]
            if not batches or not reply.get("has_more") or min(times, default=began) < began - 3600:
                return None
            last = self._id(batches[-1], "batch")
            if last == query.get("after"):
                raise Trouble(f"{self._api.url}: its list of batches has no next page", again=True)
            query["after"] = last

    def look(self, server_id: str) -> Look:
        """The present state of a batch."""
        try:
            reply = self._api.run(self._api.json("GET", f"batches/{server_id}", TIMEOUT_S))
        except Trouble as trouble:
            if trouble.status != 404:
                raise
            return Look(True)  # the server has forgotten it
        status = dict_of(reply).get("status")
        if not isinstance(status, str):
            raise Trouble(f"{self._api.url}: its reply about a batch has no status", again=True)
        if status not in _ENDED:
            return Look(False)
        files = (reply.get("output_file_id"), reply.get("error_file_id"))
        named = tuple(name for name in files if isinstance(name, str) and name)
        if status == "completed" and not named:
            words = f"{self._api.url}: batch {server_id} is completed and has no file of answers"
            raise Trouble(words, cure=PAID_AGAIN)
        if status != "failed":
            return Look(True, named)
        errors = dict_of(reply.get("errors")).get("data")
        errors = errors if isinstance(errors, list) else []
        words = "; ".join(map(self._api.words, errors[:3])) or "it says no more"
        return Look(True, named, words, any("limit" in error_code(entry) for entry in errors))

    def lines(self, file: str) -> Iterator[bytes]:
        """The lines of a file of answers."""
        with tempfile.TemporaryFile() as answers:
            self._api.run(self._download(f"files/{file}/content", answers))
            answers.seek(0)
            while line := answers.readline(LARGEST_LINE):
                yield line

    async def _download(self, path: str, target: IO[bytes]) -> None:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=TIMEOUT_S)
        async with self._api.reply("GET", self._api.address(path), TRANSFER_S, timeout=timeout) as reply:
            if reply.status != 200:  # also a redirect, which must not count as a file without answers
                trouble = self._api.trouble(reply.status, read_error(await read_body(reply)), reply.headers)
                if reply.status == 404:
                    trouble.cure = PAID_AGAIN
                raise trouble
            async for piece in reply.content.iter_chunked(1 << 16):
                if target.tell() > LARGEST_FILE:
                    raise ValueError(f"it is larger than {LARGEST_FILE >> 20} MiB")
                target.write(piece)

    def _id(self, reply: Any, kind: str) -> str:
        value = dict_of(reply).get("id")
        if not isinstance(value, str) or not value:
            raise Trouble(f"{self._api.url}: its reply about a {kind} has no id", again=True)
        return value


class BatchProgram:
    """A command that answers batches on this machine, with the methods of BatchServer. A batch's id is its name."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command, self._folder = command, folder
        self._running: tuple[str, subprocess.Popen[bytes]] | None = None

    def upload(self, data: bytes) -> str:
        path = self._folder / f"{secrets.token_hex(8)}.upload"
        path.write_bytes(data)
        return path.name

    def create(self, file: str, name: str) -> str:
        (self._folder / file).rename(self._path(name, "input"))
        return name

    def find(self, name: str, began: float) -> str | None:
        return name if self._path(name, "input").exists() else None

    def look(self, server_id: str) -> Look:
        if self._path(server_id, "output").exists():
            return Look(True, (server_id,))
        if not self._path(server_id, "input").exists():
            return Look(True)
        if self._running is None:
            source, target = (str(self._path(server_id, kind)) for kind in ("input", "partial"))
            words = [word.replace("{input}", source).replace("{output}", target) for word in self._command]
            self._running = (server_id, supervised(words))
        elif self._running[1].poll() is not None:
            name, supervisor = self._running
            self.close()
            partial = self._path(name, "partial")
            if supervisor.returncode or not partial.exists():
                raise EngineConfigError(
                    f"engine.command: {self._command[0]} ended with exit code {supervisor.returncode} and "
                    f"{'an' if partial.exists() else 'no'} output",
                    SEE_LOG,
                )
            partial.rename(self._path(name, "output"))
        return Look(False)

    def lines(self, file: str) -> Iterator[bytes]:
        with open(self._path(file, "output"), "rb") as answers:
            yield from answers

    def close(self) -> None:
        """End the program. Idempotent."""
        if self._running is not None:
            _, supervisor = self._running
            self._running = None
            supervisor.communicate(timeout=CLOSE_S)

    def _path(self, name: str, kind: str) -> Path:
        return self._folder / f"{name}.{kind}.jsonl"
