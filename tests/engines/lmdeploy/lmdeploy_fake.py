"""A stand-in for TurboMind's native engine; LMDeploy's own pipeline, sessions and tokenizer run for real.

LMDeploy 0.18 asks of a native engine: `engine_config`, `create_instance()`, `get_schedule_metrics()`,
`close()`; and of an instance: `async_stream_infer(session_id, …)`, an async generator of EngineOutput, and
`async_cancel`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from lmdeploy import turbomind
from lmdeploy.messages import EngineOutput, RequestMetrics, ResponseType, ScheduleMetrics
from lmdeploy.serve.core import AsyncEngine
from lmdeploy.tokenizer import Tokenizer

from kgqa_hpc.doctor.gpu import tiny_model
from kgqa_hpc.engines.models import read_size

Reply = Callable[[str], "str | Exception | ResponseType | asyncio.Event"]


def make_model(folder: Path) -> Path:
    """The model of `kgqa doctor --gpu` without its weights: configuration, a tokenizer of bytes, a ChatML template."""
    tiny_model(folder)
    size = read_size(folder)
    assert size is not None
    assert size.weights > 1e6
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    return folder


class FakeTurboMind:
    """Answers a prompt with `reply(prompt)`: a text, an error to raise, a status, an event to wait for."""

    def __init__(self, model: str, config: Any, reply: Reply) -> None:
        self.model = model
        self.engine_config = copy.deepcopy(config)
        self.engine_config.max_batch_size = self.engine_config.max_batch_size or 8
        self.tokenizer = Tokenizer(model)
        self.reply = reply
        self.running = self.peak = 0
        self.calls: list[Any] = []
        self.closed = False
        self.ticks = 0
        self.drops_schemas = False
        self.grammar_compiler: Any = None

    def create_instance(self, *args: Any, **kwargs: Any) -> FakeInstance:
        return FakeInstance(self)

    def get_schedule_metrics(self) -> ScheduleMetrics:
        return ScheduleMetrics(active_seqs=self.running, scheduler_tick=self.ticks)

    def close(self) -> None:
        self.closed = True


class FakeInstance:
    def __init__(self, engine: FakeTurboMind) -> None:
        self.engine = engine
        self.cancelled = asyncio.Event()

    async def async_cancel(self, session_id: int) -> None:
        self.cancelled.set()

    async def async_stream_infer(
        self, session_id: int, input_ids: Any = None, gen_config: Any = None, **kwargs: Any
    ) -> AsyncIterator[EngineOutput]:
        engine = self.engine
        self.cancelled.clear()
        engine.running += 1
        engine.peak = max(engine.peak, engine.running)
        engine.calls.append(copy.copy(gen_config))
        if engine.drops_schemas:
            gen_config.response_format = None
        try:
            reply = engine.reply(engine.tokenizer.decode(input_ids))
            if isinstance(reply, asyncio.Event):
                reply = await self._wait(reply)
            await asyncio.sleep(0)
            if isinstance(reply, Exception):
                raise reply
            if isinstance(reply, ResponseType):
                yield EngineOutput(reply, [])
                return
            ids = engine.tokenizer.encode(reply, add_bos=False)[: gen_config.max_new_tokens]
            if len(ids) < gen_config.max_new_tokens:
                ids = [*ids, engine.tokenizer.eos_token_id]
            metrics = RequestMetrics(token_timestamp=0.0, cached_tokens=min(64, len(input_ids)))
            yield EngineOutput(ResponseType.FINISH, ids, req_metrics=metrics)
        finally:
            engine.running -= 1

    async def _wait(self, event: asyncio.Event) -> str | ResponseType:
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.cancelled.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return ResponseType.CANCEL if self.cancelled.is_set() else "at last"


@contextmanager
def native_engine(reply: Reply) -> Iterator[list[FakeTurboMind]]:
    """While open, LMDeploy builds this engine instead of its native one. Yields those that were built."""
    built: list[FakeTurboMind] = []

    def build(self: Any, model_path: str, backend_config: Any = None, **kwargs: Any) -> FakeTurboMind:
        built.append(FakeTurboMind(model_path, backend_config, reply))
        return built[-1]

    with (
        mock.patch.object(AsyncEngine, "_build_turbomind", build),
        mock.patch.object(turbomind, "is_available", return_value=True),
        mock.patch("lmdeploy.archs.autoget_backend", return_value="turbomind"),
    ):
        yield built
