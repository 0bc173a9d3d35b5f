"""`kgqa bench`: speed of a configuration's engine in its own process at several batch sizes, in the steady state.

The prompts are real: those of a run, or of a small sample of the configured graph. A row of the result sends at least
three times as many different prompts as it keeps in flight. It counts the time from the first to the last moment with a
full batch; an answer that overlaps a bound of this time counts by its share. The time to the first token is measured
with requests for one token, because engines return whole answers; the prefill speed is the number of prompt tokens per
second of these requests. The unguided row repeats the best guided batch size.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from kgqa_hpc.config import load_config
from kgqa_hpc.engines.engine import EngineSettings, Request, Response
from kgqa_hpc.engines.process import EngineProcess, trial_log
from kgqa_hpc.errors import EngineError, InputError
from kgqa_hpc.runs import open_run
from kgqa_hpc.steps import STEPS
from kgqa_hpc.trials.preview import Prompts, prompts_of, small_sample

STALL_S = 600.0
TIMES = 3  # number of prompts of a row, as a multiple of its batch
ALONE = 4  # number of prompts of a row with a batch of 1
FIRST = 32  # largest number of requests for one token
SWEEP = (1.0, 1.5, 2.0)  # measured batch sizes, as multiples of the engine's own batch
LOOK_EVERY_S = 0.2  # seconds between two samples of the GPU's load


def bench(
    config_file: Path,
    run: Path | None,
    *,
    number: int | None = None,
    batches: list[int] | None = None,
    row_done: Callable[[dict[str, Any]], None] = lambda document: None,
) -> dict[str, Any]:
    """Measure the configuration's engine with prompts of `run`; without a run, with prompts over the configured graph.

    `row_done` is called with the document after each row.
    """
    config = load_config(config_file)
    steps = config.passes[0].steps
    if not any(STEPS.get(step.use).asks_with(step) for step in steps):
        raise InputError(
            f"step {steps[0].label} asks no model, so there is nothing to measure",
            "name a configuration whose steps ask an engine",
        )
    with tempfile.TemporaryDirectory(prefix="kgqa-bench-") as scratch, trial_log() as log:

        def prompts(count: int) -> Prompts:
            if run is None:
                sampled, anchors = small_sample(config, count, Path(scratch, "run"))
                return prompts_of(anchors, sampled, count)
            opened, of_run = open_run(run)
            return prompts_of(opened.anchors, of_run, count)

        engine = config.engine_of(config.passes[0].name)
        return measure(engine, prompts, log, batches, number, row_done)


class Exchange(NamedTuple):
    """A response with the times at which its request was sent and answered (seconds, time.monotonic)."""

    sent: float
    answered: float
    response: Response


@dataclass(slots=True)
class Timed:
    """Exchanges of a row, and start and end of the time with a full batch."""

    start: float
    end: float = 0.0
    steady: bool = False
    exchanges: list[Exchange] = field(default_factory=list)

    def rate(self, count: Callable[[Response], float]) -> float:
        """The sum of `count(response)` per second between start and end."""
        total = 0.0
        for sent, answered, response in self.exchanges:
            inside = max(min(answered, self.end) - max(sent, self.start), 0.0)
            total += count(response) * inside / max(answered - sent, 1e-9)
        return total / (self.end - self.start) if self.end > self.start else 0.0


def measure(
    settings: EngineSettings,
    prompts: Callable[[int], Prompts],
    log: Path,
    batches: Sequence[int] | None = None,
    number: int | None = None,
    row_done: Callable[[dict[str, Any]], None] = lambda document: None,
) -> dict[str, Any]:
    """The measurement as plain data (docs/guide/engines.md, "kgqa bench"); `row_done` is called with it after each row.

    `prompts(n)` returns at most n requests. `batches` defaults to 1 and to 1, 1.5 and 2 times the engine's batch,
    `number` (prompts per row) to three times the row's batch. Raises EngineConfigError, and EngineError when the engine
    dies or answers no request of a row.
    """
    engine = EngineProcess(settings, log, STALL_S)
    try:
        began = time.monotonic()
        info = engine.start()
        load_s = round(time.monotonic() - began, 2)
        fixed = settings.with_batch(info.max_batch) is None
        sweep = [max(round(info.max_batch * times), 1) for times in (SWEEP[:1] if fixed else SWEEP)]
        sizes = sorted(set(batches or [1, *sweep]))
        needed = {size: number or (TIMES * size if size > 1 else ALONE) for size in sizes}
        source = prompts(sum(needed[size] + min(size, FIRST) for size in (*sizes, max(sizes))) + 2)
        supply = enumerate(cycle(source.requests))
        schemas = list({id(r.schema): r.schema for r in source.requests if r.schema is not None}.values())

        def take(number: int, **changes: Any) -> list[Request]:
            """Take the next requests, with new ids that begin with their numbers."""
            return [
                request._replace(id=f"{n}/{request.id}", **changes) for n, request in islice(supply, number)
            ]

        began = time.monotonic()
        engine.preflight(schemas)
        _push(engine, take(1), 1)  # warms the engine up
        document: dict[str, Any] = {
            "format": "kgqa-bench",
            "version": 2,
            "engine": info.provenance(),
            "gpu": None,
            "load_s": load_s,
            "preflight_s": round(time.monotonic() - began, 2),
            "steps": list(source.steps),
        }
        rows: list[dict[str, Any]] = []
        with GpuWatch(info.gpu_uuid) as gpu:
            document["gpu"] = gpu.name or None
            for mode in ("guided", "unguided"):
                for size in sizes if mode == "guided" else [document["best"]["batch"]]:
                    larger = settings.with_batch(max(sizes)) if size > engine.info.max_batch else None
                    if larger is not None:
                        engine.close()
                        engine = EngineProcess(larger, log, STALL_S)
                        engine.start()
                        engine.preflight(schemas)
                        _push(engine, take(1), 1)
                    rows.append(_row(engine, mode, size, take, needed[size], len(source.requests), gpu))
                    document |= {"rows": list(rows), **_summary(rows, source)}
                    row_done(dict(document))
        engine.close()
        return document
    finally:
        engine.kill()


def _push(engine: EngineProcess, requests: Sequence[Request], in_flight: int) -> Timed:
    """Send all requests with at most `in_flight` at a time, and wait for the last answer."""
    waiting, sent = list(reversed(requests)), dict[str, float]()
    timed = Timed(time.monotonic())
    while waiting or sent:
        batch = [waiting.pop() for _ in range(min(in_flight - len(sent), len(waiting)))]
        now = time.monotonic()
        sent.update((request.id, now) for request in batch)
        engine.send(batch)
        if not timed.steady and len(sent) == in_flight:
            timed.start, timed.steady = now, True
        for response in engine.receive(1.0):
            now = time.monotonic()
            timed.exchanges.append(Exchange(sent.pop(response.id), now, response))
        if not timed.end and not waiting and len(sent) < in_flight:
            timed.end = now
    return timed


def _row(
    engine: EngineProcess,
    mode: str,
    size: int,
    take: Callable[..., list[Request]],
    number: int,
    different: int,
    gpu: GpuWatch,
) -> dict[str, Any]:
    reading = _push(engine, take(min(size, FIRST), max_tokens=1, schema=None), size)
    reading.end = max(exchange.answered for exchange in reading.exchanges)
    timed = _push(engine, take(number, **({} if mode == "guided" else {"schema": None})), size)
    answered = [e.response for e in timed.exchanges if e.response.finish in ("stop", "length")]
    if not answered:
        words = next((e.response.error for e in timed.exchanges if e.response.error), "no answer")
        raise EngineError(f"all {number} requests failed: {words}", "mend it and measure again")
    numbers = (int(e.response.id.split("/")[0]) for e in (*reading.exchanges, *timed.exchanges))
    prompt = sum(response.prompt_tokens for response in answered)
    written = sum(response.completion_tokens for response in answered)
    return {
        "mode": mode,
        "batch": size,
        "requests": number,
        "failed": number - len(answered),
        # Prompts sent before: they may be in the prefix cache.
        "repeated": sum(n >= different for n in numbers),
        "steady": timed.steady,
        "seconds": round(timed.end - timed.start, 3),
        "requests_per_s": round(timed.rate(lambda r: r.finish in ("stop", "length")), 4),
        "decode_tokens_per_s": round(timed.rate(lambda r: r.completion_tokens), 2),
        "prefill_tokens_per_s": round(reading.rate(lambda r: r.prompt_tokens - r.cached_tokens), 2),
        "first_token_s": _spread(reading),
        "latency_s": _spread(timed),
        "prefix_hit_share": round(sum(r.cached_tokens for r in answered) / prompt, 4) if prompt else None,
        "mean_answer_tokens": round(written / len(answered), 1),
        **gpu.between(timed.start, timed.end),
    }


def _spread(timed: Timed) -> dict[str, float]:
    seconds = sorted(round(answered - sent, 4) for sent, answered, _ in timed.exchanges)
    return {"median": round(median(seconds), 4), "p95": seconds[int(0.95 * len(seconds))], "max": seconds[-1]}


def _summary(rows: Sequence[dict[str, Any]], source: Prompts) -> dict[str, Any]:
    guided = (row for row in rows if row["mode"] == "guided")
    # Some engines report no tokens.
    best = max(guided, key=lambda r: (r["decode_tokens_per_s"], r["requests_per_s"]))
    free = next((r["decode_tokens_per_s"] for r in rows if r["mode"] == "unguided"), None)
    tokens = best["mean_answer_tokens"] * source.per_item
    return {
        "best": {
            **{key: best[key] for key in ("batch", "decode_tokens_per_s", "mean_answer_tokens")},
            "tokens_per_item": round(tokens, 1),
        },
        # Share of decoding time that the grammar costs; negative if guided decoding was faster (shorter answers, or
        # noise).
        "grammar_share": round(1 - best["decode_tokens_per_s"] / free, 4) if free else None,
    }


class GpuWatch:
    """Sampler of load and memory of a GPU; reports no values on a machine without a GPU.

    `uuid` comes from the engine; without it, the first GPU of CUDA_VISIBLE_DEVICES or of the driver is sampled.
    """

    def __init__(self, uuid: str = "") -> None:
        self.name = ""
        self._uuid = uuid
        self._samples: list[tuple[float, int | None, int]] = []  # (time, busy %, bytes of memory)
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> GpuWatch:
        with suppress(Exception):  # no driver, no library or no permission: no samples
            import pynvml

            pynvml.nvmlInit()
            handle = _device(pynvml, self._uuid)
            name = pynvml.nvmlDeviceGetName(handle)
            self.name = name.decode() if isinstance(name, bytes) else str(name)
            self._thread = threading.Thread(target=self._look, args=(pynvml, handle), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def between(self, start: float, end: float) -> dict[str, Any]:
        """Busy share and peak memory from `start` to `end` (time.monotonic); None without samples."""
        samples = [sample for sample in list(self._samples) if start <= sample[0] <= end]
        busy = [share for _, share, _ in samples if share is not None]
        return {
            "gpu_busy": sum(busy) / len(busy) / 100 if busy else None,
            "gpu_memory_bytes": max((used for _, _, used in samples), default=None),
        }

    def _look(self, nvml: Any, handle: Any) -> None:
        while not self._done.wait(LOOK_EVERY_S):
            busy = None
            with suppress(nvml.NVMLError):  # a MIG slice reports only its memory
                busy = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            with suppress(nvml.NVMLError):
                used = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
                self._samples.append((time.monotonic(), busy, used))


def _device(nvml: Any, uuid: str) -> Any:
    """The driver's handle of a GPU by UUID: the driver numbers GPUs by bus position and CUDA by speed."""
    device = uuid or os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    if device.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(device)
    for kind in ("GPU", "MIG") if uuid else ():
        with suppress(nvml.NVMLError):
            return nvml.nvmlDeviceGetHandleByUUID(f"{kind}-{uuid}")
    return nvml.nvmlDeviceGetHandleByIndex(int(device) if device.isdigit() else 0)


def header(document: dict[str, Any]) -> list[str]:
    """The lines above the rows."""
    engine = " ".join(part for key, part in document["engine"].items() if key in ("name", "version", "model"))
    return [
        f"engine    {engine} on {document['gpu'] or 'no GPU'}",
        f"start     {document['load_s']:.1f} s to load, {document['preflight_s']:.2f} s to compile the schemas",
        "",
        "mode      batch  decode tok/s  prefill tok/s  requests/s  first s  total s  busy  prefix  lost",
    ]


def row_line(row: dict[str, Any]) -> str:
    """A row of the table."""
    seconds = [f"{row[key]['median']:.2f}" for key in ("first_token_s", "latency_s")]
    notes = "" if row["steady"] else "  never full"
    notes += f"  {row['repeated']} prompts sent before" if row["repeated"] else ""
    return (
        f"{row['mode']:<9} {row['batch']:>5}  {row['decode_tokens_per_s']:>12,.1f}  "
        f"{row['prefill_tokens_per_s']:>13,.1f}  {row['requests_per_s']:>10.2f}  {seconds[0]:>7}  {seconds[1]:>7}  "
        f"{_share(row['gpu_busy']):>4}  {_share(row['prefix_hit_share']):>6}  {row['failed']:>4}{notes}"
    )


def summary(document: dict[str, Any]) -> list[str]:
    """The lines below the rows."""
    best = document["best"]
    return [
        "",
        f"best      {best['decode_tokens_per_s']:,.1f} answer tokens/s guided, {best['batch']} requests in flight",
        f"grammar   {_share(document['grammar_share'])} of the time of an answer",
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
