"""The card of a measurement: its limits by the data sheet, and its load while it works."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kgqa_hpc.engines.engine import EngineInfo

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
    """Samples load and memory of a GPU while it is open; without a GPU it reports so.

    `uuid` is what the engine says of its card; without it, the first of CUDA_VISIBLE_DEVICES, else the driver's first.
    """

    def __init__(self, uuid: str = "") -> None:
        self.name = ""
        self._uuid = uuid
        self._samples: list[tuple[float, int, int]] = []  # when, busy %, bytes
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> GpuWatch:
        with suppress(Exception):  # no driver, no library, no right to ask: nothing to look at
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
        """Busy share and most memory from `start` to `end` (time.monotonic); None where nothing was seen."""
        seen = [(busy, used) for at, busy, used in list(self._samples) if start <= at <= end]
        busy = [share for share, _ in seen if share >= 0]
        return {
            "gpu_busy": sum(busy) / len(busy) / 100 if busy else None,
            "gpu_memory_bytes": max((used for _, used in seen), default=None),
        }

    def _look(self, nvml: Any, handle: Any) -> None:
        while not self._done.wait(LOOK_EVERY_S):
            busy = -1
            with suppress(nvml.NVMLError):  # a slice of a card (MIG) reports its memory alone
                busy = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            with suppress(nvml.NVMLError):
                used = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
                self._samples.append((time.monotonic(), busy, used))


def _device(nvml: Any, uuid: str) -> Any:
    """The driver's handle of a card. Its numbers follow the bus, those of CUDA the speed: only UUIDs agree."""
    device = uuid or os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    names = (
        [device] if device.startswith(("GPU-", "MIG-")) else [f"GPU-{uuid}", f"MIG-{uuid}"] if uuid else []
    )
    for name in names:
        with suppress(nvml.NVMLError):
            return nvml.nvmlDeviceGetHandleByUUID(name)
    return nvml.nvmlDeviceGetHandleByIndex(int(device) if device.isdigit() else 0)


def decode_limit(info: EngineInfo, card_name: str, batch: int, mean_tokens: float) -> float | None:
    """Tokens a second at which every step reads the weights and the KV cache once at the card's full bandwidth,
    or the tensor cores' limit, whichever is lower.

    Of experts, a step reads those that its sequences choose. A model of a GPU knows its own limit. None where card or
    weights are not known.
    """
    extra = info.extra
    if (reported := extra.get("decode_limit_per_sequence")) is not None:
        return float(reported) * batch if reported else None
    card, weights = card_of(card_name), extra.get("weights_bytes")
    if card is None or not weights:
        return None
    idle = extra.get("expert_share", 0.0) * (1 - extra.get("expert_use", 1.0)) ** batch
    step = (weights * (1 - idle) + batch * mean_tokens * extra.get("kv_bytes_per_token", 0)) / card.bandwidth
    compute = 2 * batch * extra.get("active_parameters", 0) / (card.flops * extra.get("cards", 1))
    return batch / max(step, compute)
