"""Whenever one looks at a run whose workers are killed, counts add up, never fall, and are those of a partial merge."""

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run
from tests.status.conftest import checked
from tests.work.rig import PATIENCE, Nursery, reconfigure, result_files

SEED = 13
KILLS = 3
ITEMS = 400
ENGINE = {  # all of it would take two workers most of a minute, so that none is ever done before it is killed
    "kind": "scripted",
    "latency": {"batch": 4, "per_request_s": 0.4, "jitter": 0.5},
    "faults": {"garbage": 0.2, "error": 0.1},
}
RUNTIME = {"shard_size": 20, "commit_every": 0.5, "lease": 3.0}


def look(run: RunFolder, seen: dict[str, Any] | None) -> dict[str, Any]:
    """The status now; it adds up, and nothing in it fell since the last look."""
    now = checked(survey(run.path))
    if seen is not None:
        assert now["items"]["total"] == seen["items"]["total"]
        for name in ("accepted", "rejected", "invalid", "failed"):
            assert now["verdicts"][name] >= seen["verdicts"][name], (name, seen["verdicts"], now["verdicts"])
    return now


def merged(run: RunFolder) -> dict[str, int]:
    """The same counts from the dataset that `merge --partial` makes now."""
    counts = merge(run, partial=True).to_dict()
    files = run.dataset / "accepted.jsonl", run.dataset / "rejected.jsonl", run.dataset / "lost.jsonl"
    assert sum(path.read_bytes().count(b"\n") for path in files) == counts["sampled"] - counts["waiting"]
    sums = {name: sum(counts[name].values()) for name in ("rejected", "invalid", "failed")}
    return {"accepted": counts["accepted"], **sums, "waiting": counts["waiting"]}


@pytest.mark.slow
def test_a_run_with_kills_adds_up_at_any_moment_and_its_partial_merge_says_the_same(
    tmp_path: Path, nursery: Nursery
) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    run = make_run(tmp_path / "run", ITEMS, engine=ENGINE, runtime=RUNTIME, dataset={"z_score": None})
    seen: dict[str, Any] | None = None
    left_open = 0
    for _ in range(KILLS):
        workers = [nursery.start(run) for _ in range(2)]
        goal = (seen["items"]["ended"] if seen else 0) + chance.randrange(3, 18)
        until = time.monotonic() + PATIENCE
        while seen is None or seen["items"]["ended"] < goal:
            assert time.monotonic() < until, nursery.output()[-2000:]
            if run.shards_manifest.exists():
                seen = look(run, seen)
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        for pid in workers:
            nursery.code(pid)
        seen = look(run, seen)
        assert merged(run) == seen["verdicts"]
        left_open += seen["items"]["ended"] - 20 * seen["shards"]["done"]
    assert left_open > 0, "no kill left a journal behind, so nothing was tested"
    reconfigure(run, engine={"latency": {"batch": 4}})
    assert nursery.code(nursery.start(run)) == 0, nursery.output()[-2000:]
    seen = look(run, seen)
    assert seen["complete"]
    assert seen["workers"]["silent"] == []
    assert merged(run) == seen["verdicts"]
    left = json.loads(run.status_file.read_bytes())  # written again after the last shard was sealed
    assert (left["items"], left["verdicts"], left["complete"]) == (seen["items"], seen["verdicts"], True)
    prom = (run.logs / "metrics.prom").read_text(encoding="utf-8")
    told = dict(re.findall(r'^kgqa_items\{.*verdict="(\w+)"\} (\d+)$', prom, flags=re.MULTILINE))
    assert {name: int(number) for name, number in told.items()} == seen["verdicts"]
    assert len(result_files(run)) == seen["shards"]["total"]
