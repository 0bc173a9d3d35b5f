"""A stand-in for TurboMind's native engine; LMDeploy's own pipeline, sessions and tokenizer run for real.

A pytest plugin (`-p lmdeploy_fake`), for LMDeploy lives in an environment of its own (test_engine.py).

LMDeploy 0.18 asks of a native engine: `engine_config`, `create_instance()`, `get_schedule_metrics()`,
`close()`; and of an instance: `async_stream_infer(session_id, …)`, an async generator of EngineOutput, and
`async_cancel`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from lmdeploy import turbomind
from lmdeploy.messages import EngineOutput, RequestMetrics, ResponseType, ScheduleMetrics
from lmdeploy.serve.core import AsyncEngine
from lmdeploy.tokenizer import Tokenizer

from kgqa_hpc.doctor.gpu import tiny_model
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.lmdeploy import LmdeployEngine
from kgqa_hpc.engines.lmdeploy_loading import LmdeploySettings
from kgqa_hpc.engines.models import read_size

PATIENCE_S = 120.0
Reply = Callable[[str], "str | Exception | ResponseType | asyncio.Event"]
Start = Callable[..., "tuple[LmdeployEngine, FakeTurboMind]"]


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


def request(text: str, **settings: Any) -> Request:
    return Request(text, ({"role": "user", "content": f"#{text}#"},), **{"max_tokens": 200, **settings})


def name(prompt: str) -> str:
    return prompt.split("#")[1]


def echo(prompt: str) -> str | Exception | ResponseType:
    asked = name(prompt)
    if asked.startswith("boom"):
        return RuntimeError("the native engine threw")
    if asked.startswith("oom"):
        return ResponseType.OUT_OF_MEMORY
    return f"answer to {asked}"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of `kgqa doctor --gpu` without its weights: configuration, a tokenizer of bytes, a ChatML template."""
    folder = tiny_model(tmp_path_factory.mktemp("tiny-model"))
    size = read_size(folder)
    assert size is not None
    assert size.weights > 1e6
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    return folder


@pytest.fixture
def start(model: Path) -> Iterator[Start]:
    """Starts engines for which LMDeploy builds a FakeTurboMind instead of its native engine."""
    with ExitStack() as stack:

        def begin(reply: Reply = echo, **settings: Any) -> tuple[LmdeployEngine, FakeTurboMind]:
            built: list[FakeTurboMind] = []

            def build(pipeline: Any, model_path: str, backend_config: Any = None, **more: Any) -> Any:
                built.append(FakeTurboMind(model_path, backend_config, reply))
                return built[-1]

            stack.enter_context(mock.patch.object(AsyncEngine, "_build_turbomind", build))
            stack.enter_context(mock.patch.object(turbomind, "is_available", return_value=True))
            stack.enter_context(mock.patch("lmdeploy.archs.autoget_backend", return_value="turbomind"))
            settings = {"model": str(model), "session_len": 512, "max_batch_size": 4, **settings}
            engine = LmdeployEngine(LmdeploySettings(**settings))
            stack.callback(engine.close)
            return engine, built[-1]

        yield begin
