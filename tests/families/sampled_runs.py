"""A run of a family up to its sample, and what its dataset holds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc import stages
from kgqa_hpc.store.run_folder import RunFolder
from tests.waiting import wait_for
from tests.work.rig import Processes, answers_kept, reconfigure


def sampled(folder: Path, config: dict[str, Any]) -> RunFolder:
    """The run of a configuration in folder/run, its anchors drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    run = stages.init(folder / "run.yaml", folder / "run")
    stages.import_graph(run.path)
    stages.sample(run.path)
    return run


def dataset(run: RunFolder) -> dict[str, bytes]:
    stages.merge(run.path)
    return {path.name: path.read_bytes() for path in sorted(run.dataset.glob("*.jsonl"))}


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def finished(run: RunFolder, processes: Processes) -> dict[str, bytes]:
    code, output = processes.finish(processes.start(run))
    assert code == 0, output
    return dataset(run)


def whole_and_killed(prepare: Callable[..., RunFolder], processes: Processes) -> list[dict[str, bytes]]:
    """The datasets of a run with faults, and of the same run killed twice; `prepare` takes its name and engine."""
    faults = {"garbage": 0.05, "truncate": 0.05, "error": 0.02}
    whole = finished(prepare("whole", faults=faults), processes)
    # At least half a minute in all: no run ends before it is killed.
    slow = {"batch": 4, "per_request_s": 0.6}
    killed = prepare("killed", faults=faults, latency=slow)
    for _ in range(2):
        before = answers_kept(killed)
        process = processes.start(killed)
        wait_for(lambda: answers_kept(killed) > before + 2000 or process.poll() is not None, "answers")  # noqa: B023
        assert process.poll() is None
        process.kill()
        process.wait()
    reconfigure(killed, engine={"latency": {"batch": 4}})
    return [whole, finished(killed, processes)]
