"""A worker whose steps take long sees a stop between two answers."""

from __future__ import annotations

import itertools

import pytest

from kgqa_hpc.work import item_scheduler
from tests.work.test_item_scheduler import build, tasks, yes


def test_a_stop_is_seen_while_steps_work_on_a_full_window_of_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    b = build(yes, window=64)
    b.engine.batch = 64
    clock = itertools.count()
    monkeypatch.setattr(item_scheduler.time, "monotonic", lambda: next(clock) / 10)
    b.scheduler.add(tasks(64))
    assert b.scheduler.turn(0) < 8, "a turn ends after half a second, whatever has arrived"
    b.scheduler.drain(lambda: True)
    assert b.scheduler.counters.answers < 32
    assert b.ended == []
