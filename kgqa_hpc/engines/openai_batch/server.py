"""Services that answer batches: OpenAI's Batch API, and a program on this machine (`vllm run-batch`).

The API takes the upload of a file, the creation of a batch and the download of the answers. The program answers one
batch at a time, under the supervisor of the openai engine's servers: it ends with this process. A batch whose program
was killed is run again from its input.
"""

import json
import secrets
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit, urlunsplit

from kgqa_hpc.engines.openai.chat_api import ChatApi, Trouble, endpoint, error_in
from kgqa_hpc.engines.openai.dialect import error_code, error_words
from kgqa_hpc.engines.openai.local_server import supervised
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.services import answer_within

TIMEOUT_S = 300.0  # of one read
TRANSFER_S = 3600.0  # of a whole answer: files have up to 200 MB
LARGEST_REPLY = 16 << 20
LARGEST_LINE = 16 << 20
MARK = "kgqa"  # key of a batch's metadata that holds the ledger's name
_ENDED = {"completed", "failed", "expired", "cancelled"}
_LISTED = 100
CLOSE_S = 30.0  # for a program to end


@dataclass(frozen=True, slots=True)
class Look:
    """State of a batch at the server: whether it has ended, its files of answers, and the reason of a refusal."""

    ended: bool
    files: list[str] = field(default_factory=list)
    refused: str = ""
    crowded: bool = False  # refused because the account's queue is full


class Batches(Protocol):
    """Interface of a service that answers batches. Each method raises Trouble."""

    def upload(self, data: bytes) -> str:
        """Upload the requests, without cost; returns the file's id."""

    def create(self, file: str, name: str) -> str:
        """Create a batch from a file; returns its id."""

    def find(self, name: str, began: float) -> str | None:
        """The id of the batch with this name, created since `began`; None if there is none."""

    def look(self, server_id: str) -> Look:
        """The present state of a batch."""

    def lines(self, file: str) -> Iterator[bytes]:
        """The lines of a file of answers."""

    def close(self) -> None:
        """Idempotent."""


class BatchServer:
    """Implements `Batches` over HTTP."""

    def __init__(self, api: ChatApi) -> None:
        self._api = api

    def upload(self, data: bytes) -> str:
        mark = secrets.token_hex(16)
        parts = [
            f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'.encode(),
            f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="kgqa.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n".encode(),
            data,
            f"\r\n--{mark}--\r\n".encode(),
        ]
        reply = self._json("files", b"".join(parts), f"multipart/form-data; boundary={mark}")
        return self._id(reply, "file")

    def create(self, file: str, name: str) -> str:
        body = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {MARK: name},
        }
        return self._id(self._json("batches", json.dumps(body).encode(), "application/json"), "batch")

    def find(self, name: str, began: float) -> str | None:
        after: dict[str, str] = {}
        while True:
            reply = self._json("batches", query={"limit": str(_LISTED), **after})
            listed = reply.get("data") if isinstance(reply, dict) else None
            batches = [entry for entry in listed or [] if isinstance(entry, dict)]
            for entry in batches:
                if (entry.get("metadata") or {}).get(MARK) == name:
                    return self._id(entry, "batch")
            # The list has the newest batches first. The two clocks are assumed to differ by less than an hour.
            times = [entry["created_at"] for entry in batches if isinstance(entry.get("created_at"), int)]
            if not batches or not reply.get("has_more") or min(times, default=began) < began - 3600:
                return None
            after = {"after": self._id(batches[-1], "batch")}

    def look(self, server_id: str) -> Look:
        try:
            reply = self._json(f"batches/{server_id}")
        except Trouble as trouble:
            if trouble.status != 404:
                raise
            return Look(True)  # the server has forgotten it
        status = reply.get("status") if isinstance(reply, dict) else None
        if status not in _ENDED:
            return Look(False)
        files = [reply.get(key) for key in ("output_file_id", "error_file_id")]
        errors = (reply.get("errors") or {}).get("data") or [] if status == "failed" else []
        words = "; ".join(self._api.clean(error_words(entry)) for entry in errors[:3])
        return Look(
            True,
            [name for name in files if isinstance(name, str) and name],
            (words or "it says no more") if status == "failed" else "",
            any("limit" in error_code(entry) for entry in errors),
        )

    def lines(self, file: str) -> Iterator[bytes]:
        with self._open(f"files/{file}/content") as reply:
            while line := reply.readline(LARGEST_LINE):
                yield line

    def close(self) -> None:
        """Do nothing, because no resource is held."""

    def _id(self, reply: Any, kind: str) -> str:
        value = reply.get("id") if isinstance(reply, dict) else None
        if not isinstance(value, str) or not value:
            raise Trouble(f"{self._api.url}: a {kind} without an id", again=True)
        return value

    def _json(
        self, path: str, data: bytes | None = None, kind: str = "", query: dict[str, str] | None = None
    ) -> Any:
        with self._open(path, data, kind, query) as reply:
            try:
                return json.loads(reply.read(LARGEST_REPLY))
            except (ValueError, RecursionError) as problem:
                raise Trouble(f"{self._api.url}: broken answer: {problem}", again=True) from None

    @contextmanager
    def _open(
        self, path: str, data: bytes | None = None, kind: str = "", query: dict[str, str] | None = None
    ) -> Iterator[Any]:
        url = endpoint(self._api.url, path)
        if query:
            parts = urlsplit(url)
            url = urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, urlencode(query))))))
        headers = {**self._api.credentials, **({"Content-Type": kind} if kind else {})}
        try:
            request = urllib.request.Request(url, data, headers)
            with answer_within(request, TRANSFER_S, read_timeout=TIMEOUT_S, redirects=False) as reply:
                yield reply
        except urllib.error.HTTPError as problem:
            with problem:
                error = error_in(problem.read(LARGEST_REPLY))
            words = self._api.clean(error_words(error)[:2000])
            trouble = self._api.trouble(problem.code, words, error_code(error), problem.headers)
            trouble.status = problem.code
            raise trouble from None
        except (OSError, HTTPException) as problem:
            raise Trouble(self._api.clean(f"{self._api.url}: {problem}"), again=True) from None


class BatchProgram:
    """Implements `Batches` with a command. The id of a batch is its name."""

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
            return Look(True, [server_id])
        if not self._path(server_id, "input").exists():
            return Look(True)
        if self._running is None:
            source, target = (str(self._path(server_id, kind)) for kind in ("input", "partial"))
            words = [word.replace("{input}", source).replace("{output}", target) for word in self._command]
            self._running = (server_id, supervised(words))
        elif self._running[1].poll() is not None:
            self._finish(*self._running)
        return Look(False)

    def lines(self, file: str) -> Iterator[bytes]:
        with open(self._path(file, "output"), "rb") as answers:
            yield from answers

    def close(self) -> None:
        if self._running is not None:
            _, supervisor = self._running
            self._running = None
            assert supervisor.stdin is not None
            with suppress(BrokenPipeError):
                supervisor.stdin.close()
            supervisor.wait(CLOSE_S)

    def _finish(self, name: str, supervisor: subprocess.Popen[bytes]) -> None:
        self.close()
        partial = self._path(name, "partial")
        if supervisor.returncode or not partial.exists():
            raise EngineConfigError(
                f"engine.command: {self._command[0]} ended with exit code {supervisor.returncode} and "
                f"{'an' if partial.exists() else 'no'} output",
                "its last words are in the engine's log",
            )
        partial.rename(self._path(name, "output"))

    def _path(self, name: str, kind: str) -> Path:
        return self._folder / f"{name}.{kind}.jsonl"
