"""lease: no clock is trusted, neither this machine's nor another's."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kgqa_hpc.status.worker_states import read_states, sweep_states, write_state
from kgqa_hpc.store import atomic
from kgqa_hpc.store.cleanup import machine, sweep_temps
from kgqa_hpc.store.lease import Leases, holders
from tests.disk_watch import watch
from tests.store.conftest import age

NAME = "shard-000007"


def test_a_clock_that_is_behind_does_not_cost_a_beating_worker_its_lease(
    leases: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = leases("w1"), leases("w2")
    assert owner.claim(NAME)
    now = time.monotonic()
    for beat in range(5):  # an owner whose heartbeats carry a time long past
        age(owner.path(NAME), 1_000_000 - beat)
        holder = other.holder(NAME)
        assert holder is not None
        if beat:
            assert not other.expired(holder)
            assert other.beats(holder)
        else:
            other.expired(holder)
    assert other.claim(NAME) is None
    monkeypatch.setattr(time, "monotonic", lambda: now + 20_000)
    assert other.claim(NAME) is not None


def test_a_dead_worker_with_a_clock_ahead_is_replaced_all_the_same(
    leases: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = leases("w1"), leases("w2")
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert owner.claim(NAME)
    age(owner.path(NAME), -1_000_000)
    assert other.claim(NAME) is None
    monkeypatch.setattr(time, "monotonic", lambda: now + 15_000)
    assert other.claim(NAME) is None
    monkeypatch.setattr(time, "monotonic", lambda: now + 40_000)
    assert other.claim(NAME) is not None


def test_the_time_is_the_file_systems_and_not_this_machines(
    leases: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = leases("w1"), leases("w2")
    assert owner.claim(NAME)
    monkeypatch.setattr(time, "time", lambda: 10_000_000_000.0)
    assert other.claim(NAME) is None
    holder = other.holder(NAME)
    assert holder is not None
    assert abs(holder.age) < 3600
    assert abs(holder.held) < 3600


def test_the_clock_is_touched_seldom_and_survives_being_swept(leases: Callable[..., Leases]) -> None:
    mine = leases()
    calls: list[str] = []
    with watch(lambda call, where: calls.append(call)):
        for number in range(20):
            mine.claim(f"shard-{number:06d}")
        assert calls.count("utime") <= 1 + 20  # more only on a machine slower than a claim in five seconds
        for file in mine.folder.glob(f".clock*{atomic.TEMP_SUFFIX}"):
            file.unlink()
        mine._clock._read = None
        assert mine.now() > 0
    mine.close()
    mine.close()
    assert not list(mine.folder.glob(".clock*"))


@pytest.mark.parametrize("skew", [3720.0, -3720.0])
def test_no_clock_of_a_node_makes_the_living_look_dead(
    leases: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, skew: float
) -> None:
    owner, other = leases("w1", 100.0), leases("w2", 100.0)
    assert owner.claim(NAME)
    temp = tmp_path / f".result.h5.abc{atomic.TEMP_SUFFIX}"
    temp.touch()
    write_state(tmp_path, "w1", {"worker": "w1"})
    really = time.time
    monkeypatch.setattr(time, "time", lambda: really() + skew)
    (holder,) = holders(other.folder, other.now())
    assert not other.expired(holder)
    assert other.claim(NAME) is None
    assert sweep_temps(tmp_path) == 0
    assert temp.exists()
    sweep_states(tmp_path)
    (state,) = read_states(tmp_path)
    assert state["age"] < 60


def test_a_first_look_at_another_machines_lease_never_takes_it(
    leases: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where clients set the times (Lustre), a living owner's clock may be an hour behind."""
    owner, other = leases("w1", 100.0), leases("w2", 100.0)
    assert owner.claim(NAME)
    content = owner.path(NAME).read_bytes().replace(machine().encode(), b"another")
    owner.path(NAME).write_bytes(content)
    age(owner.path(NAME), 3720)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert other.claim(NAME) is None
    monkeypatch.setattr(time, "monotonic", lambda: now + 30)
    assert other.claim(NAME) is None
    age(owner.path(NAME), 3690)  # its heartbeat
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert other.claim(NAME) is None
    monkeypatch.setattr(time, "monotonic", lambda: now + 200)
    assert other.claim(NAME) is not None
