"""Number of usable cores, and a thread pool for kernels, which release the interpreter lock."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kgqa_hpc.terminal import StageProgress

# Files with the CPU limit of a process's cgroup: one file of version 2, two files of version 1.
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_V1 = (Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Workers:
    """Thread pool for graph kernels: number of threads (None: the usable cores) and a progress callback."""

    threads: int | None = None
    progress: StageProgress | None = None

    @property
    def number(self) -> int:
        return self.threads or usable_cores()

    def run(self, function: Callable[[Part], Result], parts: Iterable[Part], label: str = "") -> list[Result]:
        """The results of `function` for every part, in the order of the parts.

        Parts are begun in order; progress is reported when there is a label. An exception of one part is raised
        here; parts not begun yet are dropped.
        """
        with ThreadPoolExecutor(self.number, thread_name_prefix="graphlets") as pool:
            futures = [pool.submit(function, part) for part in parts]
            try:
                for done, future in enumerate(as_completed(futures), 1):
                    future.result()
                    self.tell(done, len(futures), label)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            return [future.result() for future in futures]

    def tell(self, done: int, total: int, label: str) -> None:
        """Report progress: `done` of `total` parts of the task `label`."""
        if self.progress and label:
            self.progress(done, total, label)


def usable_cores() -> int:
    """Number of cores this process may use: the smaller of CPU affinity (set by Slurm, containers) and cgroup quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for files in ((_QUOTA,), _QUOTA_V1):
        try:
            words = " ".join(file.read_text() for file in files).split()
            limit, period = (float(word) for word in words)
        except (OSError, ValueError):
            continue  # no such file, or "max"
        if limit > 0 and period > 0:
            return min(cores, max(int(limit / period), 1))
    return cores
