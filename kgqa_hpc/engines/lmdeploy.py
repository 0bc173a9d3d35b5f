"""LMDeploy 0.18 in the process: one GPU (or `tp` of them) per worker, always full.

Each request is a coroutine of its own on LMDeploy's event loop. A few batches of them are tokenised ahead,
one batch is in the engine; when an answer is done the next request takes its place, so nothing ever waits for
a slowest one. What LMDeploy would do silently is refused: falling back to its PyTorch engine, answering a
whole run with errors. Only a GPU proves speed; tests/engines/test_lmdeploy.py proves the rest with the real
LMDeploy and a stand-in for its native engine.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.config import LmdeployEngineConfig
from kgqa_hpc.engines.engine import EngineInfo, Finish, Request, Response
from kgqa_hpc.engines.mailbox import Intake
from kgqa_hpc.errors import EngineConfigError

METRICS_EVERY_S = 60.0
HOPELESS = 32  # engine failures in a row, without any success, that end the engine
# The request's own fault (lmdeploy.serve.core.exceptions.ErrorCode); anything else is the engine's.
_REQUESTS_FAULT = {"context_length_exceeded", "invalid_request", "preprocess_failed", "unsupported_feature"}
_LOCAL_RANKS = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID")
_FINISH: dict[str, Finish] = {"stop": "stop", "length": "length", "abort": "abort"}


class LmdeployEngine:
    """Implements `Engine`. Raises EngineConfigError when LMDeploy or the model cannot run as configured."""

    def __init__(self, config: LmdeployEngineConfig) -> None:
        pin_gpu(config.tp)
        self._config = config
        self._pipe = _load(config)
        self._engine = self._pipe.async_engine
        self._loop: asyncio.AbstractEventLoop = self._pipe.internal_thread.loop
        batch = int(self._pipe.backend_config.max_batch_size)
        self._places = asyncio.Semaphore(batch)
        self._waiting: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._intake = Intake()
        self.info = EngineInfo(
            name="lmdeploy",
            version=_version(),
            model=public_name(config.model),
            digest=config.revision or folder_digest(Path(config.model)),
            quantisation=" ".join(filter(None, (config.model_format, f"kv{config.quant_policy or 16}"))),
            guided=True,
            max_batch=batch,
            extra={"backend": config.backend, "session_len": config.session_len},
        )
        asyncio.run_coroutine_threadsafe(self._tell_metrics(), self._loop)

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        from lmdeploy._guided_decoding import ensure_response_format_compilable

        for schema in schemas:
            try:
                ensure_response_format_compilable(_response_format(schema))
            except Exception as problem:  # noqa: BLE001 - whatever it is, the user hears it
                raise EngineConfigError(
                    f"schema: LMDeploy cannot compile it: {problem}", "simplify the prompt's schema"
                ) from None

    def generate(self, requests: Iterable[Request]) -> Iterator[Response]:
        ahead = self._config.wave * self.info.max_batch
        intake = self._intake = Intake.of(requests, ahead)
        running = 0
        while running or not intake.ended:
            new, answers = intake.wait(room=ahead - running)
            running += len(new) - len(answers)
            for request in new:
                asyncio.run_coroutine_threadsafe(self._serve(request, intake), self._loop)
            yield from answers
            waiting = intake.take_cancel()
            if waiting is not None:
                yield from (Response(request.id, "", "abort") for request in waiting)
                asyncio.run_coroutine_threadsafe(self._stop_all(), self._loop)
                while running:
                    answers = intake.wait(room=0)[1]
                    running -= len(answers)
                    yield from answers
                return

    def count_tokens(self, text: str) -> int:
        return len(self._engine.tokenizer.encode(text, add_bos=False))

    def cancel(self) -> None:
        self._intake.cancel()

    def close(self) -> None:
        if self._pipe is not None:
            asyncio.run_coroutine_threadsafe(self._stop_all(), self._loop).result()
            self._pipe.close()
            self._pipe = None

    async def _serve(self, request: Request, intake: Intake) -> None:
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:
            response = Response(request.id, "", "abort")
        except Exception as problem:  # noqa: BLE001 - trouble with one request is its answer
            response = self._failed(request, problem)
        if response.finish in ("stop", "length"):
            self._failures = 0
        if self._failures >= HOPELESS:
            intake.fail(RuntimeError(f"LMDeploy failed {HOPELESS} times in a row: {response.error}"))
        else:
            intake.answer(response)

    async def _answer(self, request: Request) -> Response:
        session = self._engine.session_mgr.get()
        try:
            prepared = await self._engine.preprocess(
                messages=list(request.messages), session_id=session, gen_config=_generation(request)
            )
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
        if last is None or last.finish_reason is None:
            return Response(request.id, "".join(pieces), "abort")
        return Response(
            request.id,
            "".join(pieces),
            _FINISH.get(last.finish_reason, "error"),
            last.input_token_len,
            last.generate_token_len,
            last.cached_tokens or 0,
        )

    def _failed(self, request: Request, problem: Exception) -> Response:
        code = getattr(getattr(problem, "code", None), "value", type(problem).__name__)
        if code not in _REQUESTS_FAULT:
            self._failures += 1
        return Response(request.id, "", "error", error=f"{code}: {problem}")

    async def _stop_all(self) -> None:
        for task in list(self._waiting):
            task.cancel()
        await self._engine.stop_all_session()

    async def _tell_metrics(self) -> None:
        """A line a minute in the engine's log: what the GPU is doing."""
        while True:
            await asyncio.sleep(METRICS_EVERY_S)
            now = await self._engine.get_schedule_metrics()
            if now is not None:
                print(
                    f"lmdeploy: {now.active_seqs} active, {now.waiting_seqs} waiting, "
                    f"KV cache {now.cache_usage:.0%} full, prefix hits {now.prefix_cache_hit_rate:.0%}",
                    flush=True,
                )


def pin_gpu(tp: int) -> None:
    """One GPU per worker where the launcher did not see to it. Must come before torch is imported."""
    rank = next((os.environ[name] for name in _LOCAL_RANKS if name in os.environ), None)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if rank is None or tp > 1 or (visible is not None and "," not in visible):
        return
    devices = visible.split(",") if visible else None
    os.environ["CUDA_VISIBLE_DEVICES"] = devices[int(rank) % len(devices)] if devices else rank


def public_name(model: str) -> str:
    """The hub id, or the folder's name; of a hub cache folder the id it stands for. Never a path."""
    if cached := re.search(r"models--([^/]+)--([^/]+)/snapshots/", model):
        return f"{cached[1]}/{cached[2]}"
    return Path(model).name if Path(model).exists() or model.count("/") > 1 else model


def folder_digest(folder: Path) -> str:
    """What tells one local model from another, without reading 40 GB at every start.

    The revision of a hub cache folder, else the sha256 of its JSON files and of all names and sizes.
    """
    if cached := re.search(r"/snapshots/([0-9a-f]{40})", str(folder.resolve())):
        return cached[1]
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.is_file()):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        if path.suffix == ".json":
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _load(config: LmdeployEngineConfig) -> Any:
    try:
        import lmdeploy
    except ImportError as problem:
        raise EngineConfigError(
            f"the lmdeploy engine cannot be imported: {problem}",
            "pip install 'kgqa_hpc[lmdeploy]' on a machine with a GPU, or use containers/llm.def",
        ) from None
    if config.backend == "turbomind":
        _refuse_fallback(config.model)
    try:
        backend = _backend_config(config)
        pipe = lmdeploy.pipeline(config.model, backend_config=backend, log_level="WARNING")
    except Exception as problem:
        raise EngineConfigError(
            f"LMDeploy cannot load {public_name(config.model)}: {type(problem).__name__}: {problem}",
            "the engine's log has the whole story; is the model complete, and does it fit the GPU?",
        ) from problem
    if type(pipe.backend_config).__name__ != type(backend).__name__:
        pipe.close()
        raise EngineConfigError(
            "LMDeploy fell back to its PyTorch engine", "engine.backend: pytorch allows it"
        )
    return pipe


def _backend_config(config: LmdeployEngineConfig) -> Any:
    import lmdeploy

    settings: dict[str, Any] = {
        "session_len": config.session_len,
        "cache_max_entry_count": config.cache_max_entry_count,
        "enable_prefix_caching": config.enable_prefix_caching,
        "quant_policy": config.quant_policy,
        "tp": config.tp,
        "revision": config.revision,
    }
    if config.max_batch_size is not None:  # else LMDeploy chooses by the GPU
        settings["max_batch_size"] = config.max_batch_size
    if config.backend == "pytorch":
        return lmdeploy.PytorchEngineConfig(**settings)
    return lmdeploy.TurbomindEngineConfig(**settings, model_format=config.model_format)


def _refuse_fallback(model: str) -> None:
    """LMDeploy only warns when TurboMind cannot run, and takes its slower PyTorch engine. Not here."""
    from lmdeploy import turbomind

    if not turbomind.is_available():
        reason = getattr(turbomind, "_import_error", None)
        raise EngineConfigError(
            f"LMDeploy's TurboMind cannot run here: {reason}",
            "it needs an NVIDIA GPU and driver; engine.backend: pytorch uses LMDeploy's other engine",
        )
    from lmdeploy.archs import autoget_backend

    if Path(model).exists() and autoget_backend(model) != "turbomind":
        raise EngineConfigError(
            f"TurboMind does not know the architecture of {public_name(model)}",
            "engine.backend: pytorch uses LMDeploy's other engine",
        )


def _generation(request: Request) -> Any:
    from lmdeploy import GenerationConfig

    # Greedy unless do_sample is set; LMDeploy then ignores temperature and seed without a word.
    return GenerationConfig(
        max_new_tokens=request.max_tokens,
        do_sample=request.temperature > 0,
        temperature=request.temperature or 1.0,
        random_seed=request.seed,
        response_format=_response_format(request.schema) if request.schema is not None else None,
    )


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def _version() -> str:
    import lmdeploy

    return str(lmdeploy.__version__)
