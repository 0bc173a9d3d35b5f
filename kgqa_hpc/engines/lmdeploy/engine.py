"""LMDeploy 0.18 in the process: one GPU (or `tp` of them) per worker, always full.

Each request is a coroutine on LMDeploy's event loop. One batch is in the engine and somewhat more is tokenised
ahead; when an answer is done the next request takes its place, so no request waits for a slower one.
tests/engines/lmdeploy runs the real LMDeploy with a stand-in for its native engine; speed needs a GPU.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.engine import EngineInfo, Finish, Readiness, Request, Response, installed
from kgqa_hpc.engines.lmdeploy.answer_format import answer_in, compile_all, compiler_for, response_format
from kgqa_hpc.engines.lmdeploy.loading import load
from kgqa_hpc.engines.lmdeploy.memory import read_size
from kgqa_hpc.engines.lmdeploy.settings import LmdeploySettings
from kgqa_hpc.engines.mailbox import Mailbox, serve
from kgqa_hpc.engines.model_files import folder_digest, public_name
from kgqa_hpc.engines.schema import Remembered

LOOK_EVERY_S = 2.0  # at the scheduler's ticks
METRICS_EVERY_S = 60.0
STALL_S = 60.0  # without a tick or an answer: a hang, for the scheduler ticks at every step
HOPELESS = 32  # engine failures in a row, without any success, that end the engine
# The request's own fault (lmdeploy.serve.core.exceptions.ErrorCode); anything else is the engine's.
_REQUESTS_FAULT = {"context_length_exceeded", "invalid_request", "preprocess_failed", "unsupported_feature"}
_FINISH: dict[str, Finish] = {"stop": "stop", "length": "length", "abort": "abort"}


class LmdeployEngine:
    """Implements `Engine`. Raises EngineConfigError when LMDeploy or the model cannot run as configured."""

    name = "lmdeploy"
    Settings = LmdeploySettings

    def __init__(self, config: LmdeploySettings, memory: Path | None = None) -> None:
        self._config = config
        loaded = load(config)
        self._pipe = loaded.pipe
        self._engine = self._pipe.async_engine
        self._loop: asyncio.AbstractEventLoop = self._pipe.internal_thread.loop
        self._places = asyncio.Semaphore(loaded.batch)
        self._waiting: set[asyncio.Task[None]] = set()
        self._failures = 0
        self.progress = 0  # ticks of LMDeploy's scheduler and tokens of finished answers
        self.info = EngineInfo(
            name="lmdeploy",
            version=_version(),
            model=public_name(str(loaded.folder) if "snapshots" in loaded.folder.parts else config.model),
            digest=folder_digest(loaded.folder) if config.revision is None else config.revision,
            quantisation=f"{_loaded_format(self._pipe)} kv{config.quant_policy or 16}".strip(),
            settings=config.recorded("backend", "enable_prefix_caching"),
            max_batch=loaded.batch,
            window=loaded.window,
            stall_s=STALL_S,
            extra={
                "backend": config.backend,
                "session_len": config.session_len,
                **_sizes(loaded.folder, config),
            },
        )
        self._formats = Remembered(lambda schema: response_format(schema, config.thinking))
        self._ticking = asyncio.run_coroutine_threadsafe(self._watch_scheduler(), self._loop)

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        if self._config.guided and schemas:
            compile_all([self._formats(schema) for schema in schemas], compiler_for(self._pipe))

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        yield from serve(
            mailbox,
            self.info.window,
            begin=lambda r: asyncio.run_coroutine_threadsafe(self._serve(r, mailbox), self._loop),
            abort=lambda: asyncio.run_coroutine_threadsafe(self._stop_all(), self._loop),
        )

    def close(self) -> None:
        if self._pipe is not None:
            self._ticking.cancel()
            asyncio.run_coroutine_threadsafe(self._stop_all(), self._loop).result()
            self._pipe.close()
            self._pipe = None

    @classmethod
    def probe(cls) -> Readiness:
        """The package, found by metadata and path and never imported: it would load torch."""
        return installed("lmdeploy", "lmdeploy")

    async def _serve(self, request: Request, mailbox: Mailbox) -> None:
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:
            response = Response(request.id, "", "abort")
        except Exception as problem:  # noqa: BLE001 - trouble with one request is its answer
            response = self._failed(request, problem)
        if response.finish in ("stop", "length"):
            self._failures = 0
        if self._failures >= HOPELESS:
            mailbox.fail(RuntimeError(f"LMDeploy failed {HOPELESS} times in a row: {response.error}"))
        else:
            mailbox.answer(response)

    async def _answer(self, request: Request) -> Response:
        config = self._config
        session = self._engine.session_mgr.get()
        try:
            prepared = await self._engine.preprocess(
                messages=list(request.messages),
                session_id=session,
                gen_config=self._generation(request),
                chat_template_kwargs=dict(config.chat_template_kwargs or {}),
                reasoning_effort=config.reasoning_effort,
            )
            # More than the context holds takes a path of LMDeploy's that has crashed for others (#4944).
            room = config.session_len - prepared.input_token_len
            prepared.gen_config.max_new_tokens = min(prepared.gen_config.max_new_tokens, room)
            await self._enter()
        except BaseException:
            self._engine.session_mgr.remove(session)
            raise
        try:
            return await self._collect(request, prepared)
        finally:
            self._places.release()

    async def _enter(self) -> None:
        """Wait for a place in the batch; only here may a request be cancelled without asking LMDeploy."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            await self._places.acquire()
        finally:
            self._waiting.discard(task)

    async def _collect(self, request: Request, prepared: Any) -> Response:
        pieces: list[str] = []
        last: Any = None
        async for last in self._engine.generate(prepared, stream_response=False):
            pieces.append(last.response)
        if request.schema is not None and self._config.guided and prepared.gen_config.response_format is None:
            raise RuntimeError("LMDeploy dropped the schema of this request (its log says why)")
        text = answer_in("".join(pieces), self._config.thinking)
        if last is None or last.finish_reason is None:
            return Response(request.id, text, "abort")
        self.progress += last.generate_token_len
        return Response(
            request.id,
            text,
            _FINISH.get(last.finish_reason, "error"),
            last.input_token_len,
            last.generate_token_len,
            last.cached_tokens or 0,
        )

    def _generation(self, request: Request) -> Any:
        from lmdeploy import GenerationConfig

        config = self._config
        values: dict[str, Any] = {
            # Unless do_sample is set, LMDeploy is greedy and silently ignores temperature and seed.
            "max_new_tokens": request.max_tokens,
            "do_sample": request.temperature > 0,
            "temperature": request.temperature or 1.0,
            "random_seed": request.seed,
            **(config.generation.values() if config.generation else {}),
        }
        if request.schema is not None and config.guided:
            values["response_format"] = self._formats(request.schema)
            if config.thinking is not None:
                values["skip_special_tokens"] = False  # the marks of the thought are such tokens
        return GenerationConfig(**values)

    def _failed(self, request: Request, problem: Exception) -> Response:
        code = getattr(getattr(problem, "code", None), "value", type(problem).__name__)
        if code not in _REQUESTS_FAULT:
            self._failures += 1
        return Response(request.id, "", "error", error=f"{code}: {problem}")

    async def _stop_all(self) -> None:
        for task in list(self._waiting):
            task.cancel()
        await self._engine.stop_all_session()

    async def _watch_scheduler(self) -> None:
        """Ticks are progress; and a line a minute in the engine's log: what the GPU is doing."""
        told, tick = time.monotonic(), 0
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                now = await self._engine.get_schedule_metrics()
            except Exception as problem:  # noqa: BLE001 - ending here would look like a hang
                print(f"lmdeploy: cannot ask its scheduler: {problem!r}", flush=True)
                continue
            if now is None:
                continue
            self.progress += max(now.scheduler_tick - tick, 0)
            tick = now.scheduler_tick
            if time.monotonic() - told >= METRICS_EVERY_S:
                told = time.monotonic()
                print(
                    f"lmdeploy: {now.active_seqs} active, {now.waiting_seqs} waiting, "
                    f"KV cache {now.cache_usage:.0%} full, prefix hits {now.prefix_cache_hit_rate:.0%}",
                    flush=True,
                )


def _sizes(folder: Path, config: LmdeploySettings) -> dict[str, float]:
    """What `kgqa bench` compares with the card's limits."""
    size = read_size(folder)
    if size is None:
        return {}
    token = size.kv_bytes(config.quant_policy, config.tp)
    return {"weights_bytes": size.weights / config.tp, "kv_bytes_per_token": token}


def _loaded_format(pipe: Any) -> str:
    """How the weights were stored, as LMDeploy found them; empty for plain ones."""
    native = getattr(pipe.async_engine.engine, "engine_config", pipe.backend_config)
    found = getattr(native, "model_format", None) or pipe.backend_config.model_format
    if found is None:
        quantised = getattr(pipe.async_engine.hf_cfg, "quantization_config", None)
        found = quantised.get("quant_method") if isinstance(quantised, dict) else None
    return "" if found in (None, "hf") else str(found)


def _version() -> str:
    import lmdeploy

    return str(lmdeploy.__version__)
