"""A disk that refuses, or kill -9, at every file-system call: one clear error, nothing torn, lost or done twice.

A forked child works and is struck at its k-th call, for every k. What lies on the disk then is checked as it is,
and a successor finishes the work.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import DiskFull, StoreError
from kgqa_hpc.store import atomic
from kgqa_hpc.store.canonical import read_document
from kgqa_hpc.store.cleanup import quarantine
from kgqa_hpc.store.journal import journals_of, open_next, read_journal, remove_journals
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.partition import load_shard, partition, read_shards_manifest
from kgqa_hpc.store.queue import pass_queue, sweep
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import create_sealed, verify
from kgqa_hpc.store.shards import read_result, write_anchors, write_result
from tests.disk_watch import counted
from tests.runs import read_shard
from tests.store.conftest import age, anchor, record, sections_of
from tests.store.strikes import DONE, KILLED, NEEDS_SPACE, Strike, end, start, suffer, temps
from tests.work.rig import seeded

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory: ten thousand fsyncs on a busy disk take minutes, and nothing here cuts the power."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def moments(fault: str, calls: list[str]) -> list[int]:
    """Numbers of the calls that the fault strikes in a way of its own.

    A full disk refuses the next call that needs space; a kill after a call that changes no file is that before it.
    """
    if fault == "kill":
        return [nth for nth, last in enumerate(["", *calls[:-1]], 1) if last not in ("close", "fsync")]
    struck = {"torn": ("write",), "full": NEEDS_SPACE}.get(fault, calls)
    return [nth for nth, call in enumerate(calls, 1) if call in struck]


class WriteFile:
    """An operation of the store: `work` may be repeated, `check` fails where something torn has a final name."""

    exclusive = False

    def work(self, folder: Path) -> None:
        atomic.write_file(folder / "f", b"x" * 5000, exclusive=self.exclusive)

    def check(self, folder: Path) -> None:
        assert not (folder / "f").exists() or (folder / "f").read_bytes() == b"x" * 5000


class WriteOnce(WriteFile):
    exclusive = True


class Sealed:
    def work(self, folder: Path) -> None:
        with create_sealed(folder / "f.h5", "thing", header={"rows": 1}) as file:
            file.create_dataset("numbers", data=np.arange(70_000))

    def check(self, folder: Path) -> None:
        assert not (folder / "f.h5").exists() or verify(folder / "f.h5", "thing")["rows"] == 1


class Lease:
    """A claim, a heartbeat and a release; what is left blocks nobody once it has expired."""

    def work(self, folder: Path) -> None:
        leases = Leases(folder / "leases", "w1", 10_000.0)
        if leases.path("s").exists():
            age(leases.path("s"), seconds=50_000)
        lease = leases.claim("s")
        assert lease is not None
        assert lease.renew()
        lease.release()
        leases.clock.close()

    def check(self, folder: Path) -> None:
        holder = (
            Leases(folder / "leases", "w2", 10_000.0).holder("s") if (folder / "leases").exists() else None
        )
        assert holder is None or holder.worker == "w1"


class NewRun:
    def work(self, folder: Path) -> None:
        config = parse_config({"engine": {"kind": "scripted"}}, "test").plain()
        RunFolder.create(folder / "run", config, sections_of(config))

    def check(self, folder: Path) -> None:
        if (folder / "run").exists():
            run = RunFolder.open(folder / "run")
            assert sorted(os.listdir(run.path)) == ["config.yaml", "manifest.json"]
            run.check(sections_of(run.config()))


class Quarantine:
    def work(self, folder: Path) -> None:
        (folder / "results").mkdir(exist_ok=True)
        (folder / "results" / "s.h5").write_bytes(b"broken")
        quarantine(folder / "quarantine", folder / "results" / "s.h5", "the reason")

    def check(self, folder: Path) -> None:
        moved = list(folder.glob("quarantine/*.h5"))
        assert moved or (folder / "results" / "s.h5").read_bytes() == b"broken"
        for path in moved:
            reason = read_document(path.with_name(f"{path.name}.reason.json"), "reason")
            assert reason["reason"] == "the reason"


class Journaling:
    def work(self, folder: Path) -> None:
        with open_next(folder / "j", "s", {"pass": "main"})[0] as journal:
            for number in range(3):
                journal.append(record(f"g{number}"))
                journal.sync()

    def check(self, folder: Path) -> None:
        for path in journals_of(folder / "j", "s"):
            records, damage = read_journal(path, {"pass": "main"})
            assert records == [record(f"g{number}") for number in range(len(records))]
            assert not damage


OPERATIONS = [WriteFile, WriteOnce, Sealed, Lease, NewRun, Quarantine, Journaling]


@pytest.mark.parametrize("fault", ["kill", "torn", "refuse", "full"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_is_struck_at_any_call_is_whole_or_undone_and_can_be_repeated(
    tmp_path: Path, operation: type[WriteFile], fault: str
) -> None:
    (tmp_path / "calm").mkdir()
    with counted() as calls:
        operation().work(tmp_path / "calm")
    assert len(calls) > 5
    for nth in moments(fault, calls):
        folder = tmp_path / str(nth)
        folder.mkdir()
        suffer(partial(operation().work, folder), Strike(fault, nth), folder)
        operation().check(folder)
        operation().work(folder)
        operation().check(folder)


def work(run: RunFolder, worker: str, generated: Callable[[str], object], expiry: float = 100.0) -> None:
    """All of a worker's life on a run: partition, lease, journal, result, until no shard is left.

    `generated(id)` is called when an item had to be made and its append has returned.
    """
    manifest = partition(run, 2)
    queue = pass_queue(run, "main", worker, expiry)
    while (lease := queue.claim()) is not None:
        header = run.origin("main").header(lease.shard, manifest.entry(lease.shard).sha256)
        anchors = load_shard(run, manifest, lease.shard)
        journal, before = open_next(run.results("main"), lease.shard, {**header, "worker": worker})
        records = {r["id"]: r for path in before for r in journaled(path, header)}
        for row in anchors:
            if row["id"] not in records:
                records[row["id"]] = record(row["id"])
                journal.append(records[row["id"]])
                generated(row["id"])
                journal.sync()
            lease.renew()
        write_result(run.result("main", lease.shard), [records[row["id"]] for row in anchors], header)
        journal.close()
        remove_journals(run.results("main"), lease.shard)
        lease.release()
    queue.leases.clock.close()


def journaled(path: Path, header: dict[str, Any]) -> list[dict[str, Any]]:
    """Records of another's journal; none when it was removed before or while we look, for there is a result."""
    try:
        return read_journal(path, header)[0]
    except StoreError:
        assert not path.exists()
        return []


def check_whole(run: RunFolder) -> None:
    """Every file that has its final name is whole."""
    for path in run.path.rglob("*"):
        if path.is_dir() or (path.name.startswith(".") and path.name.endswith(atomic.TEMP_SUFFIX)):
            continue
        if path.parent == run.shards and path.suffix == ".h5":
            read_shard(path)
        elif path.suffix == ".h5" and path != run.anchors:
            read_result(path)
        elif path.suffix == ".journal":
            assert not read_journal(path, {"pass": "main"})[1]
        elif path.suffix == ".json":
            read_document(path)
        else:
            assert path.suffix in (".yaml", ".lease") or path == run.anchors
    assert not run.quarantine.exists()


def finish(run: RunFolder, items: int) -> list[str]:
    """Let a successor finish: then every anchor has its record once, and only results remain. What it made."""
    made: list[str] = []
    work(run, "last", made.append, expiry=-1.0)
    sweep(run, "main")
    names = read_shards_manifest(run).names
    assert [r for name in names for r in read_result(run.result("main", name))] == [
        record(anchor(number)["id"]) for number in range(items)
    ]
    files = {path.name for path in run.results("main").iterdir() if not path.name.startswith(".")}
    assert files == {f"{name}.h5" for name in names}
    assert len(made) == len(set(made))
    return made


def acknowledge(note: int, item: str) -> None:
    os.write(note, f"{item}\n".encode())


@pytest.fixture
def fresh(run: RunFolder, tmp_path: Path) -> Callable[[str, int], RunFolder]:
    """Makes copies of a run that has its anchors and nothing else."""

    def copy(name: str, items: int) -> RunFolder:
        if not run.anchors.exists():
            write_anchors(run.anchors, [anchor(number) for number in range(items)], {})
        shutil.copytree(run.path, tmp_path / name)
        return RunFolder(tmp_path / name)

    return copy


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", ["kill", "torn", "refuse", "full"])
def test_a_worker_struck_at_any_call_of_its_life_loses_nothing_that_it_has_acknowledged(
    fresh: Callable[[str, int], RunFolder], fault: str
) -> None:
    with counted() as calls:
        work(fresh("calm", 2), "w0", str)
    assert {"pwrite", "link", "rename", "unlink", "fsync", "mkdir", "utime"} <= set(calls)
    for nth in moments(fault, calls):
        call = calls[nth - 1]
        run = fresh(f"{nth}-{call}", 2)
        acknowledged, note = os.pipe()
        suffer(partial(work, run, "w1", partial(acknowledge, note)), Strike(fault, nth), run.path)
        os.close(note)
        kept = os.read(acknowledged, 65536).decode().split()
        os.close(acknowledged)
        check_whole(run)
        assert not set(kept) & set(finish(run, 2)), f"call {nth}, {call}: an acknowledged item was made again"
        shutil.rmtree(run.path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_workers_killed_again_and_again_finish_the_run(fresh: Callable[[str, int], RunFolder]) -> None:
    chance = seeded()
    for attempt in range(3):
        run = fresh(f"soak-{attempt}", 6)
        for generation in range(60):
            workers = [
                start(
                    partial(work, run, f"w{generation}-{k}", str, 0.05),
                    Strike("kill", chance.randrange(1, 200)),
                )
                for k in range(2)
            ]
            codes = {end(worker) for worker in workers}
            assert codes <= {DONE, KILLED}
            check_whole(run)
            if DONE in codes:
                break
        finish(run, 6)


def test_a_real_full_disk_stops_the_work_and_more_space_lets_it_go_on(run: RunFolder, tmp_path: Path) -> None:
    """The kernel's own ENOSPC, on a small file system in memory."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("MOUNTING A FILE SYSTEM IS NOT ALLOWED HERE")
    try:
        write_anchors(run.anchors, [anchor(number) for number in range(12)], {})
        shutil.copytree(run.path, small / "run")
        full = RunFolder(small / "run")
        kept: list[str] = []
        with pytest.raises(DiskFull, match="No space left"):
            work(full, "w1", kept.append)
        assert temps(full.path) == []
        check_whole(full)
        subprocess.run(["mount", "-o", "remount,size=10m", str(small)], check=True)
        assert not set(kept) & set(finish(full, 12))
    finally:
        subprocess.run(["umount", str(small)], check=True)
