"""Scheduler that moves items through a chain of steps and keeps one engine always supplied with requests.

A task is one item with its place in the chain. Tasks wait in one queue per step; the latest step goes first,
so that a question is judged before another one is asked. At most `window` requests are in flight; other
tasks wait here. The worker opens the next shard only when few tasks wait, which limits memory. A step without a usable
answer asks again, up to the prompt's or the run's number of attempts; then the item is lost (`_advance`).

When the engine dies, the requests in flight have no answer, and any of their items may be the cause. These tasks are
sent again in two halves, one half at a time and nothing else; a half that kills the engine again is halved again. So
an accidental death costs little, an item that kills the engine is found after about log2(window) deaths, and no
other item is lost.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kgqa_hpc.engines.engine import Response
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.errors import EngineDied, EngineError, ExtensionError, InputError, KgqaError
from kgqa_hpc.steps.item import Item, end
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Retry, Step
from kgqa_hpc.terminal import LOG
from kgqa_hpc.work.session import Counters, bring_up

Result = TypeVar("Result")
TURN = 0.5  # seconds of work on answers after which a turn ends, so that stop requests and timers are noticed
REFUSALS = 6  # restarts, in about 5 s, of an engine that reports an error of the user, such as a refused key
HELD = (
    "failed at the end: %d items (%s); if the engine was the cause, mend it, delete results/*/NAME.h5 of %s, "
    "and run the same command again"
)
TRIAL = "trial"  # the shard of items of which no result is written
CANCEL_GRACE = 1.0  # seconds that an engine has to acknowledge a cancellation


@dataclass(slots=True, eq=False)
class Task:
    """An item, its next step, the number of attempts at that step, and its turn within the step.

    `shard` is empty after the shard was dropped.
    """

    item: Item
    shard: str
    step: int = 0
    attempt: int = 0
    turn: int = 0
    deaths: int = 0  # deaths of the engine while this was its only task


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of attempts before the scheduler gives up; the defaults are those of the configuration."""

    window: int
    attempts: int = 3
    item_deaths: int = 3
    restarts: int = 20


class Scheduler:
    """Moves tasks through the steps. `moved(task, ended)` is called after each answer was stored in its item.

    `ended`: the item has left the chain. `last`: an item that passes the whole chain is accepted, because no
    later pass processes it. `stopped()` ends the waiting between two starts of an
    engine; `interruptible()` encloses the code of steps, and what it raises reaches the caller.
    """

    def __init__(
        self,
        chain: Sequence[Step],
        engine: EngineProcess,
        limits: Limits,
        moved: Callable[[Task, bool], None],
        *,
        last: bool = True,
        stopped: Callable[[], bool] = lambda: False,
        interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.counters = Counters()
        self._chain = tuple(chain)
        self._engine = engine
        self._limits = limits
        self.window = limits.window  # limit of requests in flight; an engine may lower it
        self._moved = moved
        self._last = last
        self._stopped = stopped
        self._queues: tuple[deque[Task], ...] = tuple(deque() for _ in self._chain)
        self._flight: dict[str, tuple[Task, float]] = {}
        self._arrived: deque[tuple[Response, float]] = deque()  # answers that no step has processed yet
        self._groups: deque[list[Task]] = deque()  # suspects of an engine's death; each group is sent alone
        self._alone = 0  # size of the group that is being sent alone; 0: none
        self._held: list[Task] = []  # tasks that the engine failed; final only if other tasks succeed
        self._streak = 0  # failed requests since the last good answer
        self._fruitless = 0  # deaths of the engine since the last answer
        self._sending = True
        self._interruptible = interruptible
        self._reported: set[tuple[str, str]] = set()  # steps and types of exceptions that were logged

    @property
    def waiting(self) -> int:
        """Number of tasks that wait outside the engine."""
        return sum(map(len, (*self._queues, *self._groups)))

    @property
    def in_flight(self) -> int:
        """Number of requests that the engine has received and not answered."""
        return len(self._flight)

    def add(self, tasks: Iterable[Task]) -> None:
        """Queue tasks, each at the step it needs; a step without a prompt is done at once."""
        for task in tasks:
            if (outcome := self._computed(task)) is None:
                self._queues[task.step].append(task)
            else:
                self._advance(task, outcome, asked=False)

    def drop(self, shard: str) -> None:
        """Remove a shard's tasks: another worker has it now. Answers that still arrive are ignored."""
        for queue in self._queues:
            remaining = [task for task in queue if task.shard != shard]
            queue.clear()
            queue.extend(remaining)
        groups = ([task for task in group if task.shard != shard] for group in self._groups)
        self._groups = deque(group for group in groups if group)
        self._held = [task for task in self._held if task.shard != shard]
        for task, _ in self._flight.values():
            if task.shard == shard:
                task.shard = ""

    def turn(self, timeout: float) -> int:
        """One round: fill the window with requests, then process the received answers, or wait for one.

        A turn ends after half a second of work on answers; the next turn continues with the rest. Returns the
        number of processed answers, at once if nothing is in flight. Raises EngineError when the engine dies
        again and again without an answer, or answers nothing but errors.
        """
        try:
            self._fill()
            if not self._flight:
                if not self.waiting:  # no task is open: the failures that were held back are final
                    if names := ", ".join(sorted({task.shard for task in self._held} - {TRIAL})):
                        LOG.warning(HELD, len(self._held), self._held[-1].item.reason, names)
                    self._release()
                return 0
            if not self._arrived:
                answers = self._engine.receive(timeout)
                now = time.monotonic()
                self._arrived.extend((answer, now) for answer in answers)
        except EngineDied as death:
            self._bury(death)
            return 0
        before, until = len(self._arrived), time.monotonic() + TURN
        while self._arrived and time.monotonic() < until:
            self._take(*self._arrived.popleft())
        return before - len(self._arrived)

    def drain(self, enough: Callable[[], bool]) -> None:
        """Send no new requests; wait for those in flight until `enough()`, then cancel the remaining ones."""
        self._sending = False
        while self._flight and not enough():
            self.turn(0.1)
        try:
            if self._flight:
                self._engine.cancel()
        except EngineDied:
            return
        give_up = time.monotonic() + CANCEL_GRACE
        while self._flight and time.monotonic() < give_up:
            self.turn(0.1)

    def _fill(self) -> None:
        """Send the next group of suspects alone; without one, tasks of the latest steps until the window is full."""
        if not self._flight:
            self._alone = 0
        if not self._sending or self._alone or (self._groups and self._flight):
            return
        batch: list[Task] = []
        if self._groups:
            batch = self._groups.popleft()
            self._alone = len(batch)
        for queue in reversed(self._queues) if not self._alone else ():
            while queue and len(batch) < self.window - len(self._flight):
                batch.append(queue.popleft())
        requests, now = [], time.monotonic()
        for task in batch:
            step = self._chain[task.step]
            ask = partial(step.request, task.item, task.attempt, task.turn)
            request = self._guard(step, task.item, ask)
            if isinstance(request, Retry):
                self._advance(task, request, asked=True)
                continue
            self._flight[request.id] = (task, now)
            requests.append(request)
        if requests:
            self.counters.requests += len(requests)
            self._engine.send(requests)

    def _take(self, response: Response, now: float) -> None:
        task, sent = self._flight.pop(response.id)
        if not task.shard:
            return
        if response.finish == "abort":
            self._queues[task.step].appendleft(task)
            self._doubt_engine("aborted", response.error)
            return
        self._fruitless = 0
        counters = self.counters
        counters.answers += 1
        counters.errors += response.finish == "error"
        counters.prompt_tokens += response.prompt_tokens
        counters.completion_tokens += response.completion_tokens
        counters.slowest = max(counters.slowest, now - sent)
        if response.finish == "error":
            if counters.errors == 1:
                LOG.warning("first error of the engine, in request %s: %s", response.id, response.error)
            self._doubt_engine("answered with errors", response.error)
        else:
            self._streak = 0
            self._release()
        step = self._chain[task.step]
        take = partial(step.take, task.item, response, task.attempt, task.turn)
        self._advance(task, self._guard(step, task.item, take), asked=True)

    def _doubt_engine(self, did: str, error: str | None) -> None:
        """Raise EngineError when a full window of requests failed twice in a row: then the items are not the cause."""
        self._streak += self._sending
        if self._sending and self._streak > max(64, 2 * self._limits.window):
            raise EngineError(
                f"the engine {did} {self._streak} times in a row: {error}",
                "mend it and run the same command again; none of these items was given up",
            )

    def _advance(self, task: Task, outcome: Outcome, *, asked: bool) -> None:
        """Move a task on. `asked`: a request was made; a step without one would only repeat its result."""
        step = self._chain[task.step]
        while isinstance(outcome, Done):
            task.step, task.attempt, task.turn, task.item.state = task.step + 1, 0, 0, {}
            if task.step == len(self._chain) or (computed := self._computed(task)) is None:
                break
            outcome, asked, step = computed, False, self._chain[task.step]
        match outcome:
            case Done() if task.step < len(self._chain):
                self._queues[task.step].append(task)
            case Done() if self._last:
                end(task.item, outcome, self._chain[-1].context.kind, self._chain[-1].label)
            case Ask():
                task.attempt, task.turn = 0, task.turn + 1
                self._queues[task.step].appendleft(task)
            case Retry() if asked and task.attempt + 1 < (step.attempts or self._limits.attempts):
                task.attempt += 1
                self.counters.retries += 1
                self._queues[task.step].appendleft(task)
            case Retry() | Reject():
                end(task.item, outcome, self._chain[-1].context.kind, step.label)
        if task.item.status == "failed" and self._streak:
            self._held.append(task)
        else:
            self._moved(task, task.item.status != "open" or task.step == len(self._chain))

    def _computed(self, task: Task) -> Outcome | None:
        """The outcome of the task's step if it needs no request for this item; None if it needs one."""
        step = self._chain[task.step]
        asks = self._guard(step, task.item, partial(step.asks_about, task.item))
        if isinstance(asks, Retry):
            return asks
        return None if asks else self._guard(step, task.item, partial(step.run, task.item))

    def _guard(self, step: Step, item: Item, call: Callable[[], Result]) -> Result | Retry:
        """The result of step code, which may come from an extension: an exception fails its item and nothing else.

        The traceback of a step's first exception of each type is logged.
        """
        try:
            with self._interruptible():
                return call()
        except KgqaError:
            raise
        except (Exception, SystemExit) as problem:  # noqa: BLE001  it may be the code of an extension
            kind = type(problem).__name__
            if (step.label, kind) not in self._reported:
                self._reported.add((step.label, kind))
                LOG.warning("%s: item %s: %s: %s", step.entry, item.id, kind, problem, exc_info=True)
            return Retry(kind, lost_as="failed")

    def _release(self) -> None:
        """Make the failures that were held back final: the engine answers other tasks."""
        held, self._held = self._held, []
        for task in held:
            self._moved(task, True)

    def _bury(self, death: EngineDied) -> None:
        while self._arrived:
            self._take(*self._arrived.popleft())
        lost = [task for task, _ in self._flight.values() if task.shard]
        self._flight.clear()
        self.counters.deaths += 1
        if self.counters.deaths == 1:
            LOG.warning("%s; it is started again", death.message)
        if not self._sending:
            return
        refusal = death.__cause__  # an InputError here is the user's error, not an item's
        # Code that breaks its contract does so again.
        if isinstance(refusal, ExtensionError) or (
            isinstance(refusal, InputError) and not self.counters.answers
        ):
            raise refusal
        self._fruitless += 1
        if isinstance(refusal, InputError):
            for task in reversed(lost):
                self._queues[task.step].appendleft(task)
        elif self._alone == 1 and lost:  # this item kills the engine: send it again alone, or give it up
            (task,) = lost
            task.deaths += 1
            if task.deaths < self._limits.item_deaths:
                self._groups.appendleft(lost)
            else:
                step = self._chain[task.step]
                end(task.item, Retry("engine died", lost_as="failed"), step.context.kind, step.label)
                self._held.append(task)
        else:
            half = (len(lost) + 1) // 2
            self._groups.extendleft(part for part in (lost[half:], lost[:half]) if part)
        self._alone = 0
        before, start = self._fruitless, partial(self._engine.start, self._stopped)
        restarts = self._limits.restarts
        if isinstance(refusal, InputError):
            restarts = min(restarts, REFUSALS)
        try:
            self._fruitless = bring_up(start, restarts, self._stopped, before, death)
        except EngineError:
            if isinstance(refusal, InputError):
                raise refusal from None
            raise
        self.counters.deaths += self._fruitless - before
