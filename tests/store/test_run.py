"""run: a run folder appears whole, and work of another configuration is refused with the reason."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, InputError
from kgqa_hpc.store import atomic
from kgqa_hpc.store.canonical import write_document
from kgqa_hpc.store.cleanup import LITTER_AGE
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_result
from tests.store.conftest import age, at_once

Dict = dict[str, Any]


def test_a_new_run_holds_its_configuration_and_manifest(tmp_path: Path, config: Dict, sections: Dict) -> None:
    run = RunFolder.create(tmp_path / "deep" / "run", config, sections)
    assert sorted(os.listdir(run.path)) == ["config.yaml", "manifest.json"]
    assert run.config() == config
    assert run.manifest().sections == sections
    assert run.manifest().program.startswith("kgqa_hpc ")
    run.check(sections)
    assert os.listdir(tmp_path / "deep") == ["run"]
    assert RunFolder.open(tmp_path / "deep" / "run") == run


def test_creating_it_again_keeps_it_and_takes_over_what_may_change(run: RunFolder, config: Dict) -> None:
    before = run.manifest_file.read_bytes()
    config["runtime"]["shard_size"] = 9
    RunFolder.create(run.path, config, run.manifest().sections)
    assert run.manifest_file.read_bytes() == before
    assert run.config()["runtime"]["shard_size"] == 9
    written = run.config_file.stat().st_ino
    RunFolder.create(run.path, config, run.manifest().sections)
    assert run.config_file.stat().st_ino == written


def test_an_empty_folder_becomes_a_run_a_full_one_not(tmp_path: Path, config: Dict, sections: Dict) -> None:
    (tmp_path / "empty").mkdir()
    assert RunFolder.create(tmp_path / "empty", config, sections).manifest()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    (tmp_path / "file").touch()
    for name in ("full", "file"):
        with pytest.raises(InputError, match="is not a run folder"):
            RunFolder.create(tmp_path / name, config, sections)
    assert os.listdir(tmp_path / "full") == ["thesis.tex"]
    assert sorted(os.listdir(tmp_path)) == ["empty", "file", "full"]


def test_of_many_creators_all_get_the_same_run(tmp_path: Path, config: Dict, sections: Dict) -> None:
    made = at_once(6, lambda _: RunFolder.create(tmp_path / "run", config, sections).manifest())
    assert len(made) == 6
    assert len({manifest.created for manifest in made}) == 1
    assert os.listdir(tmp_path) == ["run"]


def test_what_killed_creators_left_is_swept(tmp_path: Path, config: Dict, sections: Dict) -> None:
    litter = tmp_path / f".run.0123{atomic.TEMP_SUFFIX}"
    other = tmp_path / f".walk.0123{atomic.TEMP_SUFFIX}"
    for folder in (litter, other):
        folder.mkdir()
        age(folder, seconds=2 * LITTER_AGE)
    RunFolder.create(tmp_path / "run", config, sections)
    assert sorted(os.listdir(tmp_path)) == [other.name, "run"]


def test_opening_another_folder_says_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        RunFolder.open(tmp_path)
    (tmp_path / "combined.json").write_text("{}")
    with pytest.raises(InputError, match="is a combined dataset, not a run"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data.replace(b"scripted", b"skripted"), r"manifest.json: the checksum"),
        (lambda data: b"", "not a JSON document"),
        (None, "a manifest without '"),
    ],
)
def test_a_damaged_manifest_is_found_and_made_again_by_init(
    run: RunFolder, config: Dict, sections: Dict, damage: Callable[[bytes], bytes] | None, message: str
) -> None:
    write_result(run.result("main", "shard-000000"), [], run.origin("main").header("shard-000000", ""))
    run.result("main", "shard-000001").write_bytes(b"damaged too")
    if damage is None:
        write_document(run.manifest_file, {"format": "kgqa-run", "version": 1})
    else:
        run.manifest_file.write_bytes(damage(run.manifest_file.read_bytes()))
    with pytest.raises(CorruptFile, match=message) as caught:
        RunFolder.open(run.path)
    assert "kgqa init" in caught.value.cure
    RunFolder.create(run.path, config, sections)
    RunFolder.open(run.path).check(sections)
    assert len(list(run.quarantine.glob("*manifest*"))) == 2


def test_a_damaged_manifest_does_not_let_another_configuration_in(
    run: RunFolder, config: Dict, sections: Dict
) -> None:
    header = {"made_by": "another", "pass": "main", "shard": "shard-000000"}
    write_result(run.result("main", "shard-000000"), [], header)
    run.manifest_file.write_bytes(b"")
    with pytest.raises(FingerprintMismatch, match=r"shard-000000\.h5: was made with another"):
        RunFolder.create(run.path, config, sections)
    assert run.manifest_file.read_bytes() == b""


@pytest.mark.parametrize("text", ["[1]", "a: [", "\x00", None])
def test_a_damaged_or_lost_config_is_an_input_error_and_init_writes_it_again(
    run: RunFolder, config: Dict, text: str | None
) -> None:
    run.config_file.unlink()
    if text is not None:
        run.config_file.write_text(text)
    with pytest.raises(InputError, match=r"config.yaml" + (": no such file" if text is None else "")):
        run.config()
    RunFolder.create(run.path, config, run.manifest().sections)
    assert run.config() == config


def test_a_pinned_fact_stays_and_another_value_is_refused(run: RunFolder) -> None:
    run.pin("engine-main", {"digest": "abc", "model": "m"})
    run.pin("engine-main", {"digest": "abc", "model": "m"})
    with pytest.raises(FingerprintMismatch, match=r"engine-main.digest: abc → xyz"):
        run.pin("engine-main", {"digest": "xyz", "model": "m"})
    (run.pins / "engine-main.json").write_bytes(b"")
    with pytest.raises(CorruptFile, match=r"engine-main.json: not a JSON document") as caught:
        run.pin("engine-main", {"digest": "abc", "model": "m"})
    assert "remove it" in caught.value.cure
