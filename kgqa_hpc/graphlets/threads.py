"""Running kernels on several threads: they release the interpreter lock, so threads are all it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar

from kgqa_hpc.cores import usable_cores
from kgqa_hpc.progress import StageProgress

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Workers:
    """How many threads work on a graph (None: the usable cores), and the progress callback."""

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
        """Report `done` of `total` parts of what `label` names."""
        if self.progress and label:
            self.progress(done, total, label)
