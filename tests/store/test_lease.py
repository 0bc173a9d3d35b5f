"""lease: one holder at a time, a dead one is replaced, a zombie does no harm, and no clock is trusted.

tests/store/test_queue_stateful.py plays any order of claims, heartbeats and crashes; tests/store/test_faults.py kills
at every call.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgqa_hpc.errors import DiskFull, StoreError
from kgqa_hpc.status.log_files import read_states, sweep_states, write_state
from kgqa_hpc.store import atomic
from kgqa_hpc.store.cleanup import machine, sweep_temps
from kgqa_hpc.store.lease import Heartbeat, Leases
from tests.disk_watch import before, counted, watch
from tests.store.conftest import age, at_once, claimed
from tests.waiting import wait_for

NAME = "shard-000007"
MakeLeases = Callable[..., Leases]


def test_of_many_claimants_one_gets_it(leases: MakeLeases) -> None:
    dead = leases("w0")
    claimed(dead, NAME)
    age(dead.path(NAME), seconds=50_000)
    winners = at_once(8, lambda number: leases(f"w{number + 1}").claim(NAME) and f"w{number + 1}")
    holder = leases("w9").holder(NAME)
    assert holder is not None
    assert holder.worker in winners
    assert not list(dead.path(NAME).parent.glob(f".*{NAME}*"))


@pytest.mark.parametrize(
    ("call", "meanwhile"),
    [("rename", "claimed"), ("link", "claimed"), ("rename", "renewed"), ("rename", "removed")],
)
def test_a_claimant_that_comes_too_late_gets_and_harms_nothing(
    leases: MakeLeases, call: str, meanwhile: str
) -> None:
    """Right before its call another claimed the lease, the owner renewed it, or it vanished."""
    owner, quick, slow = leases("w0"), leases("w1"), leases("w2")
    lease = claimed(owner, NAME)
    age(owner.path(NAME), seconds=50_000)
    acts = {"claimed": lambda: quick.claim(NAME), "renewed": lease.renew, "removed": owner.path(NAME).unlink}
    done: list[Any] = []
    with watch(before(call, lambda where: done.append(acts[meanwhile]()))):
        assert slow.claim(NAME) is None
    if meanwhile == "removed":
        claimed(slow, NAME)
    else:
        assert (lease if meanwhile == "renewed" else done[0]).renew()


def test_a_zombies_heartbeat_never_reaches_its_successors_lease(leases: MakeLeases) -> None:
    """Between the zombie's look at its nonce and its heartbeat, another one took over and stopped beating."""
    zombie, other = leases("w0"), leases("w1")
    mine = claimed(zombie, NAME)
    age(zombie.path(NAME), seconds=50_000)

    def take_over(where: str) -> None:
        claimed(other, NAME)
        age(other.path(NAME), seconds=40_000)

    with watch(before("utime", take_over)):
        mine.renew()
    assert leases("w2").claim(NAME) is not None


def test_days_of_heartbeats_leave_no_file_open(leases: MakeLeases) -> None:
    lease = claimed(leases(), NAME)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        assert lease.renew()
    assert len(os.listdir("/proc/self/fd")) < before + 50


def test_all_holders_are_listed_without_writing(leases: MakeLeases, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = leases("w1")
    for number in range(30):
        claimed(mine, f"shard-{number:06d}")
    mine.path("shard-000099").parent.mkdir(exist_ok=True)
    mine.path("shard-000099").write_bytes(b"garbage")
    with counted() as calls:
        listed = {holder.name: holder for holder in mine.holders()}
    assert set(calls) <= {"utime"}, "of the clock"
    assert len(listed) == 31
    assert listed["shard-000005"].worker == "w1"
    assert listed["shard-000099"].nonce == ""
    assert Leases(mine.folder / "nowhere", "w1", 1.0).holders() == []
    monkeypatch.setattr(Path, "glob", lambda *_: [mine.folder / "00" / "gone.lease"])
    assert mine.holders() == [], "gone between listing and reading"


def test_leases_are_spread_over_folders(leases: MakeLeases) -> None:
    folders = {leases().path(f"shard-{number:06d}").parent.name for number in range(10_000)}
    assert len(folders) == 256
    assert all(len(name) == 2 for name in folders)


def test_a_lease_that_the_disk_refuses_is_an_error_not_a_loss(leases: MakeLeases, tmp_path: Path) -> None:
    mine = leases()
    mine.path(NAME).mkdir(parents=True)
    for read in (lambda: mine.claim(NAME), mine.holders):
        with pytest.raises(StoreError, match="Is a directory"):
            read()
    path = mine.path(NAME)
    path.rmdir()
    lease = claimed(mine, NAME)

    def probe(call: str, where: str) -> None:
        raise OSError(errno.EIO, "broken")

    with watch(probe):
        for act in (lease.renew, lease.release):
            with pytest.raises(DiskFull):
                act()
    os.rename(path, tmp_path / "aside")
    os.symlink(path, path)  # a loop: neither gone nor readable
    with pytest.raises(StoreError, match="symbolic links"):
        lease.renew()


def test_a_clock_that_is_behind_does_not_cost_a_beating_worker_its_lease(
    leases: MakeLeases, clock: Callable[[float], None]
) -> None:
    owner, other = leases("w1"), leases("w2")
    claimed(owner, NAME)
    for beat in range(5):  # an owner whose heartbeats carry a time long past
        age(owner.path(NAME), seconds=1_000_000 - beat)
        holder = other.holder(NAME)
        assert holder is not None
        assert not (other.expired(holder) and beat)
        assert other.beats(holder) == bool(beat)
    assert other.claim(NAME) is None
    clock(20_000)
    assert other.claim(NAME) is not None


def test_a_dead_worker_with_a_clock_ahead_is_replaced_all_the_same(
    leases: MakeLeases, clock: Callable[[float], None]
) -> None:
    owner, other = leases("w1"), leases("w2")
    claimed(owner, NAME)
    age(owner.path(NAME), seconds=-1_000_000)
    for seconds, free in ((0, False), (15_000, False), (40_000, True)):
        clock(seconds)
        assert (other.claim(NAME) is not None) == free


def test_a_first_look_at_another_machines_lease_never_takes_it(
    leases: MakeLeases, clock: Callable[[float], None]
) -> None:
    """Where clients set the times (Lustre), a living owner's clock may be an hour behind."""
    owner, other = leases("w1", 100.0), leases("w2", 100.0)
    claimed(owner, NAME)
    content = owner.path(NAME).read_bytes().replace(machine().encode(), b"another")
    owner.path(NAME).write_bytes(content)
    age(owner.path(NAME), seconds=3720)
    for seconds, free in ((0, False), (30, False), (60, False), (200, True)):
        if seconds == 60:
            age(owner.path(NAME), seconds=3690)  # its heartbeat
        clock(seconds)
        assert (other.claim(NAME) is not None) == free


def test_the_clock_is_touched_seldom_and_survives_being_swept(leases: MakeLeases) -> None:
    mine = leases()
    with counted() as calls:
        for number in range(20):
            mine.claim(f"shard-{number:06d}")
    assert calls.count("utime") <= 1 + 20  # more only on a machine slower than a claim in five seconds
    for file in mine.folder.glob(f".clock*{atomic.TEMP_SUFFIX}"):
        file.unlink()
    mine.clock._read = None
    assert mine.clock.now() > 0
    mine.clock.close()
    mine.clock.close()
    assert not list(mine.folder.glob(".clock*"))


@pytest.mark.parametrize("skew", [3720.0, -3720.0, 1e10])
def test_no_clock_of_a_node_makes_the_living_look_dead(
    leases: MakeLeases, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, skew: float
) -> None:
    owner, other = leases("w1", 100.0), leases("w2", 100.0)
    claimed(owner, NAME)
    temp = tmp_path / f".result.h5.abc{atomic.TEMP_SUFFIX}"
    temp.touch()
    write_state(tmp_path, "w1", {"worker": "w1"})
    really = time.time
    monkeypatch.setattr(time, "time", lambda: really() + skew)
    (holder,) = other.holders()
    assert abs(holder.age) < 60
    assert not other.expired(holder)
    assert other.claim(NAME) is None
    assert sweep_temps(tmp_path) == 0
    assert temp.exists()
    sweep_states(tmp_path)
    (state,) = read_states(tmp_path)
    assert state["age"] < 60


@pytest.fixture
def heart(tmp_path: Path) -> Iterator[Any]:
    """A running heartbeat, a lease in its care, another worker's view, and the lines of the log."""
    log: list[tuple[str, dict[str, Any]]] = []
    heartbeat = Heartbeat(1.0, lambda event, **facts: log.append((event, facts)))
    heartbeat.start()
    lease = claimed(Leases(tmp_path, "a", 1.0), NAME)
    yield SimpleNamespace(beat=heartbeat, lease=lease, others=Leases(tmp_path, "b", 1.0), log=log)
    heartbeat.stop()


def test_a_kept_lease_is_renewed_again_and_again(heart: Any) -> None:
    heart.beat.keep(heart.lease)
    beats = set()

    def five_beats() -> bool:
        beats.add(heart.others.holder(NAME).beat)
        return len(beats) >= 5

    wait_for(five_beats, "five heartbeats")
    assert heart.beat.lost(heart.lease) == ""


@pytest.mark.parametrize("reason", ["taken over", "done by another worker"])
def test_a_worker_learns_that_its_lease_was_taken_over_or_its_work_is_done(heart: Any, reason: str) -> None:
    heart.beat.keep(heart.lease, lambda: reason != "taken over")
    if reason == "taken over":
        heart.others.path(NAME).unlink()
        claimed(heart.others, NAME)
    wait_for(lambda: heart.beat.lost(heart.lease), "the loss")
    assert heart.beat.lost(heart.lease) == reason
    heart.beat.forget(heart.lease)
    assert not heart.beat.lost(heart.lease)


def test_a_file_system_that_fails_once_is_asked_again(heart: Any) -> None:
    problems, renew = [StoreError("stale file handle")], heart.lease.renew

    def renew_later() -> bool:
        if problems:
            raise problems.pop()
        heart.log.append(("renewed", {}))
        return bool(renew())

    heart.lease.renew = renew_later
    heart.beat.keep(heart.lease)
    wait_for(lambda: len(heart.log) >= 3, "two more beats")
    assert heart.beat.lost(heart.lease) == ""
    assert heart.log[0] == ("heartbeat-failed", {"shard": NAME, "problem": "stale file handle"})
    assert heart.log[1][0] == "renewed"
