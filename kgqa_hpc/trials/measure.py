"""Send prompts to an engine in its own process, several batch sizes, guided and not, and measure.

First-token time is measured with requests for one token, because answers come whole; prefill speed is the
tokens per second that these requests read. Decoding speed is the tokens per second of all answers together.
`GpuWatch` samples the GPU meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Request, Response
from kgqa_hpc.engines.process import EngineProcess

LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Card:
    """A card's memory bandwidth (bytes/s) and dense 16-bit tensor throughput (FLOP/s), by its data sheet."""

    bandwidth: float
    flops: float


# NVIDIA's data sheets; a name is looked for in what the driver calls the card, longest first.
CARDS = {
    "RTX A6000": Card(768e9, 154.8e12),
    "L40S": Card(864e9, 362e12),
    "A100-SXM4-40GB": Card(1555e9, 312e12),
    "A100-SXM4-80GB": Card(2039e9, 312e12),
    "A100 80GB PCIe": Card(1935e9, 312e12),
    "H100 PCIe": Card(2000e9, 756e12),
    "H100 NVL": Card(3900e9, 835e12),
    "H100 80GB HBM3": Card(3350e9, 989e12),
    "H200": Card(4800e9, 989e12),
    "B200": Card(8000e9, 2250e12),
}


def card_of(name: str) -> Card | None:
    """The card with this name; None if the table lacks it."""
    matches = (card for card in sorted(CARDS, key=len, reverse=True) if card in name)
    return next((CARDS[card] for card in matches), None)


class GpuWatch:
    """Samples load and memory of the first visible GPU while it is open; without a GPU it reports so."""

    def __init__(self) -> None:
        self.name = ""
        self._busy: list[int] = []
        self._memory = 0
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> GpuWatch:
        with suppress(Exception):  # no driver, no library, no right to ask: nothing to look at
            import pynvml

            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            name = pynvml.nvmlDeviceGetName(handle)
            self.name = name.decode() if isinstance(name, bytes) else str(name)
            self._thread = threading.Thread(target=self._look, args=(pynvml, handle), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def take(self) -> dict[str, Any]:
        """Busy share and most memory since the last call; None where nothing was seen."""
        busy, self._busy = self._busy, []
        memory, self._memory = self._memory, 0
        return {
            "gpu_busy": sum(busy) / len(busy) / 100 if busy else None,
            "gpu_memory_bytes": memory or None,
        }

    def _look(self, nvml: Any, handle: Any) -> None:
        while not self._done.wait(LOOK_EVERY_S):
            with suppress(nvml.NVMLError):
                self._busy.append(int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu))
                self._memory = max(self._memory, int(nvml.nvmlDeviceGetMemoryInfo(handle).used))


STALL_S = 600.0


@dataclass(slots=True)
class Timed:
    """Requests that went through together: seconds in all, seconds of each, and what came back."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)

    def rate(self, tokens: int) -> float:
        return tokens / self.seconds if self.seconds else 0.0


def measure(
    settings: EngineSettings,
    requests: Sequence[Request],
    log: Path,
    batches: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The whole measurement as plain data (docs/guide/engines.md, "kgqa bench").

    `requests` are sent once for each batch size and mode; `batches` defaults to 1, half and all of what the
    engine works on at once. Raises EngineConfigError, EngineDied.
    """
    with GpuWatch() as gpu, EngineProcess(settings, log, STALL_S) as engine:
        began = time.monotonic()
        info = engine.start()
        load_s = time.monotonic() - began
        began = time.monotonic()
        schemas = {id(request.schema): request.schema for request in requests if request.schema is not None}
        engine.preflight(list(schemas.values()))
        preflight_s = time.monotonic() - began
        sizes = batches or sorted({1, max(info.max_batch // 2, 1), info.max_batch})
        _push(engine, [_renamed(requests[0], "warm")], 1)
        gpu.take()
        first_tokens = [_first_tokens(engine, requests, size) for size in sizes]
        rows = [
            _row(mode, size, _push(engine, _variant(requests, mode, size), size), timing, info, gpu)
            for size, timing in zip(sizes, first_tokens, strict=True)
            for mode in ("guided", "unguided")
        ]
        return _document(info, gpu, rows, load_s, preflight_s)


def _push(engine: EngineProcess, requests: Sequence[Request], in_flight: int) -> Timed:
    """Send all requests with a bounded number in flight; return the time of each from sending to its answer."""
    timed, sent = Timed(), dict[str, float]()
    waiting = list(reversed(requests))
    began = time.monotonic()
    while waiting or sent:
        batch = [waiting.pop() for _ in range(min(in_flight - len(sent), len(waiting)))]
        now = time.monotonic()
        sent.update((request.id, now) for request in batch)
        engine.send(batch)
        for response in engine.receive(1.0):
            timed.latencies.append(time.monotonic() - sent.pop(response.id))
            timed.responses.append(response)
    timed.seconds = time.monotonic() - began
    return timed


def _first_tokens(engine: EngineProcess, requests: Sequence[Request], size: int) -> Timed:
    single = [
        _renamed(request, f"first-{size}")._replace(max_tokens=1, schema=None)
        for request in requests[: max(size, 4)]
    ]
    return _push(engine, single, size)


def _variant(requests: Sequence[Request], mode: str, size: int) -> list[Request]:
    named = [_renamed(request, f"{mode}-{size}") for request in requests]
    return named if mode == "guided" else [request._replace(schema=None) for request in named]


def _renamed(request: Request, stem: str) -> Request:
    return request._replace(id=f"{stem}/{request.id}")


def _row(
    mode: str, size: int, timed: Timed, first_token: Timed, info: EngineInfo, gpu: GpuWatch
) -> dict[str, Any]:
    answered = [r for r in timed.responses if r.finish in ("stop", "length")]
    prompt, cached = (sum(getattr(r, n) for r in answered) for n in ("prompt_tokens", "cached_tokens"))
    written = sum(response.completion_tokens for response in answered)
    read = sum(r.prompt_tokens - r.cached_tokens for r in first_token.responses)
    decode = timed.rate(written)
    mean = (prompt + written) / len(answered) if answered else 0.0
    limit = _decode_limit(info, gpu, size, mean)
    return {
        "mode": mode,
        "batch": size,
        "requests": len(timed.responses),
        "failed": len(timed.responses) - len(answered),
        "seconds": round(timed.seconds, 3),
        "requests_per_s": round(len(answered) / timed.seconds, 4),
        "decode_tokens_per_s": round(decode, 2),
        "prefill_tokens_per_s": round(first_token.rate(read), 2),
        "first_token_s": _spread(first_token.latencies),
        "latency_s": _spread(timed.latencies),
        "prefix_hit_share": round(cached / prompt, 4) if prompt else None,
        "mean_answer_tokens": round(written / len(answered), 1) if answered else None,
        "share_of_roofline": round(decode / limit, 4) if limit else None,
        **gpu.take(),
    }


def _decode_limit(info: EngineInfo, gpu: GpuWatch, batch: int, mean_tokens: float) -> float | None:
    """Tokens a second at which every step reads weights and KV cache once at the card's full bandwidth.

    A model of a GPU knows its own limit. None where card or weights are not known.
    """
    if (reported := info.extra.get("decode_limit_per_sequence")) is not None:
        return float(reported) * batch if reported else None
    card, weights = card_of(gpu.name), info.extra.get("weights_bytes")
    if card is None or not weights:
        return None
    step = (weights + batch * mean_tokens * info.extra.get("kv_bytes_per_token", 0)) / card.bandwidth
    compute = 2 * batch * info.extra.get("parameters", 0) / card.flops
    return batch / max(step, compute)


def _document(
    info: EngineInfo, gpu: GpuWatch, rows: list[dict[str, Any]], load_s: float, preflight_s: float
) -> dict[str, Any]:
    guided = [row for row in rows if row["mode"] == "guided"]
    best = max(guided, key=lambda row: row["decode_tokens_per_s"])
    free = next(r for r in rows if r["mode"] == "unguided" and r["batch"] == best["batch"])
    slower = (
        best["decode_tokens_per_s"] / free["decode_tokens_per_s"] if free["decode_tokens_per_s"] else None
    )
    return {
        "format": "kgqa-bench",
        "version": 1,
        "engine": info.provenance(),
        "gpu": gpu.name or None,
        "load_s": round(load_s, 2),
        "preflight_s": round(preflight_s, 2),
        "rows": rows,
        "best": {key: best[key] for key in ("batch", "decode_tokens_per_s", "mean_answer_tokens")},
        # Of the time of an answer, what guiding takes; below 0 where it is quicker (shorter answers, noise).
        "grammar_share": None if slower is None else round(1 - slower, 4),
    }


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"median": None, "p95": None, "max": None}
    ordered = sorted(values)
    return {
        "median": round(median(ordered), 4),
        "p95": round(ordered[min(int(0.95 * len(ordered)), len(ordered) - 1)], 4),
        "max": round(ordered[-1], 4),
    }
