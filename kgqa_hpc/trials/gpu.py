"""Load and memory of the GPU during a measurement, and its peak figures."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

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
