"""A hiccup of the file system is not a death: bounded bursts of errors on every call under a folder."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kgqa_hpc.store.atomic import make_folder
from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run
from tests.waiting import wait_for
from tests.work.rig import PATIENCE, answers_kept, events, records

CODES = (errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOENT)
EACH_CODE = pytest.mark.parametrize(
    "code", [CODES[0], *(pytest.param(code, marks=pytest.mark.slow) for code in CODES[1:])]
)
BURST = 1.4  # s
ITEMS = 200
Start = Callable[..., tuple[subprocess.Popen[str], Any]]


@pytest.fixture
def start(chaos: ModuleType, library: Path, tmp_path: Path) -> Iterator[Start]:
    """start(root, *words): a kgqa command whose calls under `root` can be hurt, and what hurts them."""
    started: list[subprocess.Popen[str]] = []

    def begin(root: Path, *words: str, code: int = 0) -> tuple[subprocess.Popen[str], Any]:
        control = chaos.Control(tmp_path / f"control-{len(started)}")
        if code:
            control.burst(code, 3600)
        process = subprocess.Popen(
            [sys.executable, "-m", "kgqa_hpc", *words],
            env=chaos.environment(library, control, root),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process, control

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def slow_run(tmp_path: Path) -> RunFolder:
    return slowly(tmp_path)


def slowly(tmp_path: Path, lease: int = 6) -> RunFolder:
    """A run that takes some 25 seconds. What fails for half a `lease` without a success between is no hiccup."""
    latency = {"batch": 4, "per_request_s": 0.2}
    return make_run(
        tmp_path / "run",
        ITEMS,
        engine={"kind": "scripted", "latency": latency},
        runtime={"shard_size": 10, "commit_every": 0.5, "lease": lease},
    )


@pytest.mark.slow
@pytest.mark.parametrize("hurt", ["leases", "logs", "status.json"])
def test_a_worker_outlives_bursts_on_what_its_threads_touch_and_still_leads(
    tmp_path: Path, start: Start, hurt: str
) -> None:
    # Bursts on status.json follow each other so closely that all four are one trouble to the worker.
    slow_run = slowly(tmp_path, lease=60 if hurt == "status.json" else 6)
    worker, control = start(slow_run.path / hurt, "run", str(slow_run.path))
    wait_for(lambda: answers_kept(slow_run) > 0, "an answer")
    for number, code in enumerate(CODES, start=1):
        if hurt == "status.json":  # written now and then: the burst lasts until it was met
            control.burst(code, PATIENCE)
            wait_for(
                lambda number=number: (
                    len(events(slow_run, "report-failed")) >= number  # type: ignore[misc]
                    or worker.poll() is not None
                ),
                "a report that failed",
            )
            control.burst(0, 0)
        else:
            control.burst(code, BURST)
            time.sleep(2 * BURST)
        assert worker.poll() is None, f"errno {code}: {worker.communicate()[0][-2000:]}"
    kept = answers_kept(slow_run)
    wait_for(lambda: answers_kept(slow_run) != kept or worker.poll() is not None, "work after the bursts")
    output, _ = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, output[-2000:]
    assert len(records(slow_run)) == ITEMS
    assert json.loads(slow_run.status_file.read_bytes())["complete"], "somebody led to the end"
    if hurt == "leases":
        assert events(slow_run, "heartbeat-failed", "claim-failed"), "the bursts did hurt"
    elif hurt == "status.json":
        assert events(slow_run, "report-failed"), "the bursts did hurt"


@EACH_CODE
def test_the_status_is_told_although_logs_and_states_cannot_be_read(
    slow_run: RunFolder, start: Start, code: int
) -> None:
    make_folder(slow_run.logs / "workers")
    (slow_run.logs / "workers" / "w0.json").write_text('{"worker": "w0"}')
    (slow_run.logs / "history.jsonl").write_text('{"time": 1, "ended": 1}\n')
    status, _ = start(slow_run.logs, "status", "--json", str(slow_run.path), code=code)
    output, _ = status.communicate(timeout=PATIENCE)
    assert status.returncode == 0, output
    assert sum(json.loads(output)["verdicts"].values()) == json.loads(output)["items"]["total"]


@EACH_CODE
@pytest.mark.parametrize("verb", ["status", "merge", "run"])
def test_a_file_system_that_answers_nothing_but_errors_is_one_clear_line(
    slow_run: RunFolder, start: Start, code: int, verb: str
) -> None:
    process, _ = start(slow_run.path, verb, str(slow_run.path), code=code)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode in (1, 2), output
    assert "Traceback" not in output
