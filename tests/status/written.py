"""What workers leave in a run folder, written without them."""

from __future__ import annotations

from typing import Any

from kgqa_hpc.store.results import write_result
from kgqa_hpc.store.run_folder import RunFolder

OTHER_HOST = "node-of-another-machine"


def done(run: RunFolder, *shards: str, verdict: str = "accepted") -> None:
    """Commit results in which every item ended with the same verdict."""
    for shard in shards:
        start = int(shard.rpartition("-")[2]) * 20
        rows = [{"id": f"i{start + k}", "status": verdict, "reason": None, "trace": []} for k in range(20)]
        run.results("main").mkdir(parents=True, exist_ok=True)
        assert write_result(run.result("main", shard), rows, run.origin("main").header(shard, ""))


def state(**facts: Any) -> dict[str, Any]:
    base = {"worker": "w0", "host": OTHER_HOST, "pid": 1, "rank": 0, "up": 1000.0, "ended": 500}
    return {**base, "ended_open": 0, "open_shards": 1, "in_flight": 8, "silent": 0.5, **facts}


def assert_adds_up(now: dict[str, Any]) -> None:
    assert list(now["verdicts"]) == ["accepted", "rejected", "invalid", "failed", "waiting"]
    assert sum(now["verdicts"].values()) == now["items"]["total"]
    assert now["items"]["ended"] == now["items"]["total"] - now["verdicts"]["waiting"]
