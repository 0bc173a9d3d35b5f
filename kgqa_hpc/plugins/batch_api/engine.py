"""The engine for batch APIs: requests are collected into files; answers come within a day, with `custom_id`.

A batch is never sent twice: the ledger of the run (batches.py) outlives every process, and a process that needs
the same request later waits for the same batch. The answers of an expired batch are kept, its other requests are sent
again. `cancel` leaves batches at the server: they are paid for, and the next process reads their answers.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import orjson
from pydantic import Field, model_validator

from kgqa_hpc import __version__
from kgqa_hpc.engines.engine import EngineInfo, Request, Response, one_line
from kgqa_hpc.engines.http import PASSING
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai.agreement import FOREIGN_PATIENCE_S, PROBE_SCHEMA, Agreement, ask_once
from kgqa_hpc.engines.openai.chat_api import ChatApi
from kgqa_hpc.engines.openai.replies import Trouble, error_code
from kgqa_hpc.engines.openai.settings import ChatSettings
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.plugins.batch_api.batches import Batch, BatchProgram, BatchServer, Ledger, Look
from kgqa_hpc.text.streams import parse_json

SENDINGS = 5  # maximum batches in which a request is sent before it fails
_LARGEST = 150 << 20  # largest file in bytes; OpenAI accepts 200 MB
_LEFT_OPEN = {"batch_expired", "batch_cancelled"}


class OpenAIBatchSettings(ChatSettings):
    """OpenAI's Batch API, or a program that reads and writes its files (`vllm run-batch`)."""

    operational: ClassVar = frozenset({
        "base_url", "api_key_env", "headers", "command", "gpus", "requests_per_batch", "batches",
        "gather_s", "poll_s", "away_s"
    })  # fmt: skip
    dangerous: ClassVar = frozenset({"base_url", "api_key_env", "headers", "command"})

    kind: Literal["openai_batch"] = "openai_batch"
    base_url: str = Field("https://api.openai.com/v1", description="Address of the Batch API.")
    command: list[str] | None = Field(
        None,
        description="Command that answers batches: it reads {input} and writes {output}, as vllm run-batch.",
    )
    requests_per_batch: int = Field(
        512, ge=1, le=50_000, description="Maximum requests in a batch; best equal to runtime.shard_size."
    )
    batches: int = Field(8, ge=1, le=1000, description="Maximum simultaneous batches of a worker.")
    gather_s: float = Field(
        5.0, gt=0, description="Seconds without a new request until an incomplete batch is sent."
    )
    poll_s: float = Field(60.0, gt=0, description="Seconds between queries of a batch.")
    away_s: float = Field(3600.0, gt=0, description="Seconds for which the server may be unreachable.")

    @model_validator(mode="after")
    def _files_named(self) -> Self:
        if self.command is not None:
            words = " ".join(self.command)
            if missing := [name for name in ("{input}", "{output}") if name not in words]:
                raise ValueError(f"engine.command must hold {missing[0]}")
        return self


class OpenAIBatchEngine:
    """Batch API of OpenAI, or `vllm run-batch`: a shard is a batch, answered within a day.

    `folder` is the run's folder of batches; without a run, one in the working folder.
    """

    name = "openai_batch"
    Settings = OpenAIBatchSettings
    keeps_batches = True

    def __init__(
        self, config: OpenAIBatchSettings, memory: Path | None = None, folder: Path | None = None
    ) -> None:
        folder = folder or Path("batches")
        self._config = config
        self._api = ChatApi(config.base_url, config)
        self._agreement = Agreement([self._api], config.structured, FOREIGN_PATIENCE_S)
        self.preflight([PROBE_SCHEMA])
        self._ledger = Ledger(folder, f"{config.model} {self.info.settings}")
        self._batches = BatchProgram(config.command, folder) if config.command else BatchServer(self._api)
        self._waiting: dict[str, Request] = {}  # requests to be sent, by key
        self._asked: dict[str, Request] = {}  # requests in a batch, by key
        self._answered_at = time.monotonic()
        self._hold_until = 0.0

    @property
    def progress(self) -> int:
        """Current time in seconds: a counter that always grows, so that this engine never counts as stalled. A batch
        takes hours, and every transfer has a limit.
        """
        return int(time.monotonic())

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Find out by test requests outside of any batch how the server enforces the schemas."""
        config = self._config
        if config.structured == "auto" and not config.command:
            for schema in schemas:
                self._api.run(self._agreement.on(schema))
        most = config.requests_per_batch * config.batches
        self.info = EngineInfo(
            name=self.name,
            version=__version__,  # the version of this client
            model=config.model,
            settings=config.recorded(sampling=config.sampling.added),
            structured=self._agreement.words,
            omitted=self._api.dialect.learned,
            max_batch=most,
            window=most,
        )

    @classmethod
    def ask_once(cls, settings: OpenAIBatchSettings) -> None:
        """Ask the server for one token, before other work begins. Raises EngineConfigError."""
        if settings.structured == "auto":
            ask_once(settings)

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        config = self._config
        looked = changed = time.monotonic()
        while self._waiting or self._asked or not mailbox.ended:
            pause = (
                config.gather_s if self._waiting and time.monotonic() > self._hold_until else config.poll_s
            )
            requests, _ = mailbox.wait(pause if self._waiting or self._asked else None)
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
                self._ledger.read()
            for request in requests:  # find the batch that has the request, or add it to the next one
                key = self._ledger.key(request)
                if self._ledger.batch_of(key) is None:
                    self._waiting[key] = request
                else:
                    self._asked[key] = request
                    looked = 0.0
            quiet = mailbox.ended or now - changed >= config.gather_s
            while now >= self._hold_until and (
                len(self._waiting) >= config.requests_per_batch or (quiet and self._waiting)
            ):
                self._send()
            if self._asked and now - looked >= config.poll_s:
                yield from self._look_at_all()
                looked = time.monotonic()

    def close(self) -> None:
        if isinstance(self._batches, BatchProgram):
            self._batches.close()
        self._ledger.close()

    def _send(self) -> None:
        """Send the waiting requests as a batch; if the server is unreachable, they go on waiting."""
        lines: dict[str, bytes] = {}
        size = 0
        for key, request in self._waiting.items():
            body = self._api.body(request, self._agreement.mode)
            entry = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
            line = orjson.dumps(entry) + b"\n"
            size += len(line)
            if lines and (len(lines) >= self._config.requests_per_batch or size > _LARGEST):
                break
            lines[key] = line
        try:
            file = self._batches.upload(b"".join(lines.values()))
        except Trouble as trouble:
            self._tolerate(trouble)
            self._hold_until = time.monotonic() + self._config.poll_s
            return
        batch = self._ledger.record(Batch(secrets.token_hex(12), tuple(lines), "sending", time.time()))
        self._asked |= {key: self._waiting.pop(key) for key in lines}
        try:
            server_id = self._batches.create(file, batch.id)
        except Trouble as trouble:
            if not trouble.again:
                self._ledger.record(batch._replace(state="lost"))
            self._tolerate(trouble)  # the server may have received it; `_settle` finds out
            return
        self._ledger.record(batch._replace(state="sent", server_id=server_id))
        self._answered_at = time.monotonic()
        print(f"openai_batch: batch {server_id} with {len(lines):,} requests", flush=True)

    def _look_at_all(self) -> Iterator[Response]:
        for name in dict.fromkeys(b.id for key in self._asked if (b := self._ledger.batch_of(key))):
            try:
                batch = self._ledger.batches[name]
                if batch.state == "sending":
                    batch = self._settle(batch)
                if batch.server_id:
                    look = self._batches.look(batch.server_id)
                    self._answered_at = time.monotonic()
                    if look.ended:
                        yield from self._take(batch, look)
            except Trouble as trouble:
                self._tolerate(trouble)
        self._ledger.read()
        for key in [key for key in self._asked if self._ledger.batch_of(key) is None]:
            self._waiting[key] = self._asked.pop(key)

    def _settle(self, batch: Batch) -> Batch:
        """Look for a batch whose sending was interrupted; it is lost if the server does not have it."""
        server_id = self._batches.find(batch.id, batch.began)
        if server_id is not None:
            return self._ledger.record(batch._replace(state="sent", server_id=server_id))
        if time.time() - batch.began < 2 * self._config.poll_s or self._ledger.is_being_sent(batch):
            return batch  # the server's list may lag behind
        return self._ledger.record(batch._replace(state="lost"))

    def _take(self, batch: Batch, look: Look) -> Iterator[Response]:
        """Read the answers of an ended batch; its unanswered requests will be sent again."""
        if look.refused:
            if batch.state != "ended":
                self._ledger.record(batch._replace(state="ended", unanswered=frozenset(batch.keys)))
            if not look.crowded:
                problem = f"the server refused a batch: {look.refused}"
                raise EngineConfigError(problem, "change the setting that the server's message names")
            self._hold_until = time.monotonic() + 10 * self._config.poll_s
            return
        keys, missing, sendings = set(batch.keys), dict.fromkeys(batch.keys), self._ledger.sendings()
        for file in look.files:
            for line in self._batches.lines(file):
                key, reply, error = _read(line)
                passing = error_code(error) in _LEFT_OPEN or reply.get("status_code") in PASSING
                if key not in keys or (passing and sendings[key] < SENDINGS):
                    continue  # an unknown request, or one that another batch may answer
                missing.pop(key, None)
                if request := self._asked.pop(key, None):
                    yield self._response(request, reply, error)
        for key in missing:
            if sendings[key] >= SENDINGS and (request := self._asked.pop(key, None)):
                words = f"{SENDINGS} batches ended without an answer to the request"
                yield Response(request.id, "", "error", error=words)
        if batch.state != "ended":
            self._ledger.record(batch._replace(state="ended", unanswered=frozenset(missing)))

    def _response(self, request: Request, reply: Mapping[str, Any], error: Any) -> Response:
        body = reply.get("body")
        if reply.get("status_code") == 200 and not error:
            try:
                return self._api.answer(request, body, {})
            except ValueError as problem:
                return Response(request.id, "", "error", error=f"broken answer: {one_line(str(problem))}")
        refusal = self._api.refusal(request, error or body)
        return refusal or Response(request.id, "", "error", error=self._api.words(error or body))

    def _tolerate(self, trouble: Trouble) -> None:
        """Log a failure; raise it if it is permanent or lasts too long."""
        if trouble.fatal or not trouble.again:
            raise EngineConfigError(str(trouble), trouble.cure)
        print(f"openai_batch: {trouble}", flush=True)
        if time.monotonic() - self._answered_at > self._config.away_s:
            raise ConnectionError(f"no answer for {self._config.away_s:.0f} s: {trouble}")


def _read(line: bytes) -> tuple[str, Mapping[str, Any], Any]:
    """`custom_id`, reply and error of a line of OpenAI's or vLLM's output; "" for any other line."""
    try:
        entry = parse_json(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not isinstance(key := entry.get("custom_id"), str):
        return "", {}, None
    reply = entry.get("response")
    return key, reply if isinstance(reply, dict) else {}, entry.get("error")
