"""Staging on this machine: this process, and where there is enough to do one more for every other core.

The others are programs of their own (`python -m kgqa_hpc.dataset.stage`), not forks: nothing that this process holds
can reach them, and they end when it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import orjson

from kgqa_hpc import errors
from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.dataset.stage import Stager, stage_some
from kgqa_hpc.errors import CorruptFile, KgqaError, StoreError
from kgqa_hpc.threads import usable_cores

FEW = 20_000  # items; below, the start of a process costs more than it saves
Stage = Callable[[FinishedWork, Path, Callable[[], None]], Path]  # stages all shards; see merge.py


def stage_here(
    work: FinishedWork, scratch: Path, shard_done: Callable[[], None], processes: int | None = None
) -> Path:
    """Stage all shards into `scratch` and return it; `shard_done()` is called after each.

    Raises CorruptFile naming all damaged results, after each was moved to quarantine; StoreError when a process died.
    """
    names = work.manifest.names
    stager = Stager(work)  # first: it says what the others could not do either
    number = processes or _processes(work)
    with ExitStack() as stack:
        others = [stack.enter_context(_Process(work, scratch, first, number)) for first in range(1, number)]
        problems = stage_some(stager, names[::number], scratch, shard_done)
        for first, other in enumerate(others, start=1):
            problems += other.errors()
            for _ in names[first::number]:
                shard_done()
    raise_together(problems)
    return scratch


def raise_together(problems: list[KgqaError]) -> None:
    """Raise the first error that is no damage, else one CorruptFile for all of them."""
    for problem in problems:
        if len(problems) == 1 or not isinstance(problem, CorruptFile):
            raise problem
    if problems:
        names = "\n       ".join(sorted(problem.message for problem in problems)[:10])
        raise CorruptFile(f"{len(problems)} results are damaged\n       {names}", problems[0].cure)


def _processes(work: FinishedWork) -> int:
    items = sum(shard.items for shard in work.manifest.shards)
    return min(usable_cores(), len(work.manifest.names)) if items > FEW else 1


class _Process:
    """Another process that stages every `step`-th shard from `first` on, until the block is left."""

    def __init__(self, work: FinishedWork, folder: Path, first: int, step: int) -> None:
        command = [sys.executable, "-P", "-m", "kgqa_hpc.dataset.stage", work.run.path, folder, first, step]
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def errors(self) -> list[KgqaError]:
        """Wait for its end; the errors of shards it could not stage. Raises StoreError when it died."""
        assert self._process.stdout
        said = self._process.stdout.read()
        code = self._process.wait()
        if code:
            raise StoreError(
                f"a worker of merge ended (exit code {code})", "merge again; its last words stand above"
            )
        return [getattr(errors, name)(message, cure) for name, message, cure in orjson.loads(said)]
