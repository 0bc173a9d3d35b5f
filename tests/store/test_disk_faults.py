"""A disk that refuses at any call: one clear error, no temp file, a whole state; the next start goes on."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import DiskFull
from kgqa_hpc.store.queue import sweep
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_anchors
from tests.disk_watch import Probe, watch

ANCHORS = 2
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)
# What a full disk refuses; it still removes, renames and closes.
NEEDS_SPACE = ("open", "write", "pwrite", "truncate", "fsync", "mkdir", "link")


@pytest.fixture
def fresh(run: RunFolder, tmp_path: Path, make_anchor: Callable[[int], dict[str, Any]]) -> Any:
    write_anchors(run.anchors, [make_anchor(number) for number in range(ANCHORS)], {})

    def copy(name: str) -> RunFolder:
        shutil.copytree(run.path, tmp_path / name)
        return RunFolder(tmp_path / name)

    return copy


def refuse_once(nth: int, number: int) -> Probe:
    """The nth call fails; a write before it fell short."""
    calls = 0

    def probe(call: str, where: str) -> int | None:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(number, os.strerror(number))
        return 5 if calls == nth - 1 else None

    return probe


def full_from(nth: int, number: int) -> Probe:
    """From the nth call on, everything that needs space fails."""
    calls = 0

    def probe(call: str, where: str) -> None:
        nonlocal calls
        calls += 1
        if calls >= nth and call in NEEDS_SPACE:
            raise OSError(number, os.strerror(number))

    return probe


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", [refuse_once, full_from])
def test_every_refused_call_is_one_clear_error_and_the_next_start_goes_on(
    fresh: Any, life: Any, fault: Callable[[int, int], Probe]
) -> None:
    calls: list[str] = []
    with watch(lambda call, where: calls.append(call)):
        life.work(fresh("undisturbed"), "w0", lambda _: None)
    for nth, call in enumerate(calls, 1):
        number = ERRORS[nth % len(ERRORS)]
        run = fresh(f"refused-{nth}")
        kept: list[str] = []
        # Removing and closing files that nobody needs any more may fail without harm: litter, swept later.
        harmless = fault is refuse_once and call in ("unlink", "close")
        with watch(fault(nth, number)):
            try:
                life.work(run, "w1", kept.append)
                assert harmless or call not in NEEDS_SPACE, f"call {nth}, {call}, went unnoticed"
            except DiskFull as problem:
                assert str(run.path) in problem.message
                assert os.strerror(number) in problem.message
                assert problem.cure
        assert harmless or life.temps(run) == [], f"call {nth}, {call}, left a temp file"
        life.check_whole(run)
        again: list[str] = []
        life.work(run, "w2", again.append, expiry=-1.0)
        sweep(run, "main")
        life.check_complete(run, ANCHORS)
        assert not set(kept) & set(again)
        shutil.rmtree(run.path)


def test_a_real_full_disk_stops_the_work_and_more_space_lets_it_go_on(
    run: RunFolder, life: Any, tmp_path: Path, make_anchor: Callable[[int], dict[str, Any]]
) -> None:
    """The kernel's own ENOSPC, on a small file system in memory."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("MOUNTING A FILE SYSTEM IS NOT ALLOWED HERE")
    try:
        write_anchors(run.anchors, [make_anchor(number) for number in range(12)], {})
        shutil.copytree(run.path, place / "run")
        full = RunFolder(place / "run")
        kept: list[str] = []
        with pytest.raises(DiskFull, match="No space left"):
            life.work(full, "w1", kept.append)
        assert life.temps(full) == []
        life.check_whole(full)
        subprocess.run(["mount", "-o", "remount,size=10m", str(place)], check=True)
        again: list[str] = []
        life.work(full, "w2", again.append, expiry=-1.0)
        sweep(full, "main")
        life.check_complete(full, 12)
        assert not set(kept) & set(again)
    finally:
        subprocess.run(["umount", str(place)], check=True)
