"""Where a model's files lie: found first, said plainly where they are not, staged once per node."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from kgqa_hpc.engines import model_files
from kgqa_hpc.engines.model_files import find_model, folder_digest, public_name, stage, turn_to_load
from kgqa_hpc.errors import EngineConfigError

PATIENCE_S = 120.0
COMMIT = "a" * 40


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "shared" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(100_000))
    return folder


def test_a_folder_is_taken_as_it_is_and_must_be_a_model(model: Path, tmp_path: Path) -> None:
    assert find_model(str(model)) == model
    with pytest.raises(EngineConfigError, match=r"no config\.json"):
        find_model(str(tmp_path))
    with pytest.raises(EngineConfigError, match="no folder here"):
        find_model("/no/such/folder")


def test_a_hub_id_is_looked_up_in_the_cache_and_never_downloaded_in_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--org--name" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    refs = tmp_path / "models--org--name" / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT)
    with pytest.raises(EngineConfigError, match="not in the model cache") as caught:
        find_model("org/absent")
    assert "hf download org/absent" in caught.value.cure
    with pytest.raises(EngineConfigError, match="at revision other"):
        find_model("org/name", "other")


def test_names_of_models_are_public() -> None:
    hub = f"/data/user/hub/models--casperhansen--llama-3-70b-awq/snapshots/{COMMIT}"
    assert public_name(hub) == "casperhansen/llama-3-70b-awq"
    assert public_name("casperhansen/llama-3-70b-awq") == "casperhansen/llama-3-70b-awq"
    assert public_name("/scratch/somebody/models/mine") == "mine"


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
    assert folder_digest(copy) == folder_digest(model)
    assert [p.name for p in local.iterdir() if not p.name.startswith(".")] == [copy.name]


def _die_in_mid_copy(model: str, target: str, begun: object) -> None:
    def half(source: Path, partial: Path) -> None:
        partial.mkdir()
        (partial / "model.safetensors").write_bytes(bytes(10))
        begun.set()  # type: ignore[attr-defined]
        threading.Event().wait()

    model_files.shutil.copytree = half  # type: ignore[assignment]
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
    assert folder_digest(copy) == folder_digest(model)


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


def test_a_place_that_is_none_or_too_small_is_refused_and_nothing_is_left_there(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    with pytest.raises(EngineConfigError, match="no folder on this node"):
        stage(model, "$NO_SUCH_VARIABLE")
    local = tmp_path / "local"
    local.mkdir()
    monkeypatch.setenv("LOCAL_DISK", str(local))
    monkeypatch.setattr(model_files.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(EngineConfigError, match="the model takes"):
        stage(model, "$LOCAL_DISK")
    assert [p for p in local.iterdir() if not p.name.endswith(".lock")] == []


def test_loads_of_a_node_are_staggered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(model_files, "LOOK_EVERY_S", 0.005)
    running = most = 0
    lock, first_two = threading.Lock(), threading.Barrier(2)

    def load() -> None:
        nonlocal running, most
        with turn_to_load():
            with lock:
                running += 1
                most = max(most, running)
            first_two.wait(PATIENCE_S)  # two are let in together, so the others wait
            with lock:
                running -= 1

    threads = [threading.Thread(target=load) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert most == model_files.LOADS_AT_ONCE


def test_a_foreign_lock_folder_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files.tempfile, "gettempdir", lambda: str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"kgqa-{os.getuid()}").symlink_to(elsewhere)
    with turn_to_load():
        assert list(elsewhere.iterdir()) == []
