"""A run of five shards that nobody has begun, and what workers leave in a run folder, written without them."""

from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.status.snapshot import VERDICTS, Status, survey
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_result
from tests.runs import make_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = make_run(tmp_path / "oregano", 100)
    partition(made, 20)
    return made


def write_rows(run: RunFolder, shard: str, rows: list[dict[str, Any]], pass_name: str = "main") -> None:
    """Commit the result of a shard."""
    run.results(pass_name).mkdir(parents=True, exist_ok=True)
    header = run.origin(pass_name).header(shard, "")
    assert write_result(run.result(pass_name, shard), rows, header)


def rows(status: str = "accepted", **more: Any) -> list[dict[str, Any]]:
    """The 20 items of a shard, which all ended alike."""
    return [{"id": f"i{k}", "status": status, "reason": None, "trace": [], **more} for k in range(20)]


def done(run: RunFolder, *shards: str, verdict: str = "accepted") -> None:
    """Commit results in which every item ended with the same verdict."""
    for shard in shards:
        write_rows(run, shard, rows(verdict))


def state(**facts: Any) -> dict[str, Any]:
    base = {
        "worker": "w0",
        "host": "node-of-another-machine",
        "pid": 1,
        "rank": 0,
        "up": 1000.0,
        "ended": 500,
    }
    return {**base, "open_shards": 1, "in_flight": 8, "silent": 0.5, **facts}


def checked(now: Status) -> Status:
    """The status, whose counts must add up."""
    assert list(now["verdicts"]) == list(VERDICTS)
    assert sum(now["verdicts"].values()) == now["items"]["total"]
    assert now["items"]["ended"] == now["items"]["total"] - now["verdicts"]["waiting"]
    return now


def look(run: RunFolder) -> Status:
    return checked(survey(run.path))
