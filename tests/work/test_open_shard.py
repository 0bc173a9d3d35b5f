"""A shard in work takes over what others journaled, and keeps what an answer did."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgqa_hpc.runs import run_config
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.partition import load_shard, partition
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import read_result
from kgqa_hpc.work.item_scheduler import Task
from kgqa_hpc.work.open_shard import AT, OpenShard
from tests.runs import make_run

SHARD = "shard-000000"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path / "run", 6)


@pytest.fixture
def session(run: RunFolder) -> Any:
    """As much of a session as a shard needs; `events` collects what it logs."""
    events: list[tuple[str, dict[str, Any]]] = []
    log = SimpleNamespace(write=lambda event, **facts: events.append((event, facts)))
    made = {"config": run_config(run), "shards": partition(run, 6)}
    return SimpleNamespace(run=run, worker="w", log=log, events=events, **made)


def open_shard(session: Any, before: dict[str, Any] | None = None, steps: int = 2) -> OpenShard:
    leases = Leases(session.run.leases("main"), "w", 60)
    leases.path(SHARD).unlink(missing_ok=True)
    lease = leases.claim(SHARD)
    assert lease is not None
    anchors = load_shard(session.run, session.shards, SHARD)
    chain = build_chain(session.config, "main")[:steps]
    return OpenShard(session, "main", lease, anchors, before, chain)


def answer(shard: OpenShard, task: Task, status: str = "open", text: str = "hello") -> None:
    """What the scheduler does after a good answer."""
    task.item.trace.append({"text": text})
    task.step += 1
    task.item.status = status  # type: ignore[assignment]
    shard.moved(task, status != "open")


def test_a_successor_goes_on_where_the_predecessor_was(session: Any) -> None:
    first = open_shard(session)
    assert [(task.step, task.attempt) for task in first.tasks] == [(0, 0)] * 6
    assert (first.items, first.ended, first.complete) == (6, 0, False)
    answer(first, first.tasks[0])
    answer(first, first.tasks[1])
    answer(first, first.tasks[1], "accepted")
    first.tasks[2].attempt = 1
    first.moved(first.tasks[2], False)
    first.journal.close()
    second = open_shard(session)
    assert second.resumed == 1
    assert [(task.step, task.attempt) for task in second.tasks] == [(1, 0), (0, 1), (0, 0), (0, 0), (0, 0)]
    assert second.tasks[0].item.trace == [{"text": "hello"}]


def test_what_got_farthest_counts_whoever_wrote_it_last(session: Any) -> None:
    first = open_shard(session)
    second = open_shard(session)
    answer(first, first.tasks[0])
    answer(first, first.tasks[0], "rejected")
    answer(second, second.tasks[0])
    first.journal.close()
    second.journal.close()
    assert open_shard(session).resumed == 1


def test_the_second_of_two_workers_on_one_shard_learns_that_it_was_late(session: Any) -> None:
    slow, quick = open_shard(session), open_shard(session)
    for shard, text in ((quick, "quick"), (slow, "slow")):
        for task in shard.tasks:
            answer(shard, task, "accepted", text)
    assert quick.commit()
    assert not slow.commit()
    records = read_result(session.run.result("main", SHARD))
    assert {record["trace"][0]["text"] for record in records} == {"quick"}
    assert all(AT not in record for record in records)


def test_items_that_ended_in_the_pass_before_pass_through(session: Any) -> None:
    anchors = [row["id"] for row in load_shard(session.run, session.shards, SHARD)]
    before = {
        name: {"id": name, "status": "invalid" if k < 2 else "open", "reason": None}
        | {"output": {"question": "?"}, "verdicts": {}, "features": {}, "annotations": {}, "records": None}
        | {"decided": False, "trace": [{"text": "before"}]}
        for k, name in enumerate(anchors)
    }
    shard = open_shard(session, before, steps=1)
    assert shard.ended == 2
    assert [task.item.trace for task in shard.tasks] == [[{"text": "before"}]] * 4


@pytest.mark.parametrize(("foreign", "steps"), [(False, [1, 0, 1, 0, 0, 0]), (True, [0] * 6)])
def test_a_damaged_line_or_a_journal_of_another_run_is_told_and_copied_to_quarantine(
    session: Any, monkeypatch: pytest.MonkeyPatch, foreign: bool, steps: list[int]
) -> None:
    first = open_shard(session)
    for task in first.tasks[:3]:
        answer(first, task)
    first.journal.close()
    if foreign:
        another = replace(session.run.origin("main"), made_by="another")
        monkeypatch.setattr(RunFolder, "origin", lambda *_: another)
    else:
        path = next(session.run.results("main").glob("*.journal"))
        lines = path.read_bytes().splitlines(keepends=True)
        lines[2] = lines[2].replace(b"hello", b"hullo")
        path.write_bytes(b"".join(lines) + b"torn")
    assert [task.step for task in open_shard(session).tasks] == steps
    assert [event for event, _ in session.events] == ["journal-damaged"]
    assert list(session.run.quarantine.glob("*.reason.json"))
