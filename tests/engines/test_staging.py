"""A model on the node that loads it: one copy per node, made in streams, never into more memory than the job has."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kgqa_hpc.engines import staging
from kgqa_hpc.engines.model_files import model_parts
from kgqa_hpc.engines.staging import is_whole, memory_limit, read_once, require_room, stage
from kgqa_hpc.errors import EngineConfigError

PATIENCE_S = 120.0


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "shared" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(os.urandom(100_000))
    return folder


def _stage(model: str, target: str, ready: object, results: multiprocessing.SimpleQueue[str]) -> None:
    ready.wait(PATIENCE_S)  # type: ignore[attr-defined]
    results.put(str(stage(Path(model), target)))


def test_several_ranks_of_a_node_stage_one_copy(model: Path, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(4), context.SimpleQueue()
    arguments = (str(model), str(local), ready, results)
    ranks = [context.Process(target=_stage, args=arguments, daemon=True) for _ in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(PATIENCE_S)
    assert [rank.exitcode for rank in ranks] == [0] * 4
    places = {results.get() for _ in ranks}
    assert len(places) == 1
    copy = Path(places.pop())
    assert is_whole(copy, model_parts(model))
    assert [p.name for p in local.iterdir() if not p.name.startswith(".")] == [copy.name]


def _die_in_mid_copy(model: str, target: str, begun: object) -> None:
    def half(source: Path, target: Path, start: int, end: int) -> None:
        begun.set()  # type: ignore[attr-defined]
        threading.Event().wait()

    staging._copy_piece = half
    stage(Path(model), target)


def test_a_rank_killed_in_mid_copy_leaves_its_turn_and_nothing_else(model: Path, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    rank = context.Process(target=_die_in_mid_copy, args=(str(model), str(local), begun), daemon=True)
    rank.start()
    assert begun.wait(PATIENCE_S)
    assert list(local.glob(".*.partial"))
    rank.kill()
    rank.join(PATIENCE_S)
    copy = stage(model, str(local))
    assert (copy / "model.safetensors").stat().st_size == 100_000
    assert [p.name for p in local.iterdir() if not p.name.endswith(".lock")] == [copy.name]


def test_a_copy_that_lost_a_file_is_made_again(model: Path, tmp_path: Path) -> None:
    copy = stage(model, str(tmp_path))
    (copy / "model.safetensors").unlink()
    assert stage(model, str(tmp_path)) == copy
    assert is_whole(copy, model_parts(model))


def test_a_place_that_is_none_or_too_small_is_refused_and_nothing_is_left_there(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    with pytest.raises(EngineConfigError, match="no folder on this node"):
        stage(model, "$NO_SUCH_VARIABLE")
    local = tmp_path / "local"
    local.mkdir()
    monkeypatch.setenv("LOCAL_DISK", str(local))
    monkeypatch.setattr(staging.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(EngineConfigError, match="the model takes"):
        stage(model, "$LOCAL_DISK")
    assert [p for p in local.iterdir() if not p.name.endswith(".lock")] == []


def test_a_copy_made_in_pieces_is_the_model(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_PIECE", 30_001)
    monkeypatch.setattr(staging, "_BLOCK", 1_000)
    (model / "tokenizer.json").touch()
    copy = stage(model, str(tmp_path))
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (copy / name).read_bytes() == (model / name).read_bytes()


def test_a_tmpfs_that_the_jobs_memory_does_not_hold_is_refused_before_it_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging.shutil, "disk_usage", lambda path: SimpleNamespace(free=10**12))
    monkeypatch.setattr(staging, "memory_limit", lambda: 32 * 10**9)
    kind = "tmpfs"
    mounts = [("/", "ext4"), (str(tmp_path), "other")]
    monkeypatch.setattr(
        staging.psutil,
        "disk_partitions",
        lambda all: [SimpleNamespace(mountpoint=p, fstype=f if p == "/" else kind) for p, f in mounts],
    )
    require_room(tmp_path / "below", 20 * 10**9)
    with pytest.raises(EngineConfigError, match=r"in memory \(tmpfs\).* 40.0 GB of the 32.0 GB") as caught:
        require_room(tmp_path / "below", 40 * 10**9)
    assert "sbatch --mem=54G" in caught.value.cure
    kind = "xfs"
    require_room(tmp_path / "below", 40 * 10**9)


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/slurm/job_1/step_0", "slurm/job_1/memory.max"),
        ("0::/", "memory.max"),
        ("9:cpu,cpuacct:/x\n5:memory:/slurm/job_1", "memory/slurm/memory.limit_in_bytes"),
    ],
)
def test_the_memory_of_a_job_is_the_least_limit_of_its_cgroups(tmp_path: Path, line: str, file: str) -> None:
    proc, root = tmp_path / "cgroup", tmp_path / "fs"
    proc.write_text(line + "\n")
    machine = memory_limit(proc, root)
    limit = root / file
    limit.parent.mkdir(parents=True)
    limit.write_text("max\n")
    assert memory_limit(proc, root) == machine
    limit.write_text("1000000\n")
    assert memory_limit(proc, root) == 1_000_000


def test_workers_take_turns_for_the_first_reading_only(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging.tempfile, "gettempdir", lambda: str(tmp_path))
    read, inside = [], threading.Lock()

    def blocks(path: Path, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        read.append((path.name, start, end))
        yield start, b""

    def streams(parts: dict[str, int], work: object) -> None:
        assert inside.acquire(blocking=False), "two read at the same time"
        real(parts, work)  # type: ignore[arg-type]
        inside.release()

    real = staging._in_streams
    monkeypatch.setattr(staging, "_blocks", blocks)
    monkeypatch.setattr(staging, "_in_streams", streams)
    loading = threading.Barrier(4)

    def load() -> None:
        read_once(model)
        loading.wait(PATIENCE_S)  # all load at the same time: none holds a lock now

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not loading.broken
    assert sorted(read) == sorted([("config.json", 0, 2), ("model.safetensors", 0, 100_000)] * 4)
    monkeypatch.setattr(staging, "memory_limit", lambda: 100_000)
    read_once(model)
    assert len(read) == 8, "a model larger than the memory would push itself out"


def test_a_foreign_lock_folder_is_not_used(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging.tempfile, "gettempdir", lambda: str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"kgqa-{os.getuid()}").symlink_to(elsewhere)
    read_once(model)
    assert list(elsewhere.iterdir()) == []
