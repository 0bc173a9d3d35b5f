"""Who does the tasks of a merge: its shards on all cores of this machine, unless another crew is given.

This process does all where there is little to do, else with a worker per other core. Workers are programs of their
own (`python -m kgqa_hpc.dataset.shard_rows`), not forks: nothing that this process holds can reach them, and they end
when it does.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import orjson

from kgqa_hpc.dataset.near_search import NearSearch
from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.errors import AccountingError, CorruptFile, StoreError

# Below so many items a worker's start costs more than it saves (0.3 s against about 20,000 items a second).
FEW = 20_000
AHEAD = 4  # shards in a worker's hands


class Crew(Protocol):
    """Does the tasks of a merge; who did which changes no byte."""

    def spools(self, work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        """Make SHARD.spool for every shard, of one that is not done what has ended, and tell of each.

        Returns the folder where they lie: `scratch`, or one of its own.
        """

    def bands(self, search: NearSearch) -> None:
        """Find what every band of a search joins."""


class LocalCrew:
    """This machine, by so many processes (default: one per core where there is enough to do)."""

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes

    def spools(self, work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        write_spools(work, scratch, shard_done, self._processes)
        return scratch

    def bands(self, search: NearSearch) -> None:
        for band in range(search.bands):
            search.find(band)


def write_spools(
    work: FinishedWork, folder: Path, shard_done: Callable[[], None], processes: int | None = None
) -> None:
    """Write all spools on this machine.

    Raises CorruptFile naming all damaged results, after each was moved to quarantine; AccountingError.
    """
    names = work.manifest.names
    items = sum(entry.items for entry in work.manifest.shards)
    if processes is None:
        processes = min(_cores(), len(names)) if items > FEW else 1
    corrupt: list[CorruptFile] = []
    outcomes = _alone(work, names, folder) if processes <= 1 else _together(work, names, folder, processes)
    for problem in outcomes:
        if problem is not None:
            corrupt.append(problem)
        shard_done()
    _raise_together(corrupt)


def _alone(work: FinishedWork, names: Sequence[str], folder: Path) -> Iterator[CorruptFile | None]:
    reader = ShardReader(work)
    for name in names:
        yield _write(reader, name, folder)


def _write(reader: ShardReader, name: str, folder: Path) -> CorruptFile | None:
    watched = gc.isenabled()
    gc.disable()  # a shard makes a million objects and no circle of them; looking for one took a third
    try:
        reader.write(name, folder)
    except CorruptFile as problem:
        return problem
    finally:
        if watched:
            gc.enable()
    return None


def _together(
    work: FinishedWork, names: Sequence[str], folder: Path, processes: int
) -> Iterator[CorruptFile | None]:
    """Shard i goes to worker i mod n, the last of which is this process; the others always have a few in hand."""
    here = _Here(work, folder)  # first: it says what the others could not do either
    others = [_Worker(work.run.path, folder) for _ in range(processes - 1)]
    workers: list[_Worker | _Here] = [*others, here]
    try:
        waiting: deque[_Worker | _Here] = deque()
        for position, name in enumerate(names):
            workers[position % processes].give(name)
            waiting.append(workers[position % processes])
            if len(waiting) > AHEAD * processes:
                yield waiting.popleft().answer()
        while waiting:
            yield waiting.popleft().answer()
    finally:
        for worker in others:
            worker.stop()


class _Here:
    """This process as a worker: it reads a shard when its answer is wanted."""

    def __init__(self, work: FinishedWork, folder: Path) -> None:
        self._reader, self._folder = ShardReader(work), folder
        self._names: deque[str] = deque()

    def give(self, name: str) -> None:
        self._names.append(name)

    def answer(self) -> CorruptFile | None:
        return _write(self._reader, self._names.popleft(), self._folder)


class _Worker:
    def __init__(self, run: Path, folder: Path) -> None:
        command = [sys.executable, "-P", "-m", "kgqa_hpc.dataset.shard_rows", str(run), str(folder)]
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def give(self, name: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(f"{name}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `answer` says that it is gone

    def answer(self) -> CorruptFile | None:
        """What became of the next shard in this worker's hands."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise StoreError(
                f"a worker of merge ended (exit code {self._process.wait()})",
                "merge again; what it said stands above",
            )
        answer = orjson.loads(line)
        if answer is None:
            return None
        if not answer["corrupt"]:
            raise AccountingError(*answer["error"])
        return CorruptFile(*answer["error"])

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _raise_together(corrupt: list[CorruptFile]) -> None:
    if len(corrupt) == 1:
        raise corrupt[0]
    if corrupt:
        names = "\n       ".join(problem.message for problem in corrupt[:10])
        raise CorruptFile(f"{len(corrupt)} results are damaged\n       {names}", corrupt[0].cure)
