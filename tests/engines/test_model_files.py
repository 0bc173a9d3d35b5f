"""Where a model's files lie: found first, said plainly where they are not; which of them loading needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgqa_hpc.engines.model_files import find_model, model_parts, public_name
from kgqa_hpc.errors import EngineConfigError

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
    assert model_parts(model) == {
        "config.json": 2,
        "model.safetensors": 100_000,
        **dict.fromkeys(small, 3),
    }
    (model / "weights-of-mine.safetensors").write_bytes(bytes(7))
    index = {"weight_map": {"layer": "weights-of-mine.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert {name for name in model_parts(model) if name.endswith(".safetensors")} == {
        "weights-of-mine.safetensors"
    }
