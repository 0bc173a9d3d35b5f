"""A stand-in for a model: answers follow from the request's content alone, and faults from the settings.

For tests, rehearsals and scheduling measurements. Two runs give the same dataset, also after kills,
because a fault never changes an answer: `garbage`, `truncate` and `error` are drawn from the
request's content with its seed, which a retry changes; `hang` and `crash` happen once per request, which the
engine remembers in a file beside its log, because its process ends; `poison` happens at every attempt.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Literal

import orjson
from pydantic import Field

from kgqa_hpc import __version__
from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Finish, Readiness, Request, Response
from kgqa_hpc.engines.grammar import check
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.scripted.answers import Draw, free_text, value_for
from kgqa_hpc.engines.scripted.gpu_model import Batch, Cost, GpuModel
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.settings import Settings

CHARS_PER_TOKEN = 4
_GARBAGE = (
    "I am sorry, but I cannot help with that.",
    '{"question": "What is the role of',
    "```json\n{question: yes, answer: 'no'}\n```",
    "[1, 2, NaN]",
)


class Faults(Settings):
    """How often the scripted engine misbehaves: probabilities per request, drawn from its content."""

    garbage: float = Field(0.0, ge=0, le=1, description="The answer is not JSON.")
    truncate: float = Field(
        0.0, ge=0, le=1, description="The answer stops at the token limit (finish: length)."
    )
    error: float = Field(0.0, ge=0, le=1, description="The request fails (finish: error).")
    hang: float = Field(
        0.0, ge=0, le=1, description="The engine stops answering until it is killed, once per request."
    )
    crash: float = Field(0.0, ge=0, le=1, description="The engine process dies, once per request.")
    poison: float = Field(
        0.0, ge=0, le=1, description="The engine process dies each time it sees the request."
    )


class Planted(Settings):
    """Another share of acceptance for requests that contain certain texts: a judge with a known preference."""

    holds: list[str] = Field(min_length=1, description="Texts that must all stand in the request's messages.")
    accept: float = Field(ge=0, le=1, description="Share of such requests that are answered true.")


class ScriptedSettings(EngineSettings):
    """A deterministic stand-in for a model: answers follow from the request. For tests and rehearsals."""

    operational: ClassVar = frozenset({"latency"})

    kind: Literal["scripted"] = "scripted"
    model: str = Field("scripted-1", description="A name; part of the provenance and of the answers.")
    accept: float = Field(0.9, ge=0, le=1, description="Share of pairs the judge accepts.")
    planted: list[Planted] | None = Field(
        None, description="Other shares for requests that contain certain texts; the first match counts."
    )
    answer_tokens: int = Field(250, ge=1, description="Mean tokens of an answer in the latency model.")
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
            name="scripted",
            version=__version__,
            model=config.model,
            max_batch=config.latency.batch,
        )

    def preflight(self, schemas_: Sequence[Mapping[str, Any]]) -> None:
        for schema in schemas_:
            check(schema)

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

    @classmethod
    def probe(cls) -> Readiness:
        """Always ready, because it needs no package."""
        return Readiness(True, "always there")

    def _answer(self, request: Request, key: bytes, cost: Cost) -> Response:
        faults, drawn = self._config.faults, _unit(key, b"fault")
        if drawn < faults.error:
            return Response(request.id, "", "error", cost.prompt_tokens, error="scripted fault")
        text = self._text(request, key)
        finish: Finish = "stop"
        if drawn < faults.error + faults.truncate:
            finish, text = "length", text[: len(text) // 2]
        elif drawn < faults.error + faults.truncate + faults.garbage:
            text = Draw(key).choose(_GARBAGE)
        tokens = cost.prompt_tokens, cost.completion_tokens, cost.cached_tokens
        return Response(request.id, text, finish, *tokens)

    def _text(self, request: Request, key: bytes) -> str:
        texts = [message["content"] for message in request.messages]
        prompt, accept = texts[-1] if texts else "", self._config.accept
        if planted := self._config.planted:
            text = "\n".join(texts)
            accept = next((p.accept for p in planted if all(part in text for part in p.holds)), accept)
        if request.schema is None:
            return free_text(prompt, Draw(key), accept)
        return orjson.dumps(value_for(request.schema, prompt, Draw(key), accept)).decode()

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
        faults = self._config.faults
        if faults.poison and _unit(key, b"poison") < faults.poison:
            os.kill(os.getpid(), signal.SIGKILL)
        if faults.crash and _unit(key, b"crash") < faults.crash and self._first_time(key, "crash"):
            os.kill(os.getpid(), signal.SIGKILL)
        if faults.hang and _unit(key, b"hang") < faults.hang and self._first_time(key, "hang"):
            while True:
                time.sleep(3600)

    def _first_time(self, key: bytes, fault: str) -> bool:
        """Whether this fault happens to this request for the first time; also records it."""
        assert self._memory is not None
        line = f"{fault} {key.hex()}\n"
        if self._memory.exists() and line in self._memory.read_text():
            return False
        with self._memory.open("a") as file:
            file.write(line)
        return True


def _key(model: str, request: Request) -> bytes:
    """32 bytes derived from the model's name, the messages and the seed."""
    messages = [[message["role"], message["content"]] for message in request.messages]
    try:
        content = orjson.dumps([model, request.seed, messages])
    except TypeError:  # lone surrogates
        content = repr((model, request.seed, messages)).encode("ascii", "backslashreplace")
    return blake2b(content, digest_size=32).digest()


def _unit(key: bytes, name: bytes) -> float:
    """A number in [0, 1) for a request and a purpose, always the same."""
    return int.from_bytes(blake2b(key, key=name, digest_size=8).digest(), "little") / 2**64
