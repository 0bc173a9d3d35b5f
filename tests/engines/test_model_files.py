"""A model's files: found or said to be missing, and one copy per node of what loading needs, within the memory."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import threading
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from types import SimpleNamespace

import pytest

from kgqa_hpc.engines import model_files
from kgqa_hpc.engines.model_files import (
    find_model,
    folder_digest,
    is_whole,
    memory_limit,
    model_parts,
    public_name,
    read_once,
    require_room,
    stage,
)
from kgqa_hpc.errors import EngineConfigError

PATIENCE_S = 120.0
COMMIT = "a" * 40


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "shared" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(os.urandom(100_000))
    return folder


@pytest.fixture
def local(tmp_path: Path) -> Path:
    (tmp_path / "local").mkdir()
    return tmp_path / "local"


def folders(local: Path) -> list[str]:
    return [path.name for path in local.iterdir() if not path.name.endswith(".lock")]


def _stage(model: str, target: str, ready: Barrier) -> None:
    ready.wait(PATIENCE_S)
    stage(Path(model), target)


def test_several_ranks_of_a_node_stage_one_copy(model: Path, local: Path) -> None:
    context = multiprocessing.get_context("spawn")
    arguments = (str(model), str(local), context.Barrier(4))
    ranks = [context.Process(target=_stage, args=arguments, daemon=True) for _ in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(PATIENCE_S)
    assert [rank.exitcode for rank in ranks] == [0] * 4
    (copy,) = folders(local)
    assert is_whole(local / copy, model_parts(model))


def _die_in_mid_copy(model: str, target: str, begun: Event) -> None:
    def half(file: int, block: bytes, start: int) -> int:
        begun.set()
        threading.Event().wait()
        return 0

    model_files.os.pwrite = half
    stage(Path(model), target)


def test_a_rank_killed_in_mid_copy_leaves_its_turn_and_nothing_else(model: Path, local: Path) -> None:
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
    assert folders(local) == [copy.name]


def test_a_place_that_is_none_or_too_small_is_refused_and_nothing_is_left_there(
    model: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineConfigError, match="no folder on this node"):
        stage(model, "$NO_SUCH_VARIABLE")
    monkeypatch.setenv("LOCAL_DISK", str(local))
    monkeypatch.setattr(model_files.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(EngineConfigError, match="the model takes"):
        stage(model, "$LOCAL_DISK")
    assert folders(local) == []


def test_a_copy_made_in_pieces_is_the_model_and_one_that_lost_a_file_is_made_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "_PIECE", 30_001)
    monkeypatch.setattr(model_files, "_BLOCK", 1_000)
    (model / "tokenizer.json").touch()
    for _ in range(2):
        copy = stage(model, str(tmp_path))
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            assert (copy / name).read_bytes() == (model / name).read_bytes()
        (copy / "model.safetensors").unlink()


def test_a_tmpfs_that_the_jobs_memory_does_not_hold_is_refused_before_it_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files.shutil, "disk_usage", lambda path: SimpleNamespace(free=10**12))
    monkeypatch.setattr(model_files, "memory_limit", lambda: 32 * 10**9)
    root = SimpleNamespace(mountpoint="/", fstype="ext4")
    here = SimpleNamespace(mountpoint=str(tmp_path), fstype="tmpfs")
    monkeypatch.setattr(model_files.psutil, "disk_partitions", lambda all: [root, here])
    require_room(tmp_path / "below", 20 * 10**9)
    with pytest.raises(EngineConfigError, match=r"in memory \(tmpfs\).* 40.0 GB of the 32.0 GB") as caught:
        require_room(tmp_path / "below", 40 * 10**9)
    assert "sbatch --mem=54G" in caught.value.cure
    here.fstype = "xfs"
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


def test_workers_take_turns_for_the_first_reading_only_and_never_in_a_foreign_lock_folder(
    model: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files.tempfile, "gettempdir", lambda: str(local))
    read, inside, real = [], threading.Lock(), model_files._read
    loading = threading.Barrier(4)

    def read_all(folder: Path, parts: dict[str, int]) -> None:
        assert inside.acquire(blocking=False), "two read at the same time"
        real(folder, parts)
        read.append(sorted(parts))
        inside.release()

    def load() -> None:
        read_once(model)
        loading.wait(PATIENCE_S)  # all load at the same time: none holds a lock now

    monkeypatch.setattr(model_files, "_read", read_all)
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not loading.broken
    assert read == [["config.json", "model.safetensors"]] * 4
    monkeypatch.setattr(model_files, "memory_limit", lambda: 100_000)
    read_once(model)
    assert len(read) == 4, "the first files of a model larger than the memory would be evicted"
    monkeypatch.setattr(model_files, "memory_limit", lambda: 10**9)
    locks, elsewhere = local / f"kgqa-{os.getuid()}", local / "elsewhere"
    shutil.rmtree(locks)
    elsewhere.mkdir()  # a lock folder of somebody else is not used
    locks.symlink_to(elsewhere)
    read_once(model)
    assert len(read) == 4
    assert list(elsewhere.iterdir()) == []


def test_a_model_is_a_folder_or_a_hub_id_of_the_cache_and_never_downloaded_in_a_job(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    kept = tmp_path / "models--org--name"
    for path, text in ((f"snapshots/{COMMIT}/config.json", "{}"), ("refs/main", COMMIT)):
        (kept / path).parent.mkdir(parents=True)
        (kept / path).write_text(text)
    assert find_model(str(model)) == model
    assert find_model("org/name") == kept / "snapshots" / COMMIT
    for name, revision, words in (
        (str(tmp_path), None, "has no config.json"),
        ("/no/such/folder", None, "no folder here"),
        ("org/absent", None, "hf download org/absent"),
        ("org/name", "other", "at revision other is not in the model cache"),
    ):
        with pytest.raises(EngineConfigError) as caught:
            find_model(name, revision)
        assert words in str(caught.value)


def test_names_of_models_are_public() -> None:
    hub = f"/data/user/hub/models--casperhansen--llama-3-70b-awq/snapshots/{COMMIT}"
    assert public_name(hub) == "casperhansen/llama-3-70b-awq"
    assert public_name("casperhansen/llama-3-70b-awq") == "casperhansen/llama-3-70b-awq"
    assert public_name("/scratch/somebody/models/mine") == "mine"


def test_a_download_that_is_not_complete_is_said_before_anything_is_loaded(model: Path) -> None:
    index = model / "model.safetensors.index.json"
    names = {f"layer{n}": f"model-{n}.safetensors" for n in range(3)}
    index.write_text(json.dumps({"weight_map": names}))
    (model / "model-0.safetensors").touch()
    (model / "model-2.safetensors").symlink_to(model / "blob-that-is-not-there")
    with pytest.raises(EngineConfigError, match=r"lacks 2 of 3 files of weights \(model-1") as caught:
        find_model(str(model))
    assert "hf download" in caught.value.cure
    for text in ("", "[]", '{"weight_map": 1}', "[" * 10**6):
        index.write_text(text)
        with pytest.raises(EngineConfigError, match="cannot be read"):
            find_model(str(model))


def test_loading_needs_the_weights_that_the_index_names_and_all_that_is_no_weights(model: Path) -> None:
    others = ("original/consolidated.00.pth", "metal/model.bin", "pytorch_model.bin", "consolidated.safetensors",
              ".cache/huggingface/download.lock")  # fmt: skip
    small = ("tokenizer.json", "original/params.json", "chat_template.jinja")
    for name in (*others, *small):
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_bytes(bytes(3))
    assert model_parts(model) == {"config.json": 2, "model.safetensors": 100_000, **dict.fromkeys(small, 3)}
    (model / "weights-of-mine.safetensors").write_bytes(bytes(7))
    index = {"weight_map": {"layer": "weights-of-mine.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    weights = [name for name in model_parts(model) if name.endswith(".safetensors")]
    assert weights == ["weights-of-mine.safetensors"]


def test_a_local_models_digest_follows_its_content(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(10))
    first = folder_digest(tmp_path)
    assert first == folder_digest(tmp_path)
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert folder_digest(tmp_path) != first
    assert folder_digest(tmp_path / "none") == ""
    snapshot = tmp_path / "snapshots" / ("b" * 40)
    snapshot.mkdir(parents=True)
    assert folder_digest(snapshot) == "b" * 40
