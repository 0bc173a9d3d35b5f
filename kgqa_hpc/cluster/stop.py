"""Stop of a worker: by a signal, or before the time limit.

A signal sets a flag; the worker checks it between two rounds, drains, commits and ends with exit code 75.
SIGUSR1 and 2 are a batch system's early warning: requests in flight may finish. SIGTERM and SIGINT request an
immediate stop: after GRACE seconds requests in flight are cancelled, and the code of a step that still runs is
interrupted, also within a regular expression. A second SIGINT ends the process at once, which loses nothing on
disk. The time limit is the earlier of the configured limit and the end of the Slurm job.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Seconds from SIGTERM to cancelling the requests in flight. Slurm's KillWait is 30 s, a preemption's often less:
# with a second for the engine to acknowledge, and the commit, a worker ends within 5 s.
GRACE = 3.0
# Seconds from SIGUSR1 to cancelling the requests in flight; our scripts request SIGUSR1 15 minutes ahead, some sites
# 1 minute.
PATIENCE = 60.0
AGAIN = 0.25  # seconds between two attempts to interrupt: the first may come between two calls of steps
_EARLY = (signal.SIGUSR1, signal.SIGUSR2)  # our scripts request SIGUSR1, submitit requests SIGUSR2
_SIGNALS = (signal.SIGTERM, signal.SIGINT, *_EARLY)


class Interrupted(BaseException):
    """The grace period of a stop ended while a step worked. The item stays in the state of its journal."""


class Stop:
    """State of the stop flag and the deadline. `now` returns seconds of a monotonic clock.

    `deadline`: time of that clock at which the process will be killed; `margin`: seconds before the deadline at
    which no new work is taken, until enough requests were measured to replace it.
    """

    def __init__(
        self, deadline: float | None = None, margin: float = 900.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.deadline = deadline
        # A debug queue's job may be shorter than the margin, which is meant for two-day jobs: three quarters of its
        # time are for work.
        self._margin = margin if deadline is None else min(margin, max(deadline - now(), 0.0) / 4)
        self._now = now
        self._reason: str | None = None
        self._drain_by = 0.0
        self._event = threading.Event()
        self.measured = 0.0, 0  # seconds of the slowest request so far, and number of requests
        self._listening = self._interruptible = False

    @property
    def reason(self) -> str | None:
        """The reason to stop, as text; None to continue."""
        if self._reason is None and self.deadline is not None and self._now() >= self.deadline - self.margin:
            remaining = max(self.deadline - self._now(), 0.0)
            self._set(
                f"{remaining:.0f} s are left of the time limit", self.deadline - min(GRACE, remaining / 2)
            )
        return self._reason

    @property
    def margin(self) -> float:
        """Seconds before the deadline at which no new work is taken.

        A request that starts now must be answered before the end: the margin is twice the slowest request and half a
        minute to commit; never more than configured, and as configured until 50 requests were measured.
        """
        slowest, requests = self.measured
        return self._margin if requests < 50 else min(self._margin, 2 * slowest + 30.0)

    def patience_is_over(self) -> bool:
        """Whether requests still in flight must be cancelled now; used after `reason`."""
        return self._now() >= self._drain_by

    def request(self, reason: str, grace: float = GRACE) -> None:
        """Request a stop; of several requests the shortest grace applies."""
        self._set(reason, self._now() + grace)

    def wait(self, seconds: float) -> bool:
        """Sleep until the time is over or a stop is requested; returns whether a stop was requested."""
        until = self._now() + seconds
        while self.reason is None and (remaining := until - self._now()) > 0:
            # A signal handler cannot wake an Event's waiter in the same thread, so check often.
            self._event.wait(min(remaining, 0.2))
        return self.reason is not None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle SIGTERM, SIGINT, SIGUSR1 and 2 in this block, and SIGALRM after a stop; only in the main thread.

        After a stop the early warnings stay ignored: a repeated one must not kill a process that is on its
        way out, which loses its handlers some time before its end.
        """
        # Only the main thread can set and receive signal handlers.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._interrupt)
        timer, self._listening = signal.getitimer(signal.ITIMER_REAL), True
        try:
            yield
        finally:
            self._listening = False
            if self._reason is not None:
                signal.setitimer(signal.ITIMER_REAL, *timer)
            for number, handler in before.items():
                leaving = self._reason is not None and number in _EARLY
                signal.signal(number, signal.SIG_IGN if leaving else handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Context for code that only computes: after the grace period of a stop it is interrupted anywhere.

        Raises Interrupted, while `listening`.
        """
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._interruptible and self.patience_is_over():
            self._interruptible = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Interrupted

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self._reason is not None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        self.request(signal.Signals(number).name, PATIENCE if number in _EARLY else GRACE)

    def _set(self, reason: str, drain_by: float) -> None:
        if self.deadline is not None:
            drain_by = min(drain_by, max(self.deadline - GRACE, self._now()))
        if self._reason is None:
            self._reason, self._drain_by = reason, drain_by
        else:
            self._drain_by = min(self._drain_by, drain_by)
        self._event.set()
        # A kernel timer, because no Python thread runs while a regular expression is matched.
        if self._listening:
            signal.setitimer(signal.ITIMER_REAL, max(self._drain_by - self._now(), AGAIN), AGAIN)


def deadline_of(time_limit: float | None, job_end: float | None, now: float) -> float | None:
    """The monotonic time at which this process will be killed, or None.

    `time_limit` is in seconds from now, `job_end` (cluster/slurm.py) and `now` in seconds since 1970; `now` comes from
    Slurm's or the file system's clock, because a node's own clock may be wrong by an hour.
    """
    ends = [] if time_limit is None else [time.monotonic() + time_limit]
    if job_end is not None:
        ends.append(time.monotonic() + job_end - now)
    return min(ends, default=None)
