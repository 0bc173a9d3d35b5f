"""A stand-in of OpenAI's Batch API that counts what is paid for."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers import QuietHandler, completion, serving

KEY = "sk-batch-0123456789"
Body = dict[str, Any]


class BatchService:
    """The account: files, batches, and how often each custom_id was answered.

    A batch ends when it is looked at. `answer` makes the text of a body's answer.
    """

    def __init__(self, answer: Callable[[Body], str] = lambda body: '{"ok": true}') -> None:
        self.answer = answer
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Body] = {}
        self.paid: Counter[str] = Counter()
        self.live: list[Body] = []  # bodies that came to the chat endpoint
        self.expires_at: list[int] = []  # of the next batches: answers after which each expires
        self.refuses: list[str] = []  # codes with which the next batches are refused
        self.moved = False  # files are answered with a redirect
        self.odd: list[Any] = []  # replies in place of the next batches and lists of batches
        self.drops: list[str] = []  # "before" or "after": where the next `create` loses its connection
        self.bad_lines: Callable[[Body], Body | None] = lambda body: None
        self.held = threading.Event()  # while it is not set, no batch ends
        self.held.set()
        self.url = ""
        self._lock = threading.Lock()

    def completion(self, body: Body) -> Body:
        """The reply of the chat API to a body."""
        return completion(self.answer(body), usage={"prompt_tokens": 10, "completion_tokens": 5})

    def add_file(self, data: bytes) -> str:
        with self._lock:
            name = f"file-{len(self.files)}"
            self.files[name] = data
            return name

    def make(self, body: Body) -> Body:
        with self._lock:
            name = f"batch_{len(self.batches)}"
            batch = {"id": name, "object": "batch", "status": "in_progress", **body}
            batch["created_at"] = int(time.time())
            self.batches[name] = batch
        if self.refuses:
            error = {"code": self.refuses.pop(0), "message": "refused for this reason"}
            batch |= {"status": "failed", "errors": {"object": "list", "data": [error]}}
        return batch

    def look(self, name: str) -> Body:
        batch = self.batches[name]
        if batch["status"] == "in_progress" and self.held.is_set():
            self._work(batch)
        return batch

    def _work(self, batch: Body) -> None:
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        enough = self.expires_at.pop(0) if self.expires_at else len(lines)
        good, bad = [], []
        for number, line in enumerate(lines):
            entry = {"id": f"r{number}", "custom_id": line["custom_id"], "response": None, "error": None}
            if number >= enough:
                bad.append({**entry, "error": {"code": "batch_expired", "message": "not in time"}})
            elif refusal := self.bad_lines(line["body"]):
                bad.append({**entry, "response": refusal})
            else:
                self.paid[line["custom_id"]] += 1
                reply = {"status_code": 200, "body": self.completion(line["body"])}
                good.append({**entry, "response": reply})
        good.reverse()  # the order of answers is not that of requests
        batch["status"] = "expired" if enough < len(lines) else "completed"
        for key, entries in (("output_file_id", good), ("error_file_id", bad)):
            if entries:
                batch[key] = self.add_file(b"".join(json.dumps(e).encode() + b"\n" for e in entries))


class _Handler(QuietHandler):
    service: BatchService

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self._denied():
            return
        if self.path == "/v1/files":
            mark = self.headers["Content-Type"].partition("boundary=")[2].encode()
            parts = [part.split(b"\r\n\r\n", 1)[1] for part in data.split(b"--" + mark)[1:-1]]
            assert parts[0] == b"batch\r\n"
            self._json({"id": self.service.add_file(parts[1].removesuffix(b"\r\n"))})
        elif self.path == "/v1/batches":
            self._create(json.loads(data))
        else:
            self.service.live.append(json.loads(data))
            self._json(self.service.completion(json.loads(data)))

    def _create(self, body: Body) -> None:
        drop = self.service.drops.pop(0) if self.service.drops else ""
        if drop != "before":
            batch = self.service.make(body)
        if drop:
            self.close_connection = True
        else:
            self._json(batch)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if self._denied():
            return
        parts = path.split("/")[2:]
        if parts[0] == "batches" and self.service.odd:
            self._json(self.service.odd.pop(0))
        elif path == "/v1/batches":
            self._json(self._page(query))
        elif parts[0] == "files":
            data = self.service.files.get(parts[1])
            status = 404 if data is None else 302 if self.service.moved else 200
            self.reply(status, data or b'{"error": "no such file"}', {"Location": "/elsewhere"})
        elif parts[1] in self.service.batches:
            self._json(self.service.look(parts[1]))
        else:
            self.reply(404, b'{"error": {"message": "no such batch"}}')

    def _page(self, query: str) -> Body:
        newest = list(reversed(self.service.batches.values()))
        if after := re.search("after=([^&]+)", query):
            names = [batch["id"] for batch in newest]
            newest = newest[names.index(after[1]) + 1 :]
        return {"object": "list", "data": newest[:2], "has_more": len(newest) > 2}

    def _denied(self) -> bool:
        if self.headers["Authorization"] == f"Bearer {KEY}":
            return False
        self.reply(401, b'{"error": {"message": "bad key"}}')
        return True

    def _json(self, body: Any) -> None:
        self.reply(200, json.dumps(body).encode())


@contextmanager
def batch_service(**settings: Any) -> Iterator[BatchService]:
    """A running stand-in; its `url` is set."""
    service = BatchService(**settings)
    with serving(type("Handler", (_Handler,), {"service": service})) as url:
        service.url = f"{url}/v1"
        yield service
