"""A run folder makes a machine do nothing that nobody has agreed to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import fingerprint
from kgqa_hpc.store import run_folder
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.trust import effects, shown
from kgqa_hpc.store.yaml_file import load_yaml
from tests.runs import make_run
from tests.work.rig import Processes

SERVER = {"kind": "openai", "model": "m", "base_url": "http://node1:8000/v1", "api_key_env": "MY_KEY"}
Make = Callable[..., RunFolder]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(engine: dict[str, Any]) -> RunFolder:
        config = parse_config({"engine": engine}, "the test")
        return RunFolder.create(tmp_path / "run", config.model_dump(mode="json"), fingerprint(config))

    return make


def edit(run: RunFolder, old: str, new: str) -> None:
    run.config_file.write_text(run.config_file.read_text().replace(old, new))


def test_who_makes_a_run_agrees_to_its_servers_and_commands(make: Make) -> None:
    assert make(SERVER).require_trust() == {
        "engine.base_url": "http://node1:8000/v1",
        "engine.api_key_env": "MY_KEY",
    }


@pytest.mark.parametrize(("old", "new"), [("node1", "evil"), ("MY_KEY", "AWS_SECRET_ACCESS_KEY")])
def test_a_value_that_was_changed_since_is_shown_and_refused(make: Make, old: str, new: str) -> None:
    run = make(SERVER)
    edit(run, old, new)
    with pytest.raises(InputError, match=new) as caught:
        run.require_trust()
    assert "--trust-config" in caught.value.cure


def test_agreeing_pins_the_new_values_for_later_jobs(make: Make) -> None:
    run = make(SERVER)
    edit(run, "node1", "node2")
    run.trust(run.config())
    assert run.require_trust()["engine.base_url"] == "http://node2:8000/v1"


def test_a_run_of_another_user_asks_even_with_the_values_it_was_made_with(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(SERVER)
    monkeypatch.setattr("kgqa_hpc.store.trust.os.geteuid", lambda: 4711)
    monkeypatch.setattr(run_folder.os, "stat", lambda path: os.stat_result([0, 0, 0, 0, 815, 0, 0, 0, 0, 0]))
    with pytest.raises(InputError, match="another user made it"):
        run.require_trust()


def test_an_engine_that_reaches_nowhere_needs_no_trust(make: Make) -> None:
    assert make({"kind": "scripted"}).require_trust() == {}


def test_engines_of_single_passes_are_looked_at_too() -> None:
    passes = [{"name": "a", "engine": {"command": "rm -rf /"}}, {"name": "b", "engine": None}]
    assert effects({"engine": {"kind": "cpu"}, "passes": passes}) == {"passes.a.engine.command": "rm -rf /"}


def test_what_is_shown_has_no_control_characters() -> None:
    assert shown(["\x1b]0;evil\x07", "a\u202eb"]) == "?]0;evil? a?b"


def test_a_command_that_was_put_into_a_run_is_never_started(tmp_path: Path, processes: Processes) -> None:
    run = make_run(tmp_path / "run", 4)
    config = load_yaml(run.config_file)
    planted = tmp_path / "planted"
    config["engine"] = {**SERVER, "command": ["touch", str(planted)]}
    parsed = parse_config(config, "the test")
    run_folder.write_manifest(
        run.manifest_file,
        run_folder.replace(run.manifest(), sections=fingerprint(parsed)),
    )
    run.config_file.write_bytes(run_folder._yaml(parsed.model_dump(mode="json")))
    code, output = processes.finish(processes.start(run))
    assert code == 2
    assert "engine.command: touch" in output
    assert not planted.exists()
