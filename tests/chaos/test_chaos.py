"""Errors of the file system in bounded bursts are no death; a run amid all faults at once gives the same bytes."""

import errno
import json
import shutil
import signal
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
from tests.by_path import load
from tests.runs import make_run
from tests.waiting import wait_for
from tests.work.rig import PATIENCE, answers_kept, events, reconfigure, records

ROOT = Path(__file__).parents[2]
CODES = (errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOENT)
BURST = 1.4  # s
# Places of faults, and the log line of a worker for each; a lost line of the log itself is not reported.
TOLD = {"leases": ("heartbeat-failed", "claim-failed"), "logs": (), "status.json": ("report-failed",)}
ITEMS = 200
Start = Callable[..., tuple[subprocess.Popen[str], Any]]


@pytest.fixture(scope="module")
def chaos() -> ModuleType:
    """tools/chaos_preload.py."""
    return load(ROOT / "tools" / "chaos_preload.py")


@pytest.fixture(scope="module")
def library(chaos: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a file system stumble and a clock wrong."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    return Path(chaos.compile_preload(tmp_path_factory.mktemp("preload")))


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
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path / "run", 8)


@pytest.fixture
def slow_run(tmp_path: Path) -> RunFolder:
    """A run that takes two minutes. What fails for half a lease without a success between is no hiccup."""
    return make_run(
        tmp_path / "run",
        ITEMS,
        engine={"kind": "scripted", "latency": {"batch": 4, "per_request_s": 1}},
        runtime={"shard_size": 4, "commit_every": 0.5, "lease": 60},
    )


@pytest.mark.parametrize("hurt", TOLD)
def test_a_worker_outlives_bursts_on_what_its_threads_touch_and_still_leads(
    slow_run: RunFolder, start: Start, hurt: str
) -> None:
    words = ("run", str(slow_run.path))
    worker, control = start(slow_run.path / hurt, *words)
    wait_for(lambda: answers_kept(slow_run) > 0, "an answer")
    for code in CODES:
        before = len(events(slow_run, *TOLD[hurt]))

        def met() -> bool:
            control.burst(code, BURST)  # and no longer, should this process be paused  # noqa: B023
            return worker.poll() is not None or len(events(slow_run, *TOLD[hurt])) > before  # noqa: B023

        if TOLD[hurt]:
            wait_for(met, "a call that failed")
            control.burst(0, 0)
        else:
            control.burst(code, BURST)
            time.sleep(2 * BURST)
        assert worker.poll() is None, f"errno {code}: {worker.communicate()[0][-2000:]}"
    kept, told = answers_kept(slow_run), slow_run.status_file.read_bytes()
    wait_for(lambda: answers_kept(slow_run) != kept or worker.poll() is not None, "work after the bursts")
    wait_for(lambda: slow_run.status_file.read_bytes() != told or worker.poll() is not None, "a report")
    worker.send_signal(signal.SIGUSR1)
    output, _ = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 75, output[-2000:]
    reconfigure(slow_run, engine={"latency": {"batch": 4}})
    last, _ = start(slow_run.path / hurt, *words)
    output, _ = last.communicate(timeout=PATIENCE)
    assert last.returncode == 0, output[-2000:]
    assert len(records(slow_run)) == ITEMS
    assert json.loads(slow_run.status_file.read_bytes())["complete"], "somebody led to the end"


def test_the_status_is_told_although_logs_and_states_cannot_be_read(run: RunFolder, start: Start) -> None:
    make_folder(run.logs / "workers")
    (run.logs / "workers" / "w0.json").write_text('{"worker": "w0"}')
    (run.logs / "history.jsonl").write_text('{"time": 1, "ended": 1}\n')
    status, _ = start(run.logs, "status", "--json", str(run.path), code=errno.EIO)
    output, _ = status.communicate(timeout=PATIENCE)
    assert status.returncode == 0, output
    assert sum(json.loads(output)["verdicts"].values()) == json.loads(output)["items"]["total"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOENT])
@pytest.mark.parametrize("verb", ["status", "merge", "run"])
def test_a_file_system_that_answers_nothing_but_errors_is_one_clear_line(
    run: RunFolder, start: Start, code: int, verb: str
) -> None:
    process, _ = start(run.path, verb, str(run.path), code=code)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode in (1, 2), output
    assert "Traceback" not in output


def test_a_tormented_run_has_the_bytes_of_an_undisturbed_one(library: Path, tmp_path: Path) -> None:
    """Whatever happens to workers, engines, merges, disks and clocks at once."""
    words = ["--minutes", "1.8", "--seed", "1", "--runs", "graphlet,study,target", "--keep"]
    command = [sys.executable, ROOT / "tools" / "chaos.py", *words, tmp_path / "chaos"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all held" in done.stdout
