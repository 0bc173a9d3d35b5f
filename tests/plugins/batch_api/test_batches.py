"""The ledger of batches, and replies of a service that are none: what is paid for is never sent again."""

import time
from pathlib import Path

import pytest

from kgqa_hpc.engines.openai.replies import Trouble
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.plugins.batch_api.batches import Batch, BatchServer, Ledger
from tests.plugins.batch_api.conftest import Start, ask, assert_paid_once, requests
from tests.plugins.batch_api.service import BatchService


def test_a_batch_that_another_living_process_is_sending_is_not_lost(start: Start) -> None:
    sender, other = start(), start()
    batch = Batch("name", (sender._ledger.key(requests(1)[0]),), "sending", time.time())
    batch = sender._ledger.record(batch)
    other._ledger.read()
    assert other._ledger.is_being_sent(batch)
    sender.close()
    assert not other._ledger.is_being_sent(batch)


def test_a_request_is_looked_up_without_a_walk_through_its_batch(tmp_path: Path) -> None:
    """Of a batch of 50,000 such walks took a minute, each time that batches were looked at."""

    class Key(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Key.compared += 1
            return str.__eq__(self, other)

    ledger, keys = Ledger(tmp_path, "m"), [f"{number}" for number in range(1000)]
    ledger.record(Batch("name", tuple(keys), "ended", 0.0, unanswered=frozenset(keys)))
    assert all(ledger.batch_of(Key(key)) is None for key in keys)
    assert Key.compared < 20 * len(keys)
    assert set(ledger.sendings().values()) == {1}
    ledger.close()


def test_a_redirected_file_of_answers_ends_the_engine_and_nothing_is_sent_again(
    service: BatchService, start: Start
) -> None:
    service.moved = True
    with pytest.raises(EngineConfigError, match="HTTP 302"):
        ask(start(), 1)
    service.moved = False
    assert ask(start(), 1)["0"].finish == "stop"
    assert_paid_once(service, 1)


@pytest.mark.parametrize(("file", "words"), [("gone", "no such file"), (None, "has no file of answers")])
def test_a_lost_file_of_answers_ends_the_engine_with_a_cure(
    service: BatchService, start: Start, file: str | None, words: str
) -> None:
    service.look = lambda name: {"status": "completed", "output_file_id": file}  # type: ignore[method-assign]
    with pytest.raises(EngineConfigError, match=words) as caught:
        ask(start(), 1)
    assert "RUN/batches" in caught.value.cure
    assert len(service.batches) == 1


ODD = [None, [], {}, {"error": "no"}, {"status": ["x"]}, {"data": "x"}]


@pytest.mark.parametrize("drops", [[], ["after"]], ids=["of a batch", "of the list"])
def test_after_replies_that_are_no_batch_and_no_list_nothing_is_paid_twice(
    service: BatchService, start: Start, drops: list[str]
) -> None:
    service.drops, service.odd = drops, [*ODD]
    assert {answer.finish for answer in ask(start(), 4).values()} == {"stop"}
    assert_paid_once(service, 4)
    assert not service.odd


def test_a_refused_batch_of_odd_errors_and_an_endless_list_fail(service: BatchService, start: Start) -> None:
    service.odd = [{"status": "failed", "errors": "x"}]
    with pytest.raises(EngineConfigError, match="it says no more"):
        ask(start(), 1)
    service.odd = [{"data": [{"id": "a", "metadata": ["x"]}], "has_more": True}] * 2
    server = start()._batches
    assert isinstance(server, BatchServer)
    with pytest.raises(Trouble, match="next page"):
        server.find("b", 0.0)


def test_batches_are_found_on_any_page_of_the_list(start: Start) -> None:
    server = start()._batches
    assert isinstance(server, BatchServer)
    file = server.upload(b"")
    ids = {name: server.create(file, name) for name in "abcde"}
    assert {name: server.find(name, 0.0) for name in "abcde"} == ids
    assert server.find("f", 0.0) is None
