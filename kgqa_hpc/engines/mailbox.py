"""The mailbox of an engine, in which it waits for requests, finished answers, cancellation and the end.

Requests come from another thread (the child's reader); answers come from the engine's own worker threads.
A simple engine iterates over the requests; an engine with many simultaneous requests uses `serve`, or `serve_in_pool`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor

from kgqa_hpc.engines.engine import Request, Response


class Mailbox:
    """Requests in, answers out; also an iterator over its requests.

    `before_sleep` is called whenever `wait` is about to block, to send the collected answers.
    """

    def __init__(self) -> None:
        self.before_sleep: Callable[[], None] | None = None
        self._requests: deque[Request] = deque()
        self._answers: deque[Response] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._end_told = False
        self._cancelled = False
        self._failure: BaseException | None = None

    @classmethod
    def holding(cls, requests: Iterable[Request]) -> Mailbox:
        """A closed mailbox with these requests: for one batch, in benchmarks and tests."""
        mailbox = cls()
        mailbox.put(list(requests))
        mailbox.close()
        return mailbox

    def put(self, requests: list[Request]) -> None:
        """Add requests for the engine."""
        with self._changed:
            self._requests.extend(requests)
            self._changed.notify_all()

    def answer(self, response: Response) -> None:
        """Add a finished answer; called by the engine's threads."""
        with self._changed:
            self._answers.append(response)
            self._changed.notify_all()

    def close(self) -> None:
        """Tell the engine that no more requests will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def fail(self, problem: BaseException) -> None:
        """Make `wait` raise `problem` and return no further answers, because the engine cannot continue."""
        with self._changed:
            self._failure = problem
            self._closed, self._end_told = True, False
            self._requests.clear()
            self._changed.notify_all()

    def cancel(self) -> None:
        """Wake the engine to abort its requests."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def take_cancel(self) -> list[Request] | None:
        """The requests not taken yet, if `cancel` was called since the last call; otherwise None."""
        with self._changed:
            if not self._cancelled:
                return None
            self._cancelled = False
            waiting = list(self._requests)
            self._requests.clear()
            self._changed.notify_all()
            return waiting

    @property
    def ended(self) -> bool:
        """Whether the mailbox is closed and the engine has taken every request."""
        return self._closed and not self._requests

    def wait(
        self, timeout: float | None = None, room: int | None = None
    ) -> tuple[list[Request], list[Response]]:
        """New requests (at most `room`; 0 leaves them) and finished answers, as soon as one is there.

        Returns two empty lists after `timeout` seconds, on cancel, and once when the mailbox has ended.
        Raises the exception passed to `fail`.
        """
        if self.before_sleep is not None and timeout != 0 and not self._ready(room):
            self.before_sleep()
        with self._changed:
            self._changed.wait_for(lambda: self._ready(room), timeout)
            self._end_told = self.ended
            if self._failure is not None and self.ended:
                raise self._failure
            count = len(self._requests) if room is None else min(room, len(self._requests))
            requests = [self._requests.popleft() for _ in range(count)]
            answers = list(self._answers)
            self._answers.clear()
            self._changed.notify_all()
        return requests, answers

    def __iter__(self) -> Iterator[Request]:
        """The requests one by one, for an engine that answers each before it takes the next.

        A cancellation drops the waiting requests; such an engine has no running request to abort.
        """
        while not self.ended:
            yield from self.wait(room=1)[0]
            self.take_cancel()

    def _ready(self, room: int | None) -> bool:
        if self._answers or self._cancelled or (self._requests and room != 0):
            return True
        return self.ended and not self._end_told


def serve(
    mailbox: Mailbox, room: int, begin: Callable[[Request], object], abort: Callable[[], object]
) -> Iterator[Response]:
    """Keep up to `room` requests running until the mailbox has ended or is cancelled; yield the answers.

    `begin(request)` starts a request and returns at once; the thread that finishes it calls `mailbox.answer`.
    On a cancellation `abort()` ends running requests early, which must still be answered; waiting requests are
    aborted here.
    """
    running = 0
    while running or not mailbox.ended:
        new, answers = mailbox.wait(room=room - running)
        running += len(new) - len(answers)
        for request in new:
            begin(request)
        yield from answers
        waiting = mailbox.take_cancel()
        if waiting is not None:
            yield from (Response(request.id, "", "abort") for request in waiting)
            abort()
            while running:
                answers = mailbox.wait(room=0)[1]
                running -= len(answers)
                yield from answers
            return


def serve_in_pool(
    mailbox: Mailbox,
    pool: Executor,
    room: int,
    answer: Callable[[Request], Response],
    abort: Callable[[], object] = lambda: None,
) -> Iterator[Response]:
    """As `serve`, with `answer(request)` called in the pool; its exception becomes a response with finish `error`."""

    def work(request: Request) -> None:
        try:
            response = answer(request)
        except Exception as problem:  # noqa: BLE001 - an exception fails this request alone
            response = Response(request.id, "", "error", error=f"{type(problem).__name__}: {problem}"[:500])
        mailbox.answer(response)

    return serve(mailbox, room, lambda request: pool.submit(work, request), abort)
