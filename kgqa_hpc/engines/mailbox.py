"""The mailbox of an engine, in which it waits for requests, finished answers, cancellation and the end.

Any thread may add requests and answers; one thread waits. A simple engine iterates over the requests; an engine with
many simultaneous requests uses `serve`, or is a `PoolEngine`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from queue import Empty, SimpleQueue
from typing import Any

from kgqa_hpc.engines.engine import Request, Response


class Mailbox:
    """Requests in, answers out; also an iterator over its requests.

    `before_sleep` is called whenever `wait` is about to block, to send the collected answers.
    """

    def __init__(self) -> None:
        self.before_sleep: Callable[[], None] = lambda: None
        self._events: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        # The state after the events that the waiting thread has taken; no other thread touches it.
        self._requests: deque[Request] = deque()
        self._answers: list[Response] = []
        self._closed = self._end_reported = self._cancelled = False
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
        self._events.put(("requests", requests))

    def answer(self, response: Response) -> None:
        """Add a finished answer; called by the engine's threads."""
        self._events.put(("answer", response))

    def close(self) -> None:
        """Announce that no more requests will come."""
        self._events.put(("close", None))

    def fail(self, problem: BaseException) -> None:
        """Make `wait` raise `problem` and return no further answers, because the engine cannot continue."""
        self._events.put(("fail", problem))

    def cancel(self) -> None:
        """Wake the engine to abort its requests."""
        self._events.put(("cancel", None))

    def take_cancel(self) -> list[Request] | None:
        """The requests not taken yet, if `cancel` was called since the last call; otherwise None."""
        self._take_events(0)
        if not self._cancelled:
            return None
        waiting = list(self._requests)
        self._requests.clear()
        self._cancelled = False
        return waiting

    @property
    def ended(self) -> bool:
        """Whether the mailbox is closed and the engine has taken every request."""
        return self._closed and not self._requests

    def wait(
        self, timeout: float | None = None, room: int | None = None
    ) -> tuple[list[Request], list[Response]]:
        """New requests (at most `room`; 0 leaves them) and finished answers, as soon as one of either is available.

        Returns two empty lists after `timeout` seconds, on cancel, and once when the mailbox has ended.
        Raises the exception passed to `fail`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self._take_events(0)
        while not (
            (self._requests and room != 0)
            or (self._answers or self._cancelled or self._failure)
            or (self.ended and not self._end_reported)
        ):
            if timeout != 0:
                self.before_sleep()
            if not self._take_events(None if deadline is None else max(deadline - time.monotonic(), 0.0)):
                break
        if self._failure is not None:
            raise self._failure
        count = len(self._requests) if room is None else min(room, len(self._requests))
        requests = [self._requests.popleft() for _ in range(count)]
        answers, self._answers = self._answers, []
        self._end_reported = self.ended
        return requests, answers

    def __iter__(self) -> Iterator[Request]:
        """The requests one by one, for an engine that answers each before it takes the next.

        A cancellation drops the waiting requests; such an engine has no running request to abort.
        """
        while not self.ended:
            yield from self.wait(room=1)[0]
            self.take_cancel()

    def _take_events(self, timeout: float | None) -> bool:
        """Wait for the first event and apply all that have come; False if none came in time."""
        came = False
        try:
            while True:
                verb, value = self._events.get(timeout=0 if came else timeout)
                came = True
                if verb == "requests":
                    self._requests.extend(value)
                elif verb == "answer":
                    self._answers.append(value)
                elif verb == "cancel":
                    self._cancelled = True
                else:
                    self._closed, self._failure = True, self._failure or value
        except Empty:
            return came


def serve(
    mailbox: Mailbox, room: int, begin: Callable[[Request], object], abort: Callable[[], object]
) -> Iterator[Response]:
    """Keep up to `room` requests running until the mailbox has ended or is cancelled; yield the answers.

    `begin(request)` starts a request and returns at once; the thread that finishes it calls `mailbox.answer`.
    On a cancellation `abort()` ends running requests early, which must still be answered; waiting requests are
    aborted here.
    """
    running, cancelled = 0, False
    while running or not (cancelled or mailbox.ended):
        new, answers = mailbox.wait(room=0 if cancelled else room - running)
        running += len(new) - len(answers)
        for request in new:
            begin(request)
        yield from answers
        if (waiting := mailbox.take_cancel()) is not None:
            cancelled = True
            yield from (Response(request.id, "", "abort") for request in waiting)
            abort()


class PoolEngine:
    """Base of engines that answer each request in a thread: a subclass defines `answer`.

    An exception of `answer` becomes a response with finish `error`; an exception of the classes `ends_at`, which every
    request would meet, ends the engine. `stopped` is set on a cancellation and at the end, for answers that can end
    early. Accepts every schema.
    """

    ends_at: tuple[type[Exception], ...] = ()

    def __init__(self, threads: int) -> None:
        self.stopped = threading.Event()
        self._threads, self._pool = threads, ThreadPoolExecutor(threads)

    def answer(self, request: Request) -> Response:
        """The answer to a request. Called from several threads."""
        raise NotImplementedError

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        pass

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        self.stopped.clear()

        def work(request: Request) -> None:
            try:
                response = self.answer(deepcopy(request))  # requests share messages and schemas
            except self.ends_at as problem:
                self.stopped.set()
                mailbox.fail(problem)
                return
            except BaseException as problem:  # noqa: BLE001 - also an exit or a panic fails this request alone
                words = f"{type(problem).__name__}: {problem}"[:500]
                response = Response(request.id, "", "error", error=words)
            mailbox.answer(response)

        yield from serve(
            mailbox, self._threads, lambda request: self._pool.submit(work, request), self.stopped.set
        )

    def close(self) -> None:
        self.stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
