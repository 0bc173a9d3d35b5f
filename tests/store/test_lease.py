"""lease: one holder at a time, a dead one is replaced, a zombie does no harm, and no clock is trusted."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kgqa_hpc.errors import DiskFull, StoreError
from kgqa_hpc.store.lease import Leases, holders
from tests.disk_watch import watch
from tests.store.conftest import age

NAME = "shard-000007"


def test_a_shard_is_held_by_one_worker(leases: Callable[..., Leases]) -> None:
    mine = leases("w1").claim(NAME)
    assert mine is not None
    assert (mine.name, mine.shard, mine.speculative) == (NAME, NAME, False)
    assert leases("w2").claim(NAME) is None
    assert leases("w1").claim(NAME) is None
    assert mine.renew()


def test_a_released_shard_is_free(leases: Callable[..., Leases]) -> None:
    mine = leases("w1").claim(NAME)
    assert mine is not None
    mine.release()
    mine.release()
    assert not mine.renew()
    assert leases("w2").claim(NAME) is not None


def test_a_speculative_lease_is_one_of_its_own(leases: Callable[..., Leases]) -> None:
    assert leases("w1").claim(NAME)
    second = leases("w2").claim(f"{NAME}.spec")
    assert second is not None
    assert (second.shard, second.speculative) == (NAME, True)
    assert leases("w3").claim(f"{NAME}.spec") is None


def test_a_lease_without_heartbeat_is_taken_over_and_its_owner_learns_it(
    leases: Callable[..., Leases],
) -> None:
    first, second = leases("w1"), leases("w2")
    mine = first.claim(NAME)
    assert mine is not None
    age(first.path(NAME), 5_000)
    assert second.claim(NAME) is None
    age(first.path(NAME), 20_000)
    theirs = second.claim(NAME)
    assert theirs is not None
    assert not mine.renew()
    mine.release()
    assert theirs.renew()
    assert leases("w3").claim(NAME) is None


def test_a_heartbeat_keeps_a_lease(leases: Callable[..., Leases]) -> None:
    first = leases("w1")
    mine = first.claim(NAME)
    assert mine is not None
    age(first.path(NAME), 50_000)
    assert mine.renew()
    assert leases("w2").claim(NAME) is None


def test_of_many_claimants_one_gets_it(leases: Callable[..., Leases]) -> None:
    dead = leases("w0")
    assert dead.claim(NAME)
    age(dead.path(NAME), 50_000)
    start, got = threading.Barrier(8), []

    def claim(worker: str) -> None:
        mine = leases(worker)
        start.wait()
        if mine.claim(NAME):
            got.append(worker)

    threads = [threading.Thread(target=claim, args=(f"w{number}",)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    holder = leases("w9").holder(NAME)
    assert holder is not None
    assert holder.worker in got
    assert not list(dead.path(NAME).parent.glob(f".*{NAME}*"))


def test_a_takeover_that_hits_a_fresh_lease_puts_it_back(leases: Callable[..., Leases]) -> None:
    """Between a claimant's look and its rename another one took over and claimed."""
    dead, quick, slow = leases("w0"), leases("w1"), leases("w2")
    assert dead.claim(NAME)
    age(dead.path(NAME), 50_000)
    fresh = []

    def probe(call: str, where: str) -> None:
        if call == "rename" and not fresh:
            fresh.append(None)
            fresh.append(quick.claim(NAME))

    with watch(probe):
        assert slow.claim(NAME) is None
    assert fresh[1].renew()


def test_an_owner_that_beats_in_the_last_moment_keeps_its_lease(leases: Callable[..., Leases]) -> None:
    zombie, other = leases("w0"), leases("w1")
    mine = zombie.claim(NAME)
    assert mine is not None
    age(zombie.path(NAME), 50_000)

    def probe(call: str, where: str) -> None:
        if call == "rename":
            assert mine.renew()

    with watch(probe):
        assert other.claim(NAME) is None
    assert mine.renew()


def test_a_zombies_heartbeat_never_reaches_its_successors_lease(leases: Callable[..., Leases]) -> None:
    """Between the zombie's look at its nonce and its heartbeat, another one took over and stopped beating."""
    zombie, other = leases("w0"), leases("w1")
    mine = zombie.claim(NAME)
    assert mine is not None
    age(zombie.path(NAME), 50_000)
    theirs = []

    def probe(call: str, where: str) -> None:
        if call == "utime" and not theirs:
            theirs.append(None)
            theirs.append(other.claim(NAME))
            age(other.path(NAME), 40_000)

    with watch(probe):
        mine.renew()
    assert theirs[1].name == NAME
    assert leases("w2").claim(NAME) is not None


def test_a_lease_that_vanishes_under_a_takeover_is_nobodys(leases: Callable[..., Leases]) -> None:
    dead, other = leases("w0"), leases("w1")
    assert dead.claim(NAME)
    age(dead.path(NAME), 50_000)

    def probe(call: str, where: str) -> None:
        if call == "rename":
            dead.path(NAME).unlink()

    with watch(probe):
        assert other.claim(NAME) is None
    assert other.claim(NAME) is not None


def test_a_claimant_that_is_overtaken_gets_nothing(leases: Callable[..., Leases]) -> None:
    quick, slow = leases("w1"), leases("w2")
    first = []

    def probe(call: str, where: str) -> None:
        if call == "link" and not first:
            first.append(None)
            first.append(quick.claim(NAME))

    with watch(probe):
        assert slow.claim(NAME) is None
    assert first[1].renew()


@pytest.mark.parametrize(
    "garbage", [b"", b"\x00" * 200, b"{}", b"[]", b'{"nonce": 5}', b"\xff\xfe", b"{" * 5000]
)
def test_a_garbage_lease_counts_as_expired(leases: Callable[..., Leases], garbage: bytes) -> None:
    path = leases().path(NAME)
    path.parent.mkdir(parents=True)
    path.write_bytes(garbage)
    assert leases("w1").claim(NAME) is not None


def test_a_stopped_worker_that_wakes_up_does_no_harm(leases: Callable[..., Leases], tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            mine = leases("zombie").claim(NAME)
            assert mine is not None
            (tmp_path / "claimed").touch()
            os.kill(os.getpid(), signal.SIGSTOP)
            status = 2 if mine.renew() else 0
            mine.release()
        finally:
            os._exit(status)
    os.waitpid(child, os.WUNTRACED)
    age(leases().path(NAME), 50_000)
    theirs = leases("w2").claim(NAME)
    assert theirs is not None
    os.kill(child, signal.SIGCONT)
    assert os.waitpid(child, 0)[1] == 0
    assert theirs.renew()


def test_a_killed_worker_leaves_nothing_that_blocks(leases: Callable[..., Leases]) -> None:
    """SIGKILL at each file-system call of claim, renew and release; the shard is free or expires."""
    nth = 0
    while True:
        nth += 1
        name = f"shard-{nth:06d}"
        child = os.fork()
        if child == 0:
            _cycle_killed_at(leases("w1"), name, nth)
        _, status = os.waitpid(child, 0)
        path = leases().path(name)
        if path.exists():
            age(path, 50_000)
        assert leases("w2").claim(name) is not None
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
    assert nth > 10


def _cycle_killed_at(mine: Leases, name: str, nth: int) -> None:
    calls = [0]

    def probe(call: str, where: str) -> None:
        calls[0] += 1
        if calls[0] == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    status = 1
    try:
        with watch(probe):
            lease = mine.claim(name)
            assert lease is not None
            assert lease.renew()
            lease.release()
            mine.close()
        status = 0
    finally:
        os._exit(status)


def test_everyone_who_holds_something_is_listed_without_writing(leases: Callable[..., Leases]) -> None:
    mine = leases("w1")
    for number in range(30):
        assert mine.claim(f"shard-{number:06d}")
    mine.path("shard-000099").parent.mkdir(exist_ok=True)
    mine.path("shard-000099").write_bytes(b"garbage")
    calls: list[str] = []
    with watch(lambda call, where: calls.append(call)):
        found = {holder.name: holder for holder in holders(mine.folder, time.time())}
    assert calls == []
    assert len(found) == 31
    assert found["shard-000005"].worker == "w1"
    assert found["shard-000005"].pid == os.getpid()
    assert found["shard-000099"].nonce == ""
    assert list(holders(mine.folder / "nowhere", time.time())) == []


def test_a_lease_gone_between_listing_and_reading_is_left_out(
    leases: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = leases()
    assert mine.claim(NAME)
    monkeypatch.setattr(Path, "glob", lambda *_: [mine.folder / "00" / "gone.lease"])
    assert list(holders(mine.folder, time.time())) == []


def test_leases_are_spread_over_folders(leases: Callable[..., Leases]) -> None:
    mine = leases()
    folders = {mine.path(f"shard-{number:06d}").parent.name for number in range(10_000)}
    assert len(folders) == 256
    assert all(len(name) == 2 for name in folders)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_is_a_clear_error_and_leaves_no_half_lease(
    leases: Callable[..., Leases], number: int
) -> None:
    mine = leases()
    mine.now()
    for nth in range(1, 20):
        calls: list[str] = []

        def probe(call: str, where: str, nth: int = nth, calls: list[str] = calls) -> None:
            calls.append(call)
            if len(calls) == nth and call not in ("unlink", "close"):
                raise OSError(number, os.strerror(number))

        with watch(probe):
            try:
                lease = mine.claim(NAME)
            except DiskFull:
                assert mine.holder(NAME) is None
                continue
        assert lease is not None
        lease.release()
        if len(calls) < nth:
            return
    pytest.fail("a claim took more than 20 calls")


def test_a_lease_that_cannot_be_read_is_a_store_error(leases: Callable[..., Leases]) -> None:
    mine = leases()
    mine.path(NAME).mkdir(parents=True)
    with pytest.raises(StoreError, match="Is a directory"):
        mine.claim(NAME)
    with pytest.raises(StoreError, match="Is a directory"):
        list(holders(mine.folder, time.time()))


def test_other_errors_than_gone_are_raised(leases: Callable[..., Leases], tmp_path: Path) -> None:
    mine = leases()
    lease = mine.claim(NAME)
    assert lease is not None

    def probe(call: str, where: str) -> None:
        raise OSError(errno.EIO, "broken")

    with watch(probe):
        with pytest.raises(DiskFull):
            lease.renew()
        with pytest.raises(DiskFull):
            lease.release()
    path = mine.path(NAME)
    os.rename(path, tmp_path / "aside")
    os.symlink(path, path)  # a loop: neither gone nor readable
    with pytest.raises(StoreError, match="symbolic links"):
        lease.renew()
