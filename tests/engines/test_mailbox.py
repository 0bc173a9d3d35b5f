"""The mailbox of an engine: requests, answers, cancellation and end."""

from __future__ import annotations

import threading

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Mailbox

PATIENCE_S = 60.0


def request(number: int) -> Request:
    return Request(str(number), ())


def test_requests_arrive_in_order_and_only_as_many_as_there_is_room_for_and_answers_always() -> None:
    mailbox = Mailbox()
    mailbox.put([request(n) for n in range(5)])
    assert [r.id for r in mailbox.wait(room=3)[0]] == ["0", "1", "2"]
    assert mailbox.wait(timeout=0.0, room=0) == ([], [])
    threading.Thread(target=mailbox.answer, args=(Response("0", "", "stop"),)).start()
    assert [a.id for a in mailbox.wait(PATIENCE_S, room=0)[1]] == ["0"]
    assert [r.id for r in mailbox.wait()[0]] == ["3", "4"]


def test_the_end_is_told_once_so_that_waiting_for_answers_does_not_spin() -> None:
    mailbox = Mailbox()
    mailbox.close()
    assert mailbox.wait(PATIENCE_S) == ([], [])
    assert mailbox.ended
    mailbox.answer(Response("0", "", "stop"))
    assert len(mailbox.wait(PATIENCE_S)[1]) == 1
    assert mailbox.wait(timeout=0.01) == ([], [])  # returns by its timeout, not at once for ever


def test_what_piled_up_is_sent_before_the_engine_sleeps_and_not_before() -> None:
    calls: list[int] = []
    mailbox = Mailbox()
    mailbox.before_sleep = lambda: calls.append(1)
    mailbox.put([request(1)])
    mailbox.wait()
    assert calls == []
    mailbox.wait(timeout=0.01)
    assert calls == [1]


def test_a_simple_engine_reads_request_after_request_and_a_cancel_drops_what_waits() -> None:
    mailbox = Mailbox.holding([request(n) for n in range(5)])
    got = []
    for one in mailbox:
        got.append(one.id)
        if one.id == "1":
            mailbox.cancel()
    assert got == ["0", "1"]
