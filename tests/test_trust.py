"""A run folder makes a machine do nothing that nobody has agreed to."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from kgqa_hpc.cli import app
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import add_pass, create_run, fingerprint, kept_prompts
from kgqa_hpc.runs.trust import effects, require_agreed, shown
from kgqa_hpc.store import run_folder
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.yaml_file import load_yaml
from tests.command import kgqa
from tests.project import edit, write_project
from tests.runs import make_run

SERVER = {"kind": "openai", "model": "m", "base_url": "http://node1:8000/v1", "api_key_env": "MY_KEY"}
Make = Callable[..., RunFolder]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(engine: dict[str, Any]) -> RunFolder:
        config = parse_config({"engine": engine}, "the test")
        return create_run(tmp_path / "run", config)

    return make


def opened(run: RunFolder) -> tuple[RunFolder, dict[str, Any]]:
    return run, run.config()


def test_who_adds_a_judge_agrees_to_its_server_and_to_the_variable_that_is_its_default(make: Make) -> None:
    server = {"kind": "openai", "model": "m", "base_url": "http://node2:8000/v1"}
    step = {"use": "judge", "prompt": "filter", "as": "b"}
    run, config = add_pass(make(SERVER).path, {"name": "b", "engine": server, "steps": [step]})
    agreed = require_agreed(run, config.plain())
    assert agreed["passes.b.engine.base_url"] == "http://node2:8000/v1"
    assert agreed["passes.b.engine.api_key_env"] == "OPENAI_API_KEY"


@pytest.mark.parametrize(("old", "new"), [("node1", "evil"), ("MY_KEY", "AWS_SECRET_ACCESS_KEY")])
def test_a_changed_value_is_shown_and_refused_until_somebody_agrees(make: Make, old: str, new: str) -> None:
    run = make(SERVER)
    edit(run.config_file, old, new)
    with pytest.raises(InputError, match=new) as caught:
        require_agreed(*opened(run))
    assert "--trust-config" in caught.value.cure
    require_agreed(*opened(run), trust=True)
    assert any(new in str(value) for value in require_agreed(*opened(run)).values()), "pinned for later jobs"


def test_a_run_of_another_user_asks_even_with_the_values_it_was_made_with(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(SERVER)
    monkeypatch.setattr("kgqa_hpc.runs.trust.os.geteuid", lambda: 4711)
    monkeypatch.setattr(
        "kgqa_hpc.runs.trust.os.stat", lambda path: os.stat_result([0, 0, 0, 0, 815, 0, 0, 0, 0, 0])
    )
    with pytest.raises(InputError, match="another user made it"):
        require_agreed(*opened(run))


def test_effects_are_those_of_all_passes_engines_and_shown_without_control_characters(
    make: Make,
) -> None:
    passes = [
        {"name": "a", "engine": {"kind": "openai", "command": "rm -rf /"}},
        {"name": "b", "engine": None},
    ]
    assert effects({"engine": {"kind": "cpu"}, "passes": passes}) == {"passes.a.engine.command": "rm -rf /"}
    assert require_agreed(*opened(make({"kind": "scripted"}))) == {}, "it reaches nowhere"
    assert shown(["\x1b]0;evil\x07", "a\u202eb"]) == "?]0;evil? a?b"


def plant(run: RunFolder, mark: Path, *, agreed: bool) -> None:
    """Put a command into a run's configuration and its fingerprint; `agreed`: the manifest says that they agreed."""
    config = load_yaml(run.config_file)
    config["engine"] = {**SERVER, "command": ["touch", str(mark)]}
    parsed = parse_config(config, "the test")
    pinned = effects(parsed.plain()) if agreed else {}
    content = run_folder.replace(
        run.manifest(), sections=fingerprint(parsed, kept_prompts(run)), trusted=pinned
    )
    run_folder.write_manifest(run.manifest_file, content)
    run.config_file.write_bytes(run_folder._yaml(parsed.plain()))


def finished_run(folder: Path) -> RunFolder:
    kgqa("all", write_project(folder), folder / "run")
    return RunFolder.open(folder / "run")


OTHER = 5001  # a user id that is not ours
VERBS: dict[str, list[str]] = {
    "run": ["run", "RUN"],
    "judge": ["judge", "RUN", "--prompt", "demo_filter", "--name", "second"],
    "extend": ["extend", "RUN", "--per-shape", "9"],
    "retest": ["retest", "RUN", "OUT", "-n", "5"],
    "replay": ["replay", "RUN", "ID"],
}


@pytest.mark.plugin("evaluation")
@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN GIVE A FILE AWAY")
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_runs_a_command_of_another_users_run(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root is never asked about its own files.
    monkeypatch.setattr("kgqa_hpc.runs.trust.os.geteuid", lambda: 4711)
    mark = tmp_path / "mark"
    run = finished_run(tmp_path).path
    plant(RunFolder(run), mark, agreed=True)
    os.chown(run / "manifest.json", OTHER, -1)
    item = json.loads((run / "dataset" / "accepted.jsonl").read_text().splitlines()[0])["id"]
    words = {"RUN": str(run), "OUT": str(tmp_path / "out"), "ID": item}
    before = (run / "manifest.json").read_bytes()
    done = kgqa(*[words.get(word, word) for word in VERBS[verb]], code=2)
    assert "engine.command: touch" in done.stderr
    assert "--trust-config" in done.stderr
    assert not mark.exists()
    assert (run / "manifest.json").read_bytes() == before
    assert (run / "manifest.json").stat().st_uid == OTHER


def test_every_verb_that_can_agree_is_in_the_list_above() -> None:
    def verbs(group: Any) -> Iterator[str]:
        for name in group.list_commands(None):
            command = group.get_command(None, name)
            if any(parameter.name == "trust_config" for parameter in command.params):
                yield name

    assert set(verbs(typer.main.get_command(app))) == {*VERBS, "hydrate"}


@pytest.mark.parametrize("kind", ENGINES.names())
def test_each_dangerous_key_of_each_engine_is_an_effect(kind: str) -> None:
    for key in ENGINES.get(kind).Settings.dangerous:
        assert effects({"engine": {"kind": kind, key: "value"}}) == {f"engine.{key}": "value"}


def test_growing_pins_nothing_that_was_not_agreed_to(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    edit(run.config_file, "kind: scripted", "kind: openai\n  model: m\n  base_url: http://evil:8000/v1")
    assert kgqa("extend", run.path, "--per-shape", 9, code=None).returncode != 0
    assert run.manifest().trusted == {}


def test_a_command_that_was_put_into_a_run_is_never_started(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 4)
    plant(run, tmp_path / "mark", agreed=False)
    assert "engine.command: touch" in kgqa("run", run.path, code=2).stderr
    assert not (tmp_path / "mark").exists()
