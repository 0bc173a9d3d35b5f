"""What the scheduler promises, on an engine of a few lines that dies and errs when told to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.errors import EngineDied, EngineError
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Retry, StepContext
from kgqa_hpc.work.item_scheduler import Limits, Scheduler, Task


@pytest.fixture(autouse=True, scope="module")
def _no_pause() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kgqa_hpc.work.pace.PAUSE", 0.0)
        yield


@dataclass
class Toy:
    """A step whose outcome stands in the response's text."""

    name: str
    asks: bool = True
    attempts: int | None = None
    context: StepContext = field(default_factory=lambda: StepContext(0, AnchorKind()))

    def asks_about(self, item: Item) -> bool:
        return self.asks

    @property
    def label(self) -> str:
        return self.name

    def run(self, item: Item) -> Outcome:
        item.features[self.name] = len(item.trace)
        return Done()

    def request(self, item: Item, attempt: int, run_seed: int, turn: int = 0) -> Request:
        return Request(
            f"{item.id}/{self.name}/{attempt}", ({"role": "user", "content": item.id},), seed=attempt
        )

    def take(self, item: Item, response: Response, attempt: int, turn: int = 0) -> Outcome:
        item.trace.append({"step": self.name, "attempt": attempt, "text": response.text})
        if response.finish == "error":
            return Retry("engine error", lost_as="failed")
        if response.text == "no":
            return Reject(f"{self.name}: no")
        if response.text == "more":
            return Ask()
        return Done() if response.text == "yes" else Retry("garbage", lost_as="invalid")


@dataclass
class ToyEngine:
    """Answers up to `batch` requests per receive, in a shuffled order. `answer` may raise EngineDied."""

    answer: Callable[[Request], Response]
    batch: int = 8
    seed: int = 0
    up: bool = True
    starts: int = 0
    flight: list[Request] = field(default_factory=list)
    seen: list[list[str]] = field(default_factory=list)
    most: int = 0

    def start(self, stop: Callable[[], bool]) -> None:
        self.up, self.flight = True, []
        self.starts += 1

    def send(self, requests: Sequence[Request]) -> None:
        if not self.up:
            raise EngineDied("not running")
        self.flight += requests
        self.seen.append([request.id for request in requests])
        self.most = max(self.most, len(self.flight))

    def receive(self, timeout: float) -> list[Response]:
        random.Random(f"{self.seed}/{len(self.seen)}").shuffle(self.flight)
        answers = []
        for request in self.flight[: self.batch]:
            try:
                answers.append(self.answer(request))
            except EngineDied:
                self.up = False
                raise
        del self.flight[: len(answers)]
        return answers

    def cancel(self) -> None:
        self.answer = lambda request: Response(request.id, "", "abort")


def tasks(count: int, shard: str = "s") -> list[Task]:
    pair = {"question": "Which?", "answer": "That."}
    return [Task(Item(Anchor(f"{shard}{n}", "toy", "all"), output=dict(pair)), shard) for n in range(count)]


def yes(request: Request) -> Response:
    return Response(request.id, "yes", "stop")


def run_out(scheduler: Scheduler) -> None:
    for _ in range(100_000):
        scheduler.turn(0)
        if not scheduler.in_flight and not scheduler.waiting:
            scheduler.turn(0)
            return
    raise AssertionError("the scheduler does not come to an end")


def build(answer: Callable[[Request], Response], **limits: Any) -> SimpleNamespace:
    engine = ToyEngine(answer)
    ended: list[Task] = []
    scheduler = Scheduler(
        [Toy("generate"), Toy("judge")],
        engine,
        Limits(**{"window": 16, **limits}),
        1,
        lambda task, over: ended.append(task) if over else None,
    )
    return SimpleNamespace(engine=engine, ended=ended, scheduler=scheduler)


def statuses(ended: list[Task]) -> Counter[str]:
    return Counter(task.item.status for task in ended)


def test_every_item_goes_through_all_steps_once() -> None:
    b = build(yes)
    b.scheduler.add(tasks(100))
    run_out(b.scheduler)
    assert statuses(b.ended) == {"accepted": 100}
    assert sorted(len(task.item.trace) for task in b.ended) == [2] * 100


def test_no_more_than_the_window_is_in_flight() -> None:
    b = build(yes, window=5)
    b.scheduler.add(tasks(40))
    b.scheduler.turn(0)
    assert b.engine.most == 5
    b.scheduler.window, b.engine.most = 2, 0  # it shrinks when free shards run out
    run_out(b.scheduler)
    assert b.engine.most == 2


def test_judgements_go_before_new_questions() -> None:
    b = build(yes, window=4)
    b.engine.batch = 1
    b.scheduler.add(tasks(30))
    run_out(b.scheduler)
    sent = [request_id for batch in b.engine.seen for request_id in batch]
    asked = judged = 0
    for request_id in sent:
        asked += "/generate/" in request_id
        judged += "/judge/" in request_id
        assert asked - judged <= 5, "questions pile up unjudged"


def test_an_item_ends_open_when_a_later_pass_goes_on_with_it() -> None:
    engine, ended = ToyEngine(yes), []
    scheduler = Scheduler(
        [Toy("generate")], engine, Limits(4), 1, lambda task, over: ended.append((task, over)), last=False
    )
    scheduler.add(tasks(3))
    run_out(scheduler)
    assert [(task.item.status, over) for task, over in ended] == [("open", True)] * 3


def test_a_retry_is_another_attempt_and_the_last_one_ends_the_item() -> None:
    b = build(lambda request: Response(request.id, "hm", "stop"), attempts=3)
    b.scheduler.add(tasks(2))
    run_out(b.scheduler)
    assert [task.item.reason for task in b.ended] == ["generate: garbage"] * 2
    assert [[entry["attempt"] for entry in task.item.trace] for task in b.ended] == [[0, 1, 2]] * 2


def test_a_rejected_item_is_not_asked_again() -> None:
    b = build(lambda request: Response(request.id, "no" if "/judge/" in request.id else "yes", "stop"))
    b.scheduler.add(tasks(10))
    run_out(b.scheduler)
    assert statuses(b.ended) == {"rejected": 10}
    assert b.scheduler.counters.requests == 20


def test_after_an_accident_all_are_asked_again_and_nobody_is_blamed() -> None:
    fates = iter([False] * 20 + [True])

    def answer(request: Request) -> Response:
        if next(fates, False):
            raise EngineDied("bumped")
        return yes(request)

    b = build(answer)
    b.scheduler.add(tasks(60))
    run_out(b.scheduler)
    assert statuses(b.ended) == {"accepted": 60}
    assert (b.scheduler.counters.deaths, b.engine.starts) == (1, 1)


def test_a_poisonous_item_fails_after_its_deaths_alone_and_no_other_does() -> None:
    def answer(request: Request) -> Response:
        if request.id.startswith("s17/judge"):
            raise EngineDied("poisoned")
        return yes(request)

    b = build(answer, window=32, item_deaths=3)
    b.scheduler.add(tasks(100))
    run_out(b.scheduler)
    assert statuses(b.ended) == {"accepted": 99, "failed": 1}
    assert [task.item.reason for task in b.ended if task.item.status == "failed"] == ["judge: engine died"]
    # 1 death among all, at most log2(32) while halving, 3 alone
    assert b.scheduler.counters.deaths <= 1 + 5 + 3


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 70),
    st.integers(1, 40),
    st.sets(st.integers(0, 69), max_size=4),
    st.floats(0, 0.05),
    st.integers(0, 2**32),
)
def test_whatever_dies_each_item_ends_once_and_only_poison_fails(
    count: int, window: int, poison: set[int], accidents: float, seed: int
) -> None:
    chance = random.Random(seed)
    deadly = {f"s{n}" for n in poison}

    def answer(request: Request) -> Response:
        if request.id.split("/")[0] in deadly or chance.random() < accidents:
            raise EngineDied("gone")
        return Response(request.id, chance.choice(["yes", "yes", "no", "hm"]), "stop")

    b = build(answer, window=window, item_deaths=8, restarts=10_000, attempts=2)
    b.scheduler.add(tasks(count))
    run_out(b.scheduler)
    assert sorted(task.item.id for task in b.ended) == sorted(f"s{n}" for n in range(count))
    died = {task.item.id for task in b.ended if task.item.reason and "engine died" in task.item.reason}
    assert died == {f"s{n}" for n in poison if n < count}


def test_an_engine_that_dies_without_ever_answering_ends_the_work() -> None:
    def answer(request: Request) -> Response:
        raise EngineDied("no GPU")

    b = build(answer, window=64, restarts=3)
    b.scheduler.add(tasks(64))
    with pytest.raises(EngineError, match="died 4 times without an answer: no GPU"):
        run_out(b.scheduler)
    assert b.ended == []


def test_an_engine_that_only_answers_with_errors_ends_the_work_and_gives_no_item_up() -> None:
    b = build(lambda request: Response(request.id, "", "error", error="no credit"), window=4, attempts=1)
    b.scheduler.add(tasks(500))
    with pytest.raises(EngineError, match="no credit"):
        run_out(b.scheduler)
    assert b.ended == []


def test_items_that_alone_fail_are_counted_failed() -> None:
    def answer(request: Request) -> Response:
        bad = int(request.id.split("/")[0][1:]) % 10 == 0
        return Response(request.id, "", "error", error="too long") if bad else yes(request)

    b = build(answer)
    b.scheduler.add(tasks(50))
    run_out(b.scheduler)
    assert statuses(b.ended) == {"accepted": 45, "failed": 5}


def test_a_dropped_shard_is_not_moved_any_more() -> None:
    b = build(yes, window=4)
    b.scheduler.add(tasks(20, "a") + tasks(20, "b"))
    b.engine.batch = 2
    b.scheduler.turn(0)
    before = len(b.ended)
    b.scheduler.drop("a")
    run_out(b.scheduler)
    assert {task.shard for task in b.ended[before:]} == {"b"}
    assert len(b.ended) == before + 20


def test_a_drain_takes_what_is_answered_and_cancels_the_rest() -> None:
    b = build(yes, window=8)
    b.engine.batch = 3
    b.scheduler.add(tasks(30))
    b.scheduler.turn(0)
    moved = b.scheduler.counters.answers
    patience = iter([False, True])
    b.scheduler.drain(lambda: next(patience, True))
    assert b.scheduler.in_flight == 0
    assert b.scheduler.counters.answers == moved + 3, "one more round was waited for, the rest cancelled"
    assert b.ended == []


def test_steps_that_ask_nobody_are_done_on_the_way_and_journaled_with_the_answer_before() -> None:
    moves: list[tuple[int, bool]] = []
    engine = ToyEngine(lambda request: Response(request.id, "yes", "stop"))
    chain = [Toy("look", asks=False), Toy("ask"), Toy("count", asks=False), Toy("sum", asks=False)]
    scheduler = Scheduler(chain, engine, Limits(4), 1, lambda task, ended: moves.append((task.step, ended)))
    (task,) = tasks(1)
    scheduler.add([task])
    while not moves or not moves[-1][1]:
        scheduler.turn(0)
    assert task.item.features == {"look": 0, "count": 1, "sum": 1}
    assert task.item.status == "accepted"
    assert moves == [(1, False), (4, True)]


def test_a_step_may_ask_several_times_in_turn() -> None:
    texts = {0: "more", 1: "more", 2: "yes"}
    moves: list[int] = []
    seen: list[str] = []

    def answer(request: Request) -> Response:
        seen.append(request.id)
        return Response(request.id, texts[len(seen) - 1], "stop")

    scheduler = Scheduler(
        [Toy("ask")], ToyEngine(answer), Limits(4), 1, lambda task, _: moves.append(task.turn)
    )
    (task,) = tasks(1)
    scheduler.add([task])
    while task.item.status == "open":
        scheduler.turn(0)
    assert len(seen) == 3
    assert moves == [1, 2, 0]
    assert task.item.status == "accepted"
