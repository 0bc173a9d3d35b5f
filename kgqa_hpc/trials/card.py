"""The GPU of a measurement: its limits according to the data sheet, and its measured load."""

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
    """Memory bandwidth (bytes/s) and dense 16-bit tensor throughput (FLOP/s) of a GPU model, from its data sheet."""

    bandwidth: float
    flops: float


# From NVIDIA's data sheets. Names are searched in the driver's name of the GPU, the longest first.
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
    """Sampler of load and memory of a GPU; reports no values on a machine without a GPU.

    `uuid` comes from the engine; without it, the first GPU of CUDA_VISIBLE_DEVICES or of the driver is sampled.
    """

    def __init__(self, uuid: str = "") -> None:
        self.name = ""
        self._uuid = uuid
        self._samples: list[tuple[float, int, int]] = []  # (time, busy %, bytes of memory)
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
        seen = [(busy, used) for at, busy, used in list(self._samples) if start <= at <= end]
        busy = [share for share, _ in seen if share >= 0]
        return {
            "gpu_busy": sum(busy) / len(busy) / 100 if busy else None,
            "gpu_memory_bytes": max((used for _, used in seen), default=None),
        }

    def _look(self, nvml: Any, handle: Any) -> None:
        while not self._done.wait(LOOK_EVERY_S):
            busy = -1
            with suppress(nvml.NVMLError):  # a MIG slice reports only its memory
                busy = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            with suppress(nvml.NVMLError):
                used = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
                self._samples.append((time.monotonic(), busy, used))


def _device(nvml: Any, uuid: str) -> Any:
    """The driver's handle of a GPU by UUID: the driver numbers GPUs by bus position and CUDA by speed."""
    device = uuid or os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    names = (
        [device] if device.startswith(("GPU-", "MIG-")) else [f"GPU-{uuid}", f"MIG-{uuid}"] if uuid else []
    )
    for name in names:
        with suppress(nvml.NVMLError):
            return nvml.nvmlDeviceGetHandleByUUID(name)
    return nvml.nvmlDeviceGetHandleByIndex(int(device) if device.isdigit() else 0)


def decode_limit(info: EngineInfo, card_name: str, batch: int, mean_tokens: float) -> float | None:
    """Upper limit of the decoding speed in tokens/s: the lower of the bandwidth's and the tensor cores' limit.

    By the bandwidth, every step reads the weights and the KV cache once; of a mixture of experts, only the experts
    that its sequences select. A simulated engine states its own limit. None if the GPU or the size of the weights is
    unknown.
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
