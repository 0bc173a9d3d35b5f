"""A worker of a merge: it does the tasks that it is told of, wherever they were planned.

Run as a program with RUN and FOLDER it takes requests on stdin, one line of JSON each: ["spool", SHARD], or [FOLDER OF
TASKS, NUMBER]. It answers with a line of JSON: null, or the error.
"""

from __future__ import annotations

import gc
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.dataset.near_search import NearSearch
from kgqa_hpc.dataset.ordered import SortedPieces
from kgqa_hpc.dataset.parts import DatasetParts
from kgqa_hpc.dataset.read import open_work
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.dataset.tasks import Tasks
from kgqa_hpc.errors import KgqaError
from kgqa_hpc.store.run_folder import RunFolder

SPOOL = "spool"
KINDS = (NearSearch, SortedPieces, DatasetParts)  # in the order in which a merge plans them


def open_tasks(folder: Path) -> Tasks:
    """The tasks that are planned in a folder of this name."""
    kind: Any = {one.NAME: one for one in KINDS}[folder.name]
    tasks: Tasks = kind(folder)
    return tasks


@lru_cache(1)
def kept_tasks(folder: Path) -> Tasks:
    """The same; what they read is kept until others are asked for. For merges that have folders of their own."""
    return open_tasks(folder)


def main() -> None:
    gc.disable()  # as workers.py
    run, folder = Path(sys.argv[1]), Path(sys.argv[2])
    reader = ShardReader(open_work(RunFolder.open(run)))
    for line in sys.stdin:
        what, which = orjson.loads(line)
        answer: dict[str, Any] | None = None
        try:
            if what == SPOOL:
                reader.write(which, folder)
            else:
                kept_tasks(Path(what)).do(which)
        except KgqaError as problem:
            answer = {"kind": type(problem).__name__, "error": [problem.message, problem.cure]}
        print(orjson.dumps(answer).decode(), flush=True)


if __name__ == "__main__":
    main()
