"""When work stops: the end of the job, the margin that is learned, the signals that set a flag."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgqa_hpc.cluster import stop as stops
from kgqa_hpc.cluster.slurm import job_end, own_job
from kgqa_hpc.cluster.stop import GRACE, PATIENCE, Interrupted, Stop, deadline_of
from kgqa_hpc.work.item_scheduler import CANCEL_GRACE
from tests.command import programs


class Clock:
    time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_no_work_is_taken_within_the_margin_and_what_is_in_flight_is_cancelled_in_time(clock: Clock) -> None:
    stop = Stop(deadline=clock.time + 1000, margin=100, now=clock)
    clock.time += 899
    assert stop.reason is None
    clock.time += 2
    assert "99 s are left" in (stop.reason or "")
    assert not stop.patience_is_over()
    clock.time += 99 - GRACE + 0.1
    assert stop.patience_is_over()


def test_the_margin_is_learned_from_the_slowest_request_and_never_above_the_configured(clock: Clock) -> None:
    stop = Stop(deadline=clock.time + 10_000, margin=900, now=clock)
    stop.measured = 20, 49
    assert stop.margin == 900, "too few were seen"
    stop.measured = 20, 50
    assert stop.margin == 70
    stop.measured = 2000, 51
    assert stop.margin == 900
    short = Stop(deadline=clock.time + 60, margin=900, now=clock)
    assert short.margin == 15, "a short job works most of its time"


def test_the_shortest_grace_holds(clock: Clock) -> None:
    stop = Stop(None, now=clock)
    clock.time += 1e9
    assert stop.reason is None
    stop.request("SIGUSR1", PATIENCE)
    clock.time += GRACE + 1
    assert not stop.patience_is_over()
    stop.request("SIGTERM", 0.0)
    assert stop.patience_is_over()
    assert stop.reason == "SIGUSR1", "the first reason is the one that is told"


ALL = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2]


@pytest.fixture
def _signals() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in ALL}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals")
def test_afterwards_the_signals_are_whose_they_were_and_repeated_warnings_are_ignored() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stop(None).listening():
        pass
    assert signal.getsignal(signal.SIGINT) == before
    stop = Stop(None)
    with stop.listening():
        stop.request("enough")
    assert signal.getsignal(signal.SIGINT) == before
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR2)
    assert stop.reason == "enough"


def test_a_second_sigint_ends_the_process_at_once() -> None:
    code = (
        "import time; from kgqa_hpc.cluster.stop import Stop\n"
        "s = Stop(None); h = s.listening(); h.__enter__(); print('up', flush=True)\n"
        "while True: time.sleep(0.05); print(s.reason, flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        while (line := process.stdout.readline()) != "SIGINT\n":
            assert line, "it ended at the first"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
        assert process.returncode == -signal.SIGINT
    finally:
        process.kill()
        process.wait()


def endless() -> None:
    while True:
        pass


NEVER_DONE = {
    "a loop": endless,
    "a regular expression": lambda: re.search("(a|aa)+$", "a" * 200 + "b"),
    "a call that blocks": lambda: time.sleep(1_000_000),
}


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("work", NEVER_DONE.values(), ids=NEVER_DONE.keys())
def test_after_the_grace_code_that_may_be_interrupted_is(
    work: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stops, "GRACE", 0.01)
    before, stop = signal.getsignal(signal.SIGALRM), Stop(None)
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted), stop.interruptible():
            work()
        assert stop.reason == "SIGTERM"
    assert signal.getsignal(signal.SIGALRM) == before


@pytest.mark.usefixtures("_signals")
def test_code_outside_of_such_a_block_is_never_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stops, "GRACE", 0.0)
    monkeypatch.setattr(stops, "AGAIN", 0.001)
    stop = Stop(None)
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
        with pytest.raises(Interrupted), stop.interruptible():
            endless()


def test_a_cancelled_request_and_the_grace_leave_a_second_to_commit() -> None:
    assert GRACE + CANCEL_GRACE <= 4


@pytest.mark.parametrize(
    ("limit", "job_end", "behind", "expected"),
    [(100, 500, 0, 100), (1000, 500, 0, 500), (None, 500, 0, 500), (None, 500, 3720, 500)],
)
def test_the_earlier_of_configured_limit_and_jobs_end_counts_whatever_the_clock_of_the_node_says(
    limit: float | None, job_end: float, behind: float, expected: float
) -> None:
    before, now = time.monotonic(), time.time() - behind
    deadline = deadline_of(limit, now + job_end, now)
    assert deadline is not None
    assert before - 1 <= deadline - expected <= time.monotonic() + 1, "between two looks at the clock"
    assert deadline_of(None, None, now) is None


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A squeue that prints what the returned file holds."""
    answer = tmp_path / "answer"
    monkeypatch.setenv("PATH", programs(tmp_path, squeue=f"cat {answer}"))
    return answer


def test_the_end_of_a_job_is_what_slurm_tells_and_outside_of_a_job_there_is_none() -> None:
    assert job_end({"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "1900000000"}, ask=False) == 1_900_000_000
    assert job_end({"SLURM_JOB_END_TIME": "12"}, ask=True) is None
    assert own_job({}) is None
    assert own_job({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7"}) == "7", "tasks of an array are one job"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("4:59", 299), ("1:00:00", 3600), ("2-01:00:05", 176_405), ("UNLIMITED", None), ("", None)],
)
def test_an_older_slurm_is_asked_for_the_time_left(squeue: Path, text: str, seconds: float | None) -> None:
    squeue.write_text(f"{text}\n")
    before = time.time()
    end = job_end({"SLURM_JOB_ID": "7"}, ask=True)
    if seconds is None:
        assert end is None
    else:
        assert end is not None
        assert before - 1 <= end - seconds <= time.time() + 1
    assert job_end({"SLURM_JOB_ID": "7"}, ask=False) is None


def test_a_task_of_an_array_asks_for_itself_for_the_id_of_one_is_that_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path, squeue='case "$*" in *" 7_3 "*) echo 9:00;; esac'))
    task = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    assert job_end(task, ask=True) is not None
