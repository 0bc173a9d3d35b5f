"""kill -9 at every single file-system call: nothing torn, nothing lost, nothing done twice.

A forked child works on a run and kills itself just before its k-th call, for every k. What lies on the disk
then is checked as it is, and a successor finishes the run.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.store.queue import sweep
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_anchors
from tests.disk_watch import Probe, watch
from tests.work.rig import seeded


@pytest.fixture
def fresh(run: RunFolder, tmp_path: Path, make_anchor: Callable[[int], dict[str, Any]]) -> Any:
    """Makes copies of a run that has its anchors and nothing else."""

    def copy(name: str, anchors: int) -> RunFolder:
        if not run.anchors.exists():
            write_anchors(run.anchors, [make_anchor(number) for number in range(anchors)], {})
        shutil.copytree(run.path, tmp_path / name)
        return RunFolder(tmp_path / name)

    return copy


def kill_at(nth: int, torn: bool = False) -> Probe:
    """Die before the nth call; or, `torn`, let the nth write put down 7 bytes and die before the next."""
    calls = 0

    def probe(call: str, where: str) -> int | None:
        nonlocal calls
        calls += 1
        if calls == nth + torn:
            os.kill(os.getpid(), signal.SIGKILL)
        return 7 if torn and calls == nth and call == "write" else None

    return probe


def run_in_child(work: Callable[[], None], probe: Probe) -> tuple[bool, int]:
    """Fork, work under the probe; (was it killed, exit code)."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with watch(probe):
                work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status), os.waitstatus_to_exitcode(status)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("torn", [False, True], ids=["between calls", "inside a write"])
def test_recovery_holds_after_a_kill_at_every_call(fresh: Any, life: Any, tmp_path: Path, torn: bool) -> None:
    calls: list[str] = []
    with watch(lambda call, where: calls.append(call)):
        life.work(fresh("uninterrupted", 2), "w0", lambda _: None)
    assert {"pwrite", "link", "rename", "unlink", "fsync", "mkdir", "utime"} <= set(calls)
    for nth in [k for k, call in enumerate(calls, 1) if call == "write" or not torn]:
        run = fresh(f"killed-{nth}", 2)
        acknowledged, note = os.pipe()
        killed, code = run_in_child(
            lambda run=run, note=note: life.work(run, "w1", lambda i: os.write(note, f"{i}\n".encode())),
            kill_at(nth, torn),
        )
        os.close(note)
        kept = os.read(acknowledged, 65536).decode().split()
        os.close(acknowledged)
        assert killed or code == 0, f"call {nth}, {calls[nth - 1]}"
        life.check_whole(run)
        again: list[str] = []
        life.work(run, "w2", again.append, expiry=-1.0)
        sweep(run, "main")
        life.check_complete(run, 2)
        assert not set(kept) & set(again), (
            f"call {nth}, {calls[nth - 1]}: an acknowledged item was made again"
        )
        assert len(again) == len(set(again))
        shutil.rmtree(run.path)


def test_creating_a_run_is_atomic_under_a_kill_at_every_call(
    tmp_path: Path, config: dict[str, Any], sections: dict[str, Any]
) -> None:
    nth = 0
    while True:
        nth += 1
        path = tmp_path / f"run-{nth}"
        killed, code = run_in_child(lambda path=path: RunFolder.create(path, config, sections), kill_at(nth))
        if path.exists():
            assert RunFolder.open(path).check(sections)
            assert sorted(os.listdir(path)) == ["config.yaml", "manifest.json"]
        RunFolder.create(path, config, sections)
        assert RunFolder.open(path).config() == config
        if not killed:
            assert code == 0
            break
    assert nth > 15


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_workers_killed_again_and_again_finish_the_run(fresh: Any, life: Any) -> None:
    chance = seeded()
    for attempt in range(8):
        run = fresh(f"soak-{attempt}", 6)
        for generation in range(60):
            children = [_start(life, run, f"w{generation}-{k}", chance.randrange(1, 200)) for k in range(2)]
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            assert set(codes) <= {0, -signal.SIGKILL}
            life.check_whole(run)
            if 0 in codes:
                break
        life.work(run, "last", lambda _: None, expiry=-1.0)
        sweep(run, "main")
        life.check_complete(run, 6)


def _start(life: Any, run: RunFolder, worker: str, nth: int) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with watch(kill_at(nth)):
                life.work(run, worker, lambda _: None, expiry=0.05)
            code = 0
        finally:
            os._exit(code)
    return child
