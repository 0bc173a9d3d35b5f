"""The second look: every row into the file of its outcome, the parts of all files by all who take part in the merge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.files import cuts
from kgqa_hpc.dataset.final_lines import FinalLines
from kgqa_hpc.dataset.first_pass import FirstPass
from kgqa_hpc.dataset.ordered import PIECE_BYTES, SortedPieces
from kgqa_hpc.dataset.parts import DatasetParts
from kgqa_hpc.dataset.workers import Crew

FINAL = "final"


def write_rows(
    folder: Path,
    found: FirstPass,
    shard_done: Callable[[], None],
    part_bytes: int,
    order: str | None,
    crew: Crew,
) -> dict[str, str]:
    """Write accepted, rejected and lost from the spools; returns their sha256 by name.

    `order` is the column by which accepted and rejected stand; without it they stand as in the shards. `shard_done`
    is called once per shard, as the parts get done.
    """
    same = {"final": FINAL, "digest": FinalLines.save(found.folder / FINAL, found)}
    sizes = found.rows.file_bytes()
    tasks: list[Any] = []
    pieces = None
    if order is not None:
        stretches = [[name, *one] for name in sizes for one in cuts(sizes[name], PIECE_BYTES)]
        pieces = SortedPieces.plan(found.folder, stretches, column=order, **same)
        crew.share(pieces)
        if crew.durable:
            pieces.check()
    for name, own in sizes.items():
        places: list[Any] = cuts(own, part_bytes) if pieces is None else pieces.parts(name, part_bytes)
        tasks += [[name, place] for place in places]
    del sizes, own  # 8 bytes a row
    parts = DatasetParts.plan(found.folder, tasks, ordered=pieces is not None, **same)
    crew.share(parts, _per_shard(shard_done, len(found.rows.spools), len(tasks)))
    return parts.assemble(folder, keep=crew.durable)


def _per_shard(shard_done: Callable[[], None], shards: int, tasks: int) -> Callable[[], None]:
    """Tells of so many shards in so many steps."""
    done = 0

    def step() -> None:
        nonlocal done
        told, done = shards * done // tasks, done + 1
        for _ in range(shards * done // tasks - told):
            shard_done()

    return step
