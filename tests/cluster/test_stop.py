"""When work stops: the clock that knows the limit, the margin that is learned, the signals that set a
flag.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from kgqa_hpc.cluster import stop as stops
from kgqa_hpc.cluster.stop import GRACE, PATIENCE, Interrupted, Stop, deadline_of
from kgqa_hpc.work.item_scheduler import CANCEL_GRACE


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_without_limit_and_signal_there_is_no_reason_to_stop(clock: Clock) -> None:
    stop = Stop(None, now=clock)
    clock.time += 1e9
    assert stop.reason is None


def test_no_new_work_is_taken_within_the_margin(clock: Clock) -> None:
    stop = Stop(deadline=clock.time + 1000, margin=100, now=clock)
    clock.time += 899
    assert stop.reason is None
    clock.time += 2
    assert stop.reason is not None
    assert "99 s are left" in stop.reason


def test_the_margin_is_learned_from_the_slowest_request_and_never_above_the_configured(clock: Clock) -> None:
    stop = Stop(deadline=clock.time + 10_000, margin=900, now=clock)
    stop.learn(slowest=20, seen=49)
    assert stop.margin == 900, "too few were seen"
    stop.learn(slowest=20, seen=50)
    assert stop.margin == 70
    stop.learn(slowest=2000, seen=51)
    assert stop.margin == 900


def test_after_the_limit_comes_near_what_is_in_flight_is_cancelled_before_the_end(clock: Clock) -> None:
    stop = Stop(deadline=clock.time + 100, margin=20, now=clock)
    clock.time += 81
    assert stop.reason
    assert not stop.patience_is_over()
    clock.time += 19 - GRACE + 0.1
    assert stop.patience_is_over()


def test_the_shortest_grace_holds(clock: Clock) -> None:
    stop = Stop(None, now=clock)
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
@pytest.mark.parametrize("number", ALL)
def test_a_signal_ends_a_wait_and_is_named(number: signal.Signals) -> None:
    stop = Stop(None)
    with stop.listening():
        os.kill(os.getpid(), number)
        assert stop.wait(3600)
    assert stop.reason == number.name


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


def test_a_short_job_works_most_of_its_time_whatever_the_margin(clock: Clock) -> None:
    stop = Stop(deadline=clock.time + 60, margin=900, now=clock)
    assert stop.margin == 15


def seconds_left(limit: float | None, job_end: float | None, now: float, expected: float) -> bool:
    """Whether the deadline lies so far ahead; of two looks at the clock it lies between, however far apart."""
    before = time.monotonic()
    deadline = deadline_of(limit, job_end, now)
    return deadline is not None and before - 1 <= deadline - expected <= time.monotonic() + 1


def test_the_earlier_of_configured_limit_and_jobs_end_counts() -> None:
    now = float(int(time.time()))
    assert deadline_of(None, None, now) is None
    assert seconds_left(100, now + 500, now, 100)
    assert seconds_left(1000, now + 500, now, 500)
    assert seconds_left(None, now + 500, now, 500)


def test_a_node_whose_clock_is_an_hour_ahead_does_not_stop_an_hour_early() -> None:
    file_system = float(int(time.time()) - 3720)
    assert seconds_left(None, file_system + 500, file_system, 500)
