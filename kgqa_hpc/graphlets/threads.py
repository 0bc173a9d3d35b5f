"""Running kernels on several threads: they release the interpreter lock, so threads are all it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from kgqa_hpc.cores import usable_cores

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, label) from the calling thread; `done` and `total` are parts of work, not
items.
"""

Part = TypeVar("Part")
Result = TypeVar("Result")


def run_parts(
    function: Callable[[Part], Result],
    parts: Iterable[Part],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    label: str = "",
) -> list[Result]:
    """`function` of every part, in the order of the parts, whatever thread did which.

    Parts are begun in order. An exception of one part is raised here; parts not begun yet are dropped.
    """
    todo: Sequence[Part] = list(parts)
    with ThreadPoolExecutor(threads or usable_cores(), thread_name_prefix="graphlets") as pool:
        futures = [pool.submit(function, part) for part in todo]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                if progress:
                    progress(done, len(futures), label)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]
