"""The engine for batch APIs: requests are collected into files; answers come within a day, by `custom_id`.

A batch is never sent twice: the run's ledger of batches (ledger.py) outlives every process, and a process that needs
the same request later waits for the same batch. The answers of an expired batch are kept, its other requests are sent
again. `cancel` leaves batches at the server: they are paid for, and the next process reads their answers.
"""

import asyncio
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc import __version__
from kgqa_hpc.engines.clean import one_line
from kgqa_hpc.engines.engine import EngineInfo, Readiness, Request, Response, installed
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai.agreement import Agreement, first_answers
from kgqa_hpc.engines.openai.chat_api import FILTERED, ChatApi, Trouble
from kgqa_hpc.engines.openai.dialect import error_code, error_words
from kgqa_hpc.engines.openai.modes import PROBE_SCHEMA, TRIED, Mode
from kgqa_hpc.engines.openai.settings import ChatSettings, OpenAIBatchSettings, OpenAISettings
from kgqa_hpc.engines.openai_batch.ledger import Batch, Ledger
from kgqa_hpc.engines.openai_batch.server import Batches, BatchProgram, BatchServer, Look
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text import bounded_json

PATIENCE_S = 30.0  # s to wait for the first answer of a server
SENDINGS = 5  # number of batches that may end without an answer to a request
_LARGEST = 150 << 20  # largest file in bytes; OpenAI accepts 200 MB
_LEFT_OPEN = {"batch_expired", "batch_cancelled"}
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 529}


class OpenAIBatchEngine:
    """Batch API of OpenAI, or `vllm run-batch`: a shard is a batch, answered within a day.

    `folder` is the run's folder of batches.
    """

    name = "openai_batch"
    Settings = OpenAIBatchSettings
    keeps_batches = True

    def __init__(
        self, config: OpenAIBatchSettings, memory: Path | None = None, folder: Path | None = None
    ) -> None:
        folder = folder or (memory.parent / "batches" if memory else Path("batches"))
        self._config = config
        self._api = ChatApi(config.base_url, _live(config))
        self._mode: Mode = TRIED[config.structured][0]
        self._seen = ""
        self._agree([PROBE_SCHEMA])
        self._ledger = Ledger(folder, f"{config.model} {self._described().settings}")
        self._batches: Batches = (
            BatchProgram(config.command, folder) if config.command else BatchServer(self._api)
        )
        self._waiting: dict[str, Request] = {}  # to be sent
        self._asked: dict[str, Request] = {}  # in a batch
        self._answered_at = time.monotonic()
        self._hold_until = 0.0
        self.progress = 0
        self.info = self._described()

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        self._agree(schemas)
        self.info = self._described()

    @classmethod
    def ask_once(cls, settings: OpenAIBatchSettings) -> None:
        """Ask the server for one token, before other work begins. Raises EngineConfigError."""
        if settings.command is None and settings.structured == "auto":
            asyncio.run(first_answers(_live(settings), PATIENCE_S))

    @classmethod
    def probe(cls) -> Readiness:
        """Check for the client's package; whether a server answers is only known in a run."""
        return installed("aiohttp", "openai")

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        looked = changed = time.monotonic()
        while self._waiting or self._asked or not mailbox.ended:
            now = time.monotonic()
            due = [looked + self._config.poll_s] if self._asked else []
            due += [max(changed + self._config.gather_s, self._hold_until)] if self._waiting else []
            timeout = max(min(due) - now, 0.01) if due else None
            requests, _ = mailbox.wait(0 if mailbox.ended and self._waiting else timeout)
            waiting = mailbox.take_cancel()
            if waiting is not None:
                for request in [*requests, *waiting, *self._waiting.values(), *self._asked.values()]:
                    yield Response(request.id, "", "abort")
                self._waiting.clear()
                self._asked.clear()
                return
            now = time.monotonic()
            if requests:
                changed = now
                if self._place(requests):
                    looked = 0.0
            quiet = mailbox.ended or now - changed >= self._config.gather_s
            while now >= self._hold_until and (
                len(self._waiting) >= self._config.requests_per_batch or (quiet and self._waiting)
            ):
                self._send()
            if self._asked and now - looked >= self._config.poll_s:
                yield from self._look_at_all()
                looked = time.monotonic()

    def close(self) -> None:
        self._batches.close()
        self._ledger.close()

    def _agree(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Find out by test requests outside of any batch how the server enforces schemas."""
        if self._config.structured != "auto" or self._config.command:
            return

        async def ask() -> None:
            try:
                agreement = Agreement([self._api], self._config.structured, PATIENCE_S)
                for schema in (PROBE_SCHEMA, *schemas):
                    await agreement.on(schema)
                self._mode, self._seen = agreement.mode, agreement.words
            finally:
                await self._api.close()

        asyncio.run(ask())

    def _described(self) -> EngineInfo:
        config = self._config
        most = config.requests_per_batch * config.batches
        return EngineInfo(
            name=self.name,
            version=__version__,  # of this client
            model=config.model,
            settings=config.recorded(sampling=config.sampling_record),
            structured=self._seen or f"{self._mode}, not verified",
            omitted=self._api.dialect.learned,
            max_batch=most,
            window=most,
        )

    def _place(self, requests: Sequence[Request]) -> bool:
        """Assign requests to the batch that holds them, or to the next batch; returns whether a batch holds any."""
        self._ledger.read()
        before = len(self._asked)
        for request in requests:
            key = self._ledger.key(request)
            (self._waiting if self._ledger.batch_of(key) is None else self._asked)[key] = request
        return len(self._asked) > before

    def _send(self) -> None:
        """Send the waiting requests as a batch; if the server is unreachable, they go on waiting."""
        lines: list[bytes] = []
        keys: list[str] = []
        size = 0
        for key, request in self._waiting.items():
            body = self._api.body(request, self._mode)
            entry = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
            line = orjson.dumps(entry) + b"\n"
            size += len(line)
            if lines and (len(lines) >= self._config.requests_per_batch or size > _LARGEST):
                break
            lines.append(line)
            keys.append(key)
        try:
            file = self._batches.upload(b"".join(lines))
        except Trouble as trouble:
            self._tolerate(trouble)
            self._hold_until = time.monotonic() + self._config.poll_s
            return
        batch = self._ledger.begin(secrets.token_hex(12), keys)
        for key in keys:
            self._asked[key] = self._waiting.pop(key)
        try:
            server_id = self._batches.create(file, batch.name)
        except Trouble as trouble:
            if not trouble.again:
                self._ledger.lost(batch)
            self._tolerate(trouble)  # the server may have received it; `_settle` finds out
            return
        self._ledger.sent(batch, server_id)
        self._answered_at = time.monotonic()
        print(f"openai_batch: batch {server_id} with {len(keys):,} requests", flush=True)

    def _look_at_all(self) -> Iterator[Response]:
        names = dict.fromkeys(b.name for key in self._asked if (b := self._ledger.batch_of(key)))
        for name in names:
            try:
                batch = self._ledger.batch(name)
                if batch.state == "sending":
                    batch = self._settle(batch)
                if batch.server_id:
                    look = self._batches.look(batch.server_id)
                    self._answered_at = time.monotonic()
                    self.progress += 1
                    if look.ended:
                        yield from self._take(batch, look)
            except Trouble as trouble:
                self._tolerate(trouble)
        self._ledger.read()
        for key in [key for key in self._asked if self._ledger.batch_of(key) is None]:
            self._waiting[key] = self._asked.pop(key)

    def _settle(self, batch: Batch) -> Batch:
        """Look for a batch whose sending was interrupted; it is lost if the server does not have it."""
        server_id = self._batches.find(batch.name, batch.began)
        if server_id is not None:
            return self._ledger.sent(batch, server_id)
        if time.time() - batch.began < 2 * self._config.poll_s or self._ledger.is_being_sent(batch):
            return batch  # the server's list may lag behind
        return self._ledger.lost(batch)

    def _take(self, batch: Batch, look: Look) -> Iterator[Response]:
        """Read the answers of an ended batch; its unanswered requests will be sent again."""
        if look.refused:
            if batch.state != "ended":
                self._ledger.ended(batch, batch.keys)
            if not look.crowded:
                raise EngineConfigError(f"the server refused a batch: {look.refused}", "see its words")
            self._hold_until = time.monotonic() + 10 * self._config.poll_s
            return
        keys, answered = set(batch.keys), set()
        for file in look.files:
            for line in self._batches.lines(file):
                key, reply, error = _read(line)
                if key not in keys or self._left_open(key, reply, error):
                    continue
                answered.add(key)
                if request := self._asked.pop(key, None):
                    yield self._response(request, reply, error)
        missing = [key for key in batch.keys if key not in answered]
        for key in [key for key in missing if self._ledger.sendings(key) >= SENDINGS]:
            if request := self._asked.pop(key, None):
                words = f"{SENDINGS} batches ended without an answer to it"
                yield Response(request.id, "", "error", error=words)
        if batch.state != "ended":
            self._ledger.ended(batch, missing)

    def _left_open(self, key: str, reply: Mapping[str, Any], error: Any) -> bool:
        """Whether the batch left a request unanswered, so that another batch may answer it."""
        passing = error_code(error) in _LEFT_OPEN or reply.get("status_code") in _PASSING
        return passing and self._ledger.sendings(key) < SENDINGS

    def _response(self, request: Request, reply: Mapping[str, Any], error: Any) -> Response:
        body = reply.get("body")
        if reply.get("status_code") == 200 and not error:
            try:
                return self._api.answer(request, body, {})
            except ValueError as problem:
                return Response(request.id, "", "error", error=f"broken answer: {one_line(str(problem))}")
        refusal = error or body
        words = self._api.clean(error_words(refusal)[:2000])
        if FILTERED.search(f"{error_code(refusal)} {words}"):
            return Response(request.id, words, "refusal", error=f"refused: {words}")
        return Response(request.id, "", "error", error=words)

    def _tolerate(self, trouble: Trouble) -> None:
        """Log a failure; raise it if it is permanent or lasts too long."""
        if trouble.fatal or not trouble.again:
            raise EngineConfigError(str(trouble), trouble.cure)
        print(f"openai_batch: {trouble}", flush=True)
        if time.monotonic() - self._answered_at > self._config.away_s:
            raise ConnectionError(f"no answer for {self._config.away_s:.0f} s: {trouble}")
        self.progress += 1


def _live(settings: OpenAIBatchSettings) -> OpenAISettings:
    """The settings of the live server, for test requests outside of any batch."""
    shared = settings.model_dump(include=set(ChatSettings.model_fields) - {"kind"})
    return OpenAISettings(base_url=settings.base_url, **shared)


def _read(line: bytes) -> tuple[str, Mapping[str, Any], Any]:
    """`custom_id`, reply and error of a line of OpenAI's or vLLM's output; "" for any other line."""
    try:
        entry = bounded_json.loads(line)
    except ValueError:
        return "", {}, None
    if not isinstance(entry, dict) or not isinstance(key := entry.get("custom_id"), str):
        return "", {}, None
    reply = entry.get("response")
    return key, reply if isinstance(reply, dict) else {}, entry.get("error")
