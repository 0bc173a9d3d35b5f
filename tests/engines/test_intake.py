"""The place where an engine waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Intake

PATIENCE_S = 60.0


def request(number: int) -> Request:
    return Request(str(number), ())


def test_requests_arrive_in_order_and_only_as_many_as_there_is_room_for() -> None:
    intake = Intake()
    intake.put([request(n) for n in range(5)])
    assert [r.id for r in intake.wait(room=3)[0]] == ["0", "1", "2"]
    assert intake.wait(timeout=0.0, room=0) == ([], [])
    assert [r.id for r in intake.wait()[0]] == ["3", "4"]


def test_an_answer_wakes_the_engine_even_when_it_has_no_room() -> None:
    intake = Intake()
    intake.put([request(1)])
    threading.Thread(target=intake.answer, args=(Response("0", "", "stop"),)).start()
    assert [a.id for a in intake.wait(PATIENCE_S, room=0)[1]] == ["0"]


def test_the_end_is_told_once_so_that_waiting_for_answers_does_not_spin() -> None:
    intake = Intake()
    intake.close()
    assert intake.wait(PATIENCE_S) == ([], [])
    assert intake.ended
    intake.answer(Response("0", "", "stop"))
    assert len(intake.wait(PATIENCE_S)[1]) == 1
    assert intake.wait(timeout=0.01) == ([], [])  # returns by its timeout, not at once for ever


def test_what_piled_up_is_sent_before_the_engine_sleeps_and_not_before() -> None:
    calls: list[int] = []
    intake = Intake()
    intake.before_sleep = lambda: calls.append(1)
    intake.put([request(1)])
    intake.wait()
    assert calls == []
    intake.wait(timeout=0.01)
    assert calls == [1]


def test_cancel_hands_back_what_nobody_took() -> None:
    intake = Intake()
    intake.put([request(1), request(2)])
    assert intake.take_cancel() is None
    intake.cancel()
    assert [r.id for r in intake.take_cancel() or []] == ["1", "2"]
    assert intake.take_cancel() is None
    assert not intake.ended


def test_a_blocking_iterable_is_fed_with_bounded_haste() -> None:
    drawn: list[int] = []

    def source() -> Iterator[Request]:
        for n in range(100):
            drawn.append(n)
            yield request(n)

    intake = Intake.of(source(), ahead=3)
    got: list[str] = []
    while not intake.ended:
        got += [r.id for r in intake.wait(PATIENCE_S, room=1)[0]]
        assert len(drawn) <= len(got) + 5
    assert got == [str(n) for n in range(100)]


def test_trouble_in_the_iterable_is_raised_where_the_engine_waits() -> None:
    def source() -> Iterator[Request]:
        yield request(1)
        raise RuntimeError("no more shards")

    intake = Intake.of(source(), ahead=2)
    got: list[str] = []
    with pytest.raises(RuntimeError, match="no more shards"):
        got.extend(r.id for _ in range(3) for r in intake.wait(PATIENCE_S)[0])
