"""The LMDeploy engine (LMDeploy 0.18): one GPU (or `tp` of them) per worker, with a full batch at all times.

Each request is a coroutine on LMDeploy's event loop. Besides the batch in the engine, some requests are tokenised
ahead; each completed answer lets the next of them into the batch, so no request waits for a slower one.
tests/engines/lmdeploy runs the real LMDeploy with a stand-in for its native engine; speed needs a GPU.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.engine import EngineInfo, Finish, Request, Response
from kgqa_hpc.engines.grammar import remembered, structural_tag
from kgqa_hpc.engines.lmdeploy_loading import LmdeploySettings, card, load
from kgqa_hpc.engines.mailbox import Mailbox, serve
from kgqa_hpc.engines.model_files import folder_digest, public_name
from kgqa_hpc.engines.models import THOUGHTS, Thought, sampling_of
from kgqa_hpc.errors import EngineConfigError

# Requests in flight per sequence of the batch, so that the next request is tokenised before a slot becomes free.
WINDOW_SHARE = 1.25
LOOK_EVERY_S = 2.0  # seconds between two readings of the scheduler's ticks
METRICS_EVERY_S = 60.0
STALL_S = 60.0  # seconds without a tick or an answer that count as a hang; the scheduler ticks at every step
HOPELESS = 32  # number of failures in a row after which the engine ends
# Error codes caused by the request (lmdeploy.serve.core.exceptions.ErrorCode; EngineConfigError: a schema without a
# grammar); others are failures of the engine.
_REQUESTS_FAULT = {"context_length_exceeded", "invalid_request", "preprocess_failed", "unsupported_feature",
                   "EngineConfigError"}  # fmt: skip
_FINISH: dict[str, Finish] = {"stop": "stop", "length": "length", "abort": "abort"}


class LmdeployEngine:
    """LMDeploy on the worker's own GPUs.

    Raises EngineConfigError when LMDeploy or the model cannot run as configured.
    """

    name = "lmdeploy"
    Settings = LmdeploySettings

    def __init__(self, config: LmdeploySettings, memory: Path | None = None) -> None:
        self._config = config
        self._pipe, folder = load(config)
        from lmdeploy import __version__

        batch = int(self._pipe.backend_config.max_batch_size)
        self._engine = self._pipe.async_engine
        self._loop: asyncio.AbstractEventLoop = self._pipe.internal_thread.loop
        self._slots = asyncio.Semaphore(batch)
        self._waiting: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._sampling = sampling_of(config.model, config.thinking, config.generation)
        self.progress = 0  # sum of the ticks of LMDeploy's scheduler and the tokens of finished answers
        self.info = EngineInfo(
            name="lmdeploy",
            version=__version__,
            model=public_name(str(folder)),
            digest=folder_digest(folder) if config.revision is None else config.revision,
            quantisation=f"{_loaded_format(self._pipe)} kv{config.quant_policy or 16}".strip(),
            settings=config.recorded(
                "backend",
                # The value in effect: LMDeploy turns prefix caching off for some architectures, with a warning.
                enable_prefix_caching=bool(self._engine.backend_config.enable_prefix_caching),
                sampling=self._sampling.added,
            ),
            max_batch=batch,
            window=int(batch * WINDOW_SHARE) + 1,
            stall_s=STALL_S,
            gpu_uuid=card()[1],
        )
        self._thought = self._thought_marks()
        self._formats = remembered(lambda schema: response_format(schema, self._thought))
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

    async def _serve(self, request: Request, mailbox: Mailbox) -> None:
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:
            response = Response(request.id, "", "abort")
        except Exception as problem:  # noqa: BLE001 - an error of one request is its answer
            code = getattr(getattr(problem, "code", None), "value", type(problem).__name__)
            self._failures += code not in _REQUESTS_FAULT
            response = Response(request.id, "", "error", error=f"{code}: {problem}")
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
                chat_template_kwargs=config.template_kwargs,
                reasoning_effort=config.reasoning_effort,
            )
            # A request longer than the context takes a code path of LMDeploy that has crashed (#4944).
            room = config.session_len + config.thought_room - prepared.input_token_len
            prepared.gen_config.max_new_tokens = min(prepared.gen_config.max_new_tokens, room)
            # Wait for a slot in the batch. A request can be cancelled without LMDeploy only while it waits here.
            task = asyncio.current_task()
            assert task is not None
            self._waiting.add(task)
            try:
                await self._slots.acquire()
            finally:
                self._waiting.discard(task)
        except BaseException:
            self._engine.session_mgr.remove(session)
            raise
        try:
            return await self._collect(request, prepared)
        finally:
            self._slots.release()

    async def _collect(self, request: Request, prepared: Any) -> Response:
        pieces: list[str] = []
        last: Any = None
        async for last in self._engine.generate(prepared, stream_response=False):
            pieces.append(last.response)
        if request.schema is not None and self._config.guided and prepared.gen_config.response_format is None:
            raise RuntimeError("LMDeploy dropped the schema of this request (its log says why)")
        thought, text = "", "".join(pieces)
        if self._thought is not None:
            thought, text = self._thought.split(text)
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
            thought=thought if self._config.keep_thoughts else "",
        )

    def _generation(self, request: Request) -> Any:
        from lmdeploy import GenerationConfig

        config = self._config
        temperature = request.temperature or self._sampling.temperature
        values: dict[str, Any] = {
            # Unless do_sample is set, LMDeploy is greedy and silently ignores temperature and seed.
            "max_new_tokens": request.max_tokens + config.thought_room,
            "do_sample": temperature > 0,
            "temperature": temperature or 1.0,
            "random_seed": request.seed,
            **self._sampling.values,
        }
        if request.schema is not None and config.guided:
            values["response_format"] = self._formats(request.schema)
        if self._thought is not None:
            values["skip_special_tokens"] = False  # the marks of a thought are special tokens
        return GenerationConfig(**values)

    def _thought_marks(self) -> Thought | None:
        """The marks around this model's thoughts, as its rendered prompt shows them; None for a model without
        thoughts.
        """
        thinking = self._config.thinking
        if not thinking:
            return None
        family = "gpt-oss" if getattr(self._engine.hf_cfg, "model_type", "") == "gpt_oss" else "qwen3"
        marks = THOUGHTS[family if thinking is True else thinking]
        prompt = self._engine.tokenizer.model.model.apply_chat_template(
            [{"role": "user", "content": "?"}],
            tokenize=False,
            add_generation_prompt=True,
            **self._config.template_kwargs,
        )
        return marks.after(prompt)

    async def _stop_all(self) -> None:
        for task in list(self._waiting):
            task.cancel()
        await self._engine.stop_all_session()

    async def _watch_scheduler(self) -> None:
        """Count the scheduler's ticks as progress, and log the state of the batch every minute."""
        logged, tick = time.monotonic(), 0
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                now = await self._engine.get_schedule_metrics()
            except Exception as problem:  # noqa: BLE001 - the end of this loop would look like a hang
                print(f"lmdeploy: cannot ask its scheduler: {problem!r}", flush=True)
                continue
            if now is None:
                continue
            self.progress += max(now.scheduler_tick - tick, 0)
            tick = now.scheduler_tick
            if time.monotonic() - logged >= METRICS_EVERY_S:
                logged = time.monotonic()
                print(
                    f"lmdeploy: {now.active_seqs} active, {now.waiting_seqs} waiting, "
                    f"KV cache {now.cache_usage:.0%} full, prefix hits {now.prefix_cache_hit_rate:.0%}",
                    flush=True,
                )


def _loaded_format(pipe: Any) -> str:
    """Format of the weights, as LMDeploy detected it; empty for unquantised weights."""
    native = getattr(pipe.async_engine.engine, "engine_config", pipe.backend_config)
    model_format = getattr(native, "model_format", None) or pipe.backend_config.model_format
    if model_format is None:
        quantised = getattr(pipe.async_engine.hf_cfg, "quantization_config", None)
        model_format = quantised.get("quant_method") if isinstance(quantised, dict) else None
    return "" if model_format in (None, "hf") else str(model_format)


def response_format(schema: Mapping[str, Any], thought: Thought | None = None) -> dict[str, Any]:
    """LMDeploy's `response_format` for a schema, with the project's own grammar: JSON at once, or after a thought.

    Raises EngineConfigError for a schema that the grammar cannot express.
    """
    if thought is None:
        return structural_tag(schema)
    begin, end = thought.begin, thought.end
    tag = {"type": "tag", "begin": begin, "content": {"type": "any_text"}, "end": end}
    return structural_tag(schema, (tag, {"type": "const_string", "value": thought.then}))


def compile_all(formats: list[dict[str, Any]], compiler: Any) -> None:
    """Compile every format with the engine's own compiler. Raises EngineConfigError for the first it refuses.

    LMDeploy itself would answer such a request without any schema and only log it.
    """
    from lmdeploy._guided_decoding import compile_response_format

    for form in formats:
        try:
            compile_response_format(compiler, form)
        except Exception as problem:  # noqa: BLE001 - any error is reported to the user
            raise EngineConfigError(
                f"schema: LMDeploy cannot compile it: {problem}",
                "simplify the prompt's schema, or set engine.structured: none",
            ) from None


def compiler_for(pipe: Any) -> Any:
    """The compiler that will serve the requests: TurboMind's own, else xgrammar with the same tokenizer.

    Raises EngineConfigError for a tokenizer that no grammar can be made for; LMDeploy itself would go on
    without any.
    """
    engine = pipe.async_engine
    try:
        compiler = getattr(engine.engine, "grammar_compiler", None)
        if compiler is not None:
            return compiler
        import xgrammar

        tokenizer = engine.tokenizer.model.model
        size = max(len(tokenizer), getattr(engine.hf_cfg, "vocab_size", 0) or 0)
        return xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=size))
    except Exception as problem:  # noqa: BLE001 - any error is reported to the user
        raise EngineConfigError(
            f"LMDeploy cannot guide this model's answers: {type(problem).__name__}: {problem}",
            "set engine.structured: none; the parser checks the answers",
        ) from None
