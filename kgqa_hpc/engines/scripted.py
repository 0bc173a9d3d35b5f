"""A stand-in for a model: answers follow from the request's content alone, faults and times from the settings.

For tests, rehearsals and scheduling measurements. Two runs give the same dataset, also after kills,
because a fault never changes an answer: `garbage`, `truncate` and `error` are drawn from the
request's content with its seed, which a retry changes; `hang` and `crash` happen once per request, which the
engine remembers in a file beside its log, because its process ends; `poison` happens at every attempt.

Times are those of a continuously batching GPU. Sequences enter a batch of fixed size as soon as one leaves. Prefill
is done one prompt after the other at a fixed rate, the part found in the prefix cache costs nothing; then each
sequence decodes at a fixed rate, as long as not more than `saturation` of them decode: more share the speed of so
many. Time is an argument of the model, so it also runs faster than the clock (benchmarks).
"""

from __future__ import annotations

import heapq
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import orjson
from pydantic import Field

from kgqa_hpc import __version__
from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Finish, Request, Response
from kgqa_hpc.engines.grammar import ebnf
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.scripted_answers import Draw, free_text, value_for
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.settings import Settings

T = TypeVar("T")


class GpuModel(Settings):
    """Speed of a GPU: the size of its batch, and the rates of prefill and decoding."""

    batch: int = Field(64, ge=1, description="Sequences decoded at the same time.")
    prefill_tokens_per_s: float = Field(0.0, ge=0, description="Speed of prefill; 0: no time.")
    decode_tokens_per_s: float = Field(0.0, ge=0, description="Decoding speed of a sequence; 0: no time.")
    saturation: int = Field(
        0, ge=0, description="Sequences that saturate the card; more share its speed; 0: no limit."
    )
    prefix_hit: float = Field(0.0, ge=0, le=1, description="Share of the system message in the prefix cache.")
    jitter: float = Field(0.0, ge=0, le=1, description="Relative spread of durations.")
    per_request_s: float = Field(0.0, ge=0, description="Seconds added to each request.")


@dataclass(frozen=True, slots=True)
class Cost:
    """Size of a request in tokens: prompt, part of it in the prefix cache, and answer."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    stretch: float = 1.0  # factor of the decoding time; jitter makes it differ from 1


class Batch(Generic[T]):
    """Simulation of a GPU's batch, for requests of any type T. Times are seconds on any monotonic scale."""

    def __init__(self, latency: GpuModel) -> None:
        self.latency = latency
        self.busy_sequence_s = 0.0  # sum of the times that sequences were in the batch
        self._queue: deque[tuple[T, Cost]] = deque()
        # Heap of running sequences: end on the decoding clock, number, time of entry, request.
        self._running: list[tuple[float, int, float, T]] = []
        # A clock that advances with the decoding speed of a sequence, and the time of its last update.
        self._decoded = self._now = 0.0
        self._prefill_free = 0.0
        self._count = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._running)

    def add(self, item: T, cost: Cost, now: float) -> None:
        """Queue a request at time `now`; it starts at once if the batch is not full."""
        self._advance(now)
        self._queue.append((item, cost))
        self._admit()

    def next_time(self) -> float | None:
        """The time at which the next answer is ready; None if no sequence is running."""
        if not self._running:
            return None
        return self._now + (self._running[0][0] - self._decoded) / self._speed()

    def pop_ready(self, now: float) -> list[T]:
        """The answers that are ready at `now`, in order; a waiting request enters the batch for each."""
        ready: list[T] = []
        while (due := self.next_time()) is not None and due <= now:
            self._advance(due)
            _, _, entered, item = heapq.heappop(self._running)
            self.busy_sequence_s += due - entered
            ready.append(item)
            self._admit()
        return ready

    def clear(self) -> list[T]:
        """Remove all running and waiting requests."""
        items = [item for *_, item in sorted(self._running, key=lambda entry: entry[1])]
        items += [item for item, _ in self._queue]
        self._running.clear()
        self._queue.clear()
        return items

    def _advance(self, now: float) -> None:
        self._decoded += (now - self._now) * self._speed()
        self._now = now

    def _speed(self) -> float:
        """Speed of each sequence, as a share of the full speed."""
        most = self.latency.saturation
        return most / len(self._running) if 0 < most < len(self._running) else 1.0

    def _admit(self) -> None:
        """Move waiting requests into the batch while it has room; a prompt is read after the one before it."""
        model = self.latency
        while self._queue and len(self._running) < model.batch:
            item, cost = self._queue.popleft()
            duration = model.per_request_s
            if model.decode_tokens_per_s:
                duration += cost.completion_tokens / model.decode_tokens_per_s
            duration *= cost.stretch
            if model.prefill_tokens_per_s:
                reading = (cost.prompt_tokens - cost.cached_tokens) / model.prefill_tokens_per_s
                self._prefill_free = max(self._now, self._prefill_free) + reading
                duration += self._prefill_free - self._now
            self._count += 1
            heapq.heappush(self._running, (self._decoded + duration, self._count, self._now, item))


CHARS_PER_TOKEN = 4
_GARBAGE = (
    "I am sorry, but I cannot help with that.",
    '{"question": "What is the role of',
    "```json\n{question: yes, answer: 'no'}\n```",
    "[1, 2, NaN]",
)


class Faults(Settings):
    """How often the scripted engine misbehaves: probabilities per request, drawn from its content."""

    garbage: float = Field(0.0, ge=0, le=1, description="Probability of an answer that is not JSON.")
    truncate: float = Field(0.0, ge=0, le=1, description="Probability of an answer cut at the token limit.")
    error: float = Field(0.0, ge=0, le=1, description="Probability of a failed request.")
    hang: float = Field(0.0, ge=0, le=1, description="Probability of a hang, once per request.")
    crash: float = Field(0.0, ge=0, le=1, description="Probability of a crash, once per request.")
    poison: float = Field(0.0, ge=0, le=1, description="Share of requests that always crash the engine.")


class Planted(Settings):
    """Another share of acceptance for requests that contain certain texts: a judge with a known preference."""

    holds: list[str] = Field(min_length=1, description="Texts that the messages must all contain.")
    accept: float = Field(ge=0, le=1, description="Share of such requests answered true.")


class ScriptedSettings(EngineSettings):
    """A deterministic stand-in for a model: answers follow from the request. For tests and rehearsals."""

    operational: ClassVar = frozenset({"latency"})

    kind: Literal["scripted"] = "scripted"
    model: str = Field("scripted-1", description="Name in the provenance; answers depend on it.")
    accept: float = Field(0.9, ge=0, le=1, description="Share of pairs the judge accepts.")
    planted: list[Planted] | None = Field(
        None, description="Other shares for requests with certain texts; the first match counts."
    )
    answer_tokens: int = Field(250, ge=1, description="Mean tokens of an answer, for the latency.")
    latency: GpuModel = Field(GpuModel(), description="Model of a GPU's speed.")
    faults: Faults = Field(Faults(), description="Shares of requests with a planted fault.")

    def with_batch(self, size: int) -> ScriptedSettings:
        return self.model_copy(update={"latency": self.latency.model_copy(update={"batch": size})})


class ScriptedEngine:
    """Canned answers that follow from seed and prompt, with planted faults and a model of a GPU's speed: for tests.

    `memory` is the file that outlives the process; needed for hang and crash.
    """

    name = "scripted"
    Settings = ScriptedSettings

    def __init__(self, config: ScriptedSettings, memory: Path | None = None) -> None:
        deadly = config.faults.hang or config.faults.crash or config.faults.poison
        if deadly and memory is None:
            raise EngineConfigError(
                "scripted hang, crash and poison need an engine process of its own",
                "run it through the worker, or leave these faults at 0",
            )
        self._config = config
        self._memory = memory
        self.info = EngineInfo(
            name="scripted", version=__version__, model=config.model, max_batch=config.latency.batch
        )

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        for schema in schemas:
            ebnf(schema)  # raises EngineConfigError for a schema that no other engine could serve

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        batch: Batch[tuple[Request, bytes, Cost]] = Batch(self._config.latency)
        while not mailbox.ended or len(batch):
            due = batch.next_time()
            room = max(2 * self.info.max_batch - len(batch), 0)
            new, _ = mailbox.wait(None if due is None else max(due - time.monotonic(), 0.0), room)
            waiting = mailbox.take_cancel()
            if waiting is not None:
                for request in [*(request for request, _, _ in batch.clear()), *new, *waiting]:
                    yield Response(request.id, "", "abort")
                return
            now = time.monotonic()
            for request in new:
                key = _key(self._config.model, request)
                self._crash_or_hang(key)
                cost = self._cost(request, key)
                batch.add((request, key, cost), cost, now)
            for request, key, cost in batch.pop_ready(now):
                yield self._answer(request, key, cost)

    def close(self) -> None:
        """Does nothing, because no resource is held."""

    def _answer(self, request: Request, key: bytes, cost: Cost) -> Response:
        faults, drawn = self._config.faults, _unit(key, b"fault")
        if drawn < faults.error:
            return Response(request.id, "", "error", cost.prompt_tokens, error="scripted fault")
        texts = [message["content"] for message in request.messages]
        prompt, accept = texts[-1] if texts else "", self._config.accept
        if planted := self._config.planted:
            whole = "\n".join(texts)
            accept = next((p.accept for p in planted if all(part in whole for part in p.holds)), accept)
        if request.schema is None:
            text = free_text(prompt, Draw(key), accept)
        else:
            text = orjson.dumps(value_for(request.schema, prompt, Draw(key), accept)).decode()
        finish: Finish = "stop"
        if drawn < faults.error + faults.truncate:
            finish, text = "length", text[: len(text) // 2]
        elif drawn < faults.error + faults.truncate + faults.garbage:
            text = Draw(key).choose(_GARBAGE)
        tokens = cost.prompt_tokens, cost.completion_tokens, cost.cached_tokens
        return Response(request.id, text, finish, *tokens)

    def _cost(self, request: Request, key: bytes) -> Cost:
        model = self._config.latency
        sizes = {True: 0, False: 0}  # tokens of the system messages and of all others
        for message in request.messages:
            sizes[message["role"] == "system"] += -(-len(message["content"]) // CHARS_PER_TOKEN)
        # Numbers in [0, 1) from the key itself: fast, and independence matters less here.
        length, spread = (int.from_bytes(key[start : start + 4], "little") / 2**32 for start in (0, 4))
        written = round(self._config.answer_tokens * (0.5 + length))
        return Cost(
            prompt_tokens=sum(sizes.values()),
            cached_tokens=int(sizes[True] * model.prefix_hit),
            completion_tokens=max(1, min(written, request.max_tokens)),
            stretch=1 + model.jitter * (2 * spread - 1),
        )

    def _crash_or_hang(self, key: bytes) -> None:
        for fault in ("poison", "crash", "hang"):
            share = getattr(self._config.faults, fault)
            if not share or _unit(key, fault.encode()) >= share:
                continue
            if fault != "poison":  # crash and hang happen once per request
                assert self._memory is not None
                line = f"{fault} {key.hex()}\n"
                if self._memory.exists() and line in self._memory.read_text():
                    continue
                with self._memory.open("a") as file:
                    file.write(line)
            while fault == "hang":
                time.sleep(3600)
            os.kill(os.getpid(), signal.SIGKILL)


def _key(model: str, request: Request) -> bytes:
    """32 bytes derived from the model's name, the messages and the seed."""
    messages = [[message["role"], message["content"]] for message in request.messages]
    return blake2b(orjson.dumps([model, request.seed, messages]), digest_size=32).digest()


def _unit(key: bytes, name: bytes) -> float:
    """A number in [0, 1) for a request and a purpose, always the same."""
    return int.from_bytes(blake2b(key, key=name, digest_size=8).digest(), "little") / 2**64
