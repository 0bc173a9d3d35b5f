"""Frames between worker and engine process, and the mailbox at their end."""

import random
import threading

from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.engines.child import frame, read_frames
from kgqa_hpc.engines.engine import MOST_TOKENS, Request, Response
from kgqa_hpc.engines.mailbox import Mailbox

PATIENCE_S = 60.0
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), st.randoms(use_true_random=False))
def test_what_goes_in_comes_out_however_the_stream_is_cut(
    name: str, content: str, seed: int, cutter: random.Random
) -> None:
    request = Request(name, ({"role": "user", "content": content},), seed=seed, schema={"type": "null"})
    response = Response(name, content, "length", 1, 2, 3, error=content)
    stream = frame("requests", [request]) + frame("cancel") + frame("responses", [response])
    received, frames, start = bytearray(), [], 0
    while start < len(stream):
        end = start + cutter.randint(1, 40)
        received += stream[start:end]
        frames += read_frames(received)
        start = end
    assert frames == [("requests", [request]), ("cancel", None), ("responses", [response])]


def test_requests_share_what_they_have_in_common_and_nothing_else() -> None:
    system, schema = {"role": "system", "content": "long instructions"}, {"type": "null"}
    users = [{"role": "user", "content": f"item {n}"} for n in range(50)]
    # A prompt renders an equal system message for each item.
    requests = [Request(f"r{n}", (dict(system), user), seed=n, schema=schema) for n, user in enumerate(users)]
    requests.append(Request("bare", (users[0],)))
    stream = frame("requests", requests)
    assert stream.count(b"long instructions") == 1
    assert list(read_frames(bytearray(stream))) == [("requests", requests)]


def test_a_lone_surrogate_becomes_a_question_mark_and_token_counts_are_bounded() -> None:
    stream = frame("responses", [Response("r", 'a\ud800b "é"', "stop", 2**63, -1, 1e300)])
    ((_, content),) = read_frames(bytearray(stream))
    assert content == [Response("r", 'a?b "é"', "stop", MOST_TOKENS, 0, MOST_TOKENS)]


def numbered(number: int) -> Request:
    return Request(str(number), ())


def test_requests_arrive_in_order_and_only_as_many_as_there_is_room_for_and_answers_always() -> None:
    mailbox = Mailbox()
    mailbox.put([numbered(n) for n in range(5)])
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


def test_a_simple_engine_reads_request_after_request_and_a_cancel_drops_what_waits() -> None:
    mailbox = Mailbox.holding([numbered(n) for n in range(5)])
    got = []
    for one in mailbox:
        got.append(one.id)
        if one.id == "1":
            mailbox.cancel()
    assert got == ["0", "1"]
