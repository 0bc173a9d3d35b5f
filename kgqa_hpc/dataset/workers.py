"""Who does the tasks of a merge: all cores of this machine, unless another crew is given.

This process does all where there is little to do, else with a worker per other core. Workers are programs of their
own (`python -m kgqa_hpc.dataset.worker`), not forks: nothing that this process holds can reach them, and they end
when it does.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol

import orjson

from kgqa_hpc import errors
from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.dataset.tasks import Tasks
from kgqa_hpc.errors import CorruptFile, KgqaError, StoreError
from kgqa_hpc.threads import usable_cores

# Below so many items a worker's start costs more than it saves (0.3 s against about 20,000 items a second).
FEW = 20_000
# Requests in a worker's hands. A shard takes hundredths of a second, so the next one lies ready; of other tasks, which
# take a second, the last ones go to whoever is free.
SHARDS_AHEAD, TASKS_AHEAD = 2, 1


def _nothing() -> None:
    pass


class Crew(Protocol):
    """Does the tasks of a merge; who did which changes no byte."""

    durable: bool  # other machines take part, so what is made carries checksums that are looked at

    def spools(self, work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        """Make SHARD.spool for every shard, of one that is not done what has ended, and tell of each.

        Returns the folder where they lie: `scratch`, or one of its own.
        """

    def share(self, tasks: Tasks, task_done: Callable[[], None] = _nothing) -> None:
        """Do all of them, and tell of each."""

    def require_wanted(self) -> None:
        """Raise StoreError when others have finished this merge meanwhile."""


class LocalCrew:
    """This machine, by so many processes (default: one per core where there is enough to do), until it is left."""

    durable = False

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes
        self._workers: list[_Worker] = []

    def __enter__(self) -> LocalCrew:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers = []

    def spools(self, work: FinishedWork, scratch: Path, shard_done: Callable[[], None]) -> Path:
        """As `Crew`. Raises CorruptFile naming all damaged results, after each was moved to quarantine."""
        names = work.manifest.names
        reader = ShardReader(work)  # first: it says what the others could not do either
        number = self._processes
        if number is None:
            number = (
                min(usable_cores(), len(names)) if sum(one.items for one in work.manifest.shards) > FEW else 1
            )
        self._workers = [_Worker(work.run.path, scratch) for _ in range(number - 1)]
        corrupt: list[CorruptFile] = []
        requests = [["spool", name] for name in names]
        for problem in self._each(requests, SHARDS_AHEAD, lambda request: reader.write(request[1], scratch)):
            if isinstance(problem, CorruptFile):
                corrupt.append(problem)
            elif problem is not None:
                raise problem
            shard_done()
        _raise_together(corrupt)
        return scratch

    def share(self, tasks: Tasks, task_done: Callable[[], None] = _nothing) -> None:
        requests = [[str(tasks.folder), number] for number in range(tasks.number)]
        for problem in self._each(requests, TASKS_AHEAD, lambda request: tasks.do(request[1])):
            if problem is not None:
                raise problem
            task_done()

    def require_wanted(self) -> None:
        pass

    def _each(
        self, requests: Sequence[list[Any]], ahead: int, here: Callable[[list[Any]], None]
    ) -> Iterator[Exception | None]:
        """What became of each request, in the order in which they end: whoever is free does the next."""
        waiting = deque(requests)
        answers: SimpleQueue[Exception | None] = SimpleQueue()
        with ThreadPoolExecutor(max(1, len(self._workers))) as threads:
            for worker in self._workers:
                threads.submit(worker.serve, waiting, ahead, answers.put)
            try:
                for _ in requests:
                    request = None if answers.qsize() else _next(waiting)
                    yield answers.get() if request is None else _done(here, request)
            finally:
                waiting.clear()


def _next(waiting: deque[list[Any]]) -> list[Any] | None:
    with suppress(IndexError):  # another thread may have taken the last
        return waiting.popleft()
    return None


def _done(do: Callable[[list[Any]], None], request: list[Any]) -> KgqaError | None:
    watched = gc.isenabled()
    gc.disable()  # a shard makes a million objects and no circle of them; looking for one took a third
    try:
        do(request)
    except KgqaError as problem:
        return problem
    finally:
        if watched:
            gc.enable()
    return None


class _Worker:
    def __init__(self, run: Path, folder: Path) -> None:
        command = [sys.executable, "-P", "-m", "kgqa_hpc.dataset.worker", str(run), str(folder)]
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )

    def serve(self, waiting: deque[list[Any]], ahead: int, tell: Callable[[Exception | None], None]) -> None:
        """Do requests as long as some are waiting, and tell what became of each; the last word is why it ended."""
        in_hand = 0
        try:
            while True:
                while in_hand < ahead and (request := _next(waiting)) is not None:
                    self.give(request)
                    in_hand += 1
                if not in_hand:
                    return
                tell(self.answer())
                in_hand -= 1
        except Exception as problem:  # noqa: BLE001 - raised by who waits for the answers
            tell(problem)

    def give(self, request: list[Any]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `answer` says that it is gone

    def answer(self) -> KgqaError | None:
        """What became of the next request in this worker's hands."""
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
        problem: KgqaError = getattr(errors, answer["kind"])(*answer["error"])
        return problem

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


def _raise_together(corrupt: list[CorruptFile]) -> None:
    if len(corrupt) == 1:
        raise corrupt[0]
    if corrupt:
        names = "\n       ".join(sorted(problem.message for problem in corrupt)[:10])
        raise CorruptFile(f"{len(corrupt)} results are damaged\n       {names}", corrupt[0].cure)
