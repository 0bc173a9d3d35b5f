"""What the scheduler promises, on an engine of a few lines that dies and errs when told to."""

import itertools
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
from kgqa_hpc.errors import EngineConfigError, EngineDied, EngineError
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Retry, StepContext
from kgqa_hpc.work import item_scheduler
from kgqa_hpc.work.item_scheduler import Limits, Scheduler, Task


@pytest.fixture(autouse=True, scope="module")
def _no_pause() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kgqa_hpc.work.session.PAUSE", 0.0)
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

    def request(self, item: Item, attempt: int, turn: int = 0) -> Request:
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
        lambda task, over: ended.append(task) if over else None,
    )
    return SimpleNamespace(engine=engine, ended=ended, scheduler=scheduler)


def worked(count: int, answer: Callable[[Request], Response], **limits: Any) -> SimpleNamespace:
    """The same after `count` items have run out."""
    b = build(answer, **limits)
    b.scheduler.add(tasks(count))
    run_out(b.scheduler)
    return b


def died(request: Request) -> Response:
    raise EngineDied("no GPU")


def statuses(ended: list[Task]) -> Counter[str]:
    return Counter(task.item.status for task in ended)


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
    asked = judged = 0
    for request_id in (request_id for batch in b.engine.seen for request_id in batch):
        asked += "/generate/" in request_id
        judged += "/judge/" in request_id
        assert asked - judged <= 5, "questions pile up unjudged"


def test_a_retry_is_another_attempt_and_the_last_one_ends_the_item() -> None:
    b = worked(2, lambda request: Response(request.id, "hm", "stop"), attempts=3)
    assert [task.item.reason for task in b.ended] == ["generate: garbage"] * 2
    assert [[entry["attempt"] for entry in task.item.trace] for task in b.ended] == [[0, 1, 2]] * 2


def test_a_rejected_item_is_not_asked_again() -> None:
    b = worked(10, lambda request: Response(request.id, "no" if "/judge/" in request.id else "yes", "stop"))
    assert statuses(b.ended) == {"rejected": 10}
    assert b.scheduler.counters.requests == 20


def test_a_poisonous_item_fails_after_its_deaths_alone_and_no_other_does() -> None:
    b = worked(
        100,
        lambda request: (died if request.id.startswith("s17/judge") else yes)(request),
        window=32,
        item_deaths=3,
    )
    assert statuses(b.ended) == {"accepted": 99, "failed": 1}
    assert [task.item.reason for task in b.ended if task.item.status == "failed"] == ["judge: engine died"]
    # 1 death among all, at most log2(32) while halving, 3 alone
    assert b.scheduler.counters.deaths <= 1 + 5 + 3


@settings(max_examples=60)
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

    b = worked(count, answer, window=window, item_deaths=8, restarts=10_000, attempts=2)
    assert sorted(task.item.id for task in b.ended) == sorted(f"s{n}" for n in range(count))
    failed = {task.item.id for task in b.ended if task.item.reason and "engine died" in task.item.reason}
    assert failed == {f"s{n}" for n in poison if n < count}


@pytest.mark.parametrize(
    ("answer", "limits", "message"),
    [
        (died, {"window": 64, "restarts": 3}, "died 4 times without an answer: no GPU"),
        (died, {"window": 2, "restarts": 9}, "died 10 times without an answer: no GPU"),
        (
            lambda request: Response(request.id, "", "error", error="no credit"),
            {"window": 4, "attempts": 1},
            "no credit",
        ),
    ],
)
def test_an_engine_that_only_dies_or_errs_is_told_at_once_ends_the_work_and_gives_no_item_up(
    answer: Callable[[Request], Response],
    limits: dict[str, int],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    b = build(answer, **limits)
    b.scheduler.add(tasks(500))
    with pytest.raises(EngineError, match=message):
        run_out(b.scheduler)
    assert b.ended == []
    assert message.split(": ")[-1] in caplog.records[0].getMessage()


def test_a_key_that_is_revoked_in_mid_run_ends_the_work_in_its_own_words_and_gives_no_item_up() -> None:
    def answer(request: Request) -> Response:
        if b.scheduler.counters.answers < 20:
            return yes(request)
        raise EngineDied("the engine died") from EngineConfigError("HTTP 401", "set a valid key")

    b = build(answer)
    b.scheduler.add(tasks(50))
    with pytest.raises(EngineConfigError, match="HTTP 401"):
        run_out(b.scheduler)
    assert statuses(b.ended) == {"accepted": len(b.ended)}


def test_items_that_alone_fail_are_failed_and_the_last_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: Request) -> Response:
        bad = int(request.id.split("/")[0][1:]) % 10 == 0
        return Response(request.id, "", "error", error="too long") if bad else yes(request)

    assert statuses(worked(50, answer).ended) == {"accepted": 45, "failed": 5}
    assert statuses(worked(1, answer).ended) == {"failed": 1}
    assert caplog.messages[-1].startswith("failed at the end: 1 items (generate: engine error)")


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


def test_a_stop_is_seen_while_steps_work_on_a_full_window_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    b = build(yes, window=64)
    b.engine.batch = 64
    clock = itertools.count()
    monkeypatch.setattr(item_scheduler.time, "monotonic", lambda: next(clock) / 10)
    b.scheduler.add(tasks(64))
    assert b.scheduler.turn(0) < 8, "a turn ends after half a second, whatever has arrived"
    b.scheduler.drain(lambda: True)
    assert b.scheduler.counters.answers < 32
    assert b.ended == []


@pytest.mark.parametrize(
    ("chain", "texts", "last", "moves", "status"),
    [
        ([Toy("ask")], ["yes"], False, [(1, 0, True)], "open"),  # a later pass goes on with it
        (
            [Toy("ask")],
            ["more", "more", "yes"],
            True,
            [(0, 1, False), (0, 2, False), (1, 0, True)],
            "accepted",
        ),
        # Steps that ask nobody are done on the way and journaled with the answer before.
        (
            [Toy("look", asks=False), Toy("ask"), Toy("count", asks=False), Toy("sum", asks=False)],
            ["yes"],
            True,
            [(1, 0, False), (4, 0, True)],
            "accepted",
        ),
    ],
)
def test_each_answer_moves_an_item_along_its_chain(
    chain: list[Toy], texts: list[str], last: bool, moves: list[tuple[int, int, bool]], status: str
) -> None:
    seen: list[tuple[int, int, bool]] = []
    replies = iter(texts)
    scheduler = Scheduler(
        chain,  # type: ignore[arg-type]
        ToyEngine(lambda request: Response(request.id, next(replies), "stop")),
        Limits(4),
        lambda task, ended: seen.append((task.step, task.turn, ended)),
        last=last,
    )
    (task,) = tasks(1)
    scheduler.add([task])
    run_out(scheduler)
    assert seen == moves
    assert (task.item.status, next(replies, None)) == (status, None)
    free = {step.name: position for position, step in enumerate(chain) if not step.asks}
    assert task.item.features == {name: int(position > 0) for name, position in free.items()}
