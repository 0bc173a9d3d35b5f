"""Services that answer batches: OpenAI's Batch API, and a program on this machine (`vllm run-batch`).

The API takes the upload of a file, the creation of a batch and the download of the answers. The program answers one
batch at a time, under the supervisor of the openai engine's servers: it ends with this process. A batch whose program
was killed is run again from its input. The methods of both services raise Trouble.
"""

import asyncio
import io
import secrets
import subprocess
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from kgqa_hpc.engines.openai.chat_api import ChatApi
from kgqa_hpc.engines.openai.reply import BrokenReply, Trouble, error_code, read_body, read_error
from kgqa_hpc.engines.openai.supervisor import supervised
from kgqa_hpc.errors import EngineConfigError

TIMEOUT_S = 300.0  # for an answer, and for each read of a download
TRANSFER_S = 3600.0  # for an upload or a download: files have up to 200 MB
LARGEST_FILE = 1 << 30
LARGEST_LINE = 16 << 20
MARK = "kgqa"  # key of a batch's metadata that holds the ledger's name
_ENDED = {"completed", "failed", "expired", "cancelled"}
CLOSE_S = 30.0  # for a program to end


class Look(NamedTuple):
    """State of a batch at the server: whether it has ended, its files of answers, and the reason of a refusal."""

    ended: bool
    files: tuple[str, ...] = ()
    refused: str = ""
    crowded: bool = False  # refused because the account's queue is full


class BatchServer:
    """The Batch API."""

    def __init__(self, api: ChatApi) -> None:
        self._api = api

    def upload(self, data: bytes) -> str:
        """Upload the requests, without cost; returns the file's id."""
        import aiohttp

        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", io.BytesIO(data), filename="kgqa.jsonl", content_type="application/jsonl")
        return self._id(self._json("POST", "files", TRANSFER_S, data=form), "file")

    def create(self, file: str, name: str) -> str:
        """Create a batch from a file; returns its id."""
        body = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {MARK: name},
        }
        return self._id(self._json("POST", "batches", json=body), "batch")

    def find(self, name: str, began: float) -> str | None:
        """The id of the batch with this name, created since `began`; None if there is none."""
        query = {"limit": "100"}
        while True:
            reply = self._json("GET", "batches", params=query)
            listed = reply.get("data") if isinstance(reply, dict) else None
            batches = [entry for entry in listed or [] if isinstance(entry, dict)]
            for entry in batches:
                if (entry.get("metadata") or {}).get(MARK) == name:
                    return self._id(entry, "batch")
            # The list has the newest batches first. The two clocks are assumed to differ by less than an hour.
            times = [entry["created_at"] for entry in batches if isinstance(entry.get("created_at"), int)]
            if not batches or not reply.get("has_more") or min(times, default=began) < began - 3600:
                return None
            query["after"] = self._id(batches[-1], "batch")

    def look(self, server_id: str) -> Look:
        """The present state of a batch."""
        try:
            reply = self._json("GET", f"batches/{server_id}")
        except Trouble as trouble:
            if trouble.status != 404:
                raise
            return Look(True)  # the server has forgotten it
        status = reply.get("status") if isinstance(reply, dict) else None
        if status not in _ENDED:
            return Look(False)
        files = (reply.get("output_file_id"), reply.get("error_file_id"))
        named = tuple(name for name in files if isinstance(name, str) and name)
        if status != "failed":
            return Look(True, named)
        errors = (reply.get("errors") or {}).get("data") or []
        words = "; ".join(map(self._api.words, errors[:3])) or "it says no more"
        return Look(True, named, words, any("limit" in error_code(entry) for entry in errors))

    def lines(self, file: str) -> Iterator[bytes]:
        """The lines of a file of answers."""
        with tempfile.TemporaryFile() as answers:
            self._run(self._download(f"files/{file}/content", answers))
            answers.seek(0)
            while line := answers.readline(LARGEST_LINE):
                yield line

    async def _download(self, path: str, target: IO[bytes]) -> None:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=TIMEOUT_S)
        async with self._api.reply("GET", self._api.address(path), TRANSFER_S, timeout=timeout) as reply:
            if reply.status != 200:  # also a redirect, which must not count as a file without answers
                raise self._api.trouble(reply.status, read_error(await read_body(reply)), reply.headers)
            async for piece in reply.content.iter_chunked(1 << 16):
                if target.tell() > LARGEST_FILE:
                    raise BrokenReply(f"it is larger than {LARGEST_FILE >> 20} MiB")
                target.write(piece)

    def close(self) -> None:
        """Do nothing, because no resource is held."""

    def _id(self, reply: Any, kind: str) -> str:
        value = reply.get("id") if isinstance(reply, dict) else None
        if not isinstance(value, str) or not value:
            raise Trouble(f"{self._api.url}: a {kind} without an id", again=True)
        return value

    def _json(self, method: str, path: str, limit_s: float = TIMEOUT_S, **options: Any) -> Any:
        return self._run(self._api.json(method, path, limit_s, **options))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def run() -> Any:
            try:
                return await work
            finally:
                await self._api.close()

        return asyncio.run(run())


class BatchProgram:
    """A command with the methods of BatchServer. The id of a batch is its name."""

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
            self._finish(*self._running)
        return Look(False)

    def lines(self, file: str) -> Iterator[bytes]:
        with open(self._path(file, "output"), "rb") as answers:
            yield from answers

    def close(self) -> None:
        """End the program. Idempotent."""
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
