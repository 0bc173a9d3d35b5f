"""Leases live as long as their worker does, and it learns when one is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.lease_renewal import Heartbeat
from tests.waiting import wait_for

EXPIRY = 1.0


@pytest.fixture
def lines() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def heart(lines: list[tuple[str, dict[str, Any]]]) -> Iterator[Heartbeat]:
    heartbeat = Heartbeat(EXPIRY, lambda event, **facts: lines.append((event, facts)))
    heartbeat.start()
    yield heartbeat
    heartbeat.stop()


def test_a_kept_lease_is_renewed_again_and_again(tmp_path: Path, heart: Heartbeat) -> None:
    ours, theirs = Leases(tmp_path, "a", EXPIRY), Leases(tmp_path, "b", EXPIRY)
    lease = ours.claim("shard-000000")
    assert lease is not None
    heart.keep(lease)
    beats = set()

    def seen_five() -> bool:
        holder = theirs.holder("shard-000000")
        assert holder is not None
        beats.add(holder.modified)
        return len(beats) >= 5

    wait_for(seen_five, "five heartbeats")
    assert heart.lost(lease) == ""


def test_a_lease_that_was_taken_over_is_lost(tmp_path: Path, heart: Heartbeat) -> None:
    lease = Leases(tmp_path, "a", EXPIRY).claim("shard-000000")
    assert lease is not None
    heart.keep(lease)
    others = Leases(tmp_path, "b", EXPIRY)
    others.path("shard-000000").unlink()
    assert others.claim("shard-000000") is not None
    wait_for(heart.any_lost, "the loss")
    assert heart.lost(lease) == "taken over"
    heart.forget(lease)
    assert not heart.any_lost()


def test_work_that_another_worker_finished_is_needless(tmp_path: Path, heart: Heartbeat) -> None:
    lease = Leases(tmp_path, "a", EXPIRY).claim("shard-000000")
    assert lease is not None
    heart.keep(lease, lambda: True)
    wait_for(heart.any_lost, "the news")
    assert heart.lost(lease) == "done by another worker"


def test_a_file_system_that_hiccups_is_asked_again(
    heart: Heartbeat, lines: list[tuple[str, dict[str, Any]]]
) -> None:
    class Moody:
        name = "shard-000000"
        nonce = "n"
        asked = 0

        def renew(self) -> bool:
            self.asked += 1
            if self.asked == 1:
                raise StoreError("stale file handle")
            return True

    lease: Any = Moody()
    heart.keep(lease)
    wait_for(lambda: lease.asked >= 3, "two more beats")
    assert heart.lost(lease) == ""
    assert lines == [("heartbeat-failed", {"shard": "shard-000000", "problem": "stale file handle"})]
