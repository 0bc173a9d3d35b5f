"""queue.Supply: a worker notices in time that free shards run out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.queue import pass_queue
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_anchors


def test_free_shards_run_out_when_others_hold_many_and_never_for_a_worker_alone(
    run: RunFolder, make_anchor: Callable[[int], dict[str, Any]]
) -> None:
    write_anchors(run.anchors, (make_anchor(number) for number in range(80)), {})
    partition(run, 1)
    first, second = (pass_queue(run, "main", worker, expiry=100_000.0) for worker in ("w1", "w2"))
    assert not second.supply.low
    assert all(first.claim() for _ in range(40))
    assert not first.supply.low
    assert all(second.claim() for _ in range(40))
    assert second.supply.low
