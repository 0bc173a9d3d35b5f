"""Starting configurations: complete, shipped, written nowhere over something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kgqa_hpc.anchors.graphlet import GraphletAnchors
from kgqa_hpc.cli import app
from kgqa_hpc.config import load_config, parse_config
from kgqa_hpc.config.files import examples, write_example
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs.chain import build_chain

RECIPES = [name for name in examples() if name.startswith("hydrate_")]
NAMES = [name for name, file in examples().items() if file.suffix == ".yaml" and name not in RECIPES]


def test_there_is_one_for_each_way_to_begin() -> None:
    assert {"csv", "graphml", "triples", "records", "slurm", "study", "demo", "openai_server"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_a_valid_configuration_that_says_how_it_is_run(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    write_example(name, file)
    config = load_config(file)
    for each in config.passes:
        assert build_chain(config, each.name)
    assert "kgqa " in file.read_text().split("\nseed:")[0]


def test_the_example_prompt_works_as_a_prompt_of_a_users_folder(tmp_path: Path) -> None:
    (tmp_path / "my_prompts").mkdir()
    write_example("prompt", tmp_path / "my_prompts" / "mine.md")
    data = {"prompts": {"folder": "my_prompts", "generate": "mine"}, "engine": {"kind": "scripted"}}
    config = parse_config(data, "test", tmp_path)
    (step,) = [step for step in build_chain(config, "main") if step.name == "generate"]
    kind = GraphletAnchors()
    shown = step.prompt.render(kind.variables(kind.sample))[-1]["content"]
    assert kind.sample.nodes[0].name in shown
    assert list(tmp_path.iterdir()) == [tmp_path / "my_prompts"], "no schema beside a prompt"


def test_an_example_never_replaces_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 1")
    with pytest.raises(InputError, match="already"):
        write_example("csv", file)
    assert file.read_text() == "seed: 1"


def test_an_unknown_example_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean graphml"):
        write_example("graphmll", tmp_path / "mine.yaml")


def test_init_writes_it_and_asks_for_a_folder_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    done = CliRunner().invoke(app, ["init", "--example", "csv", str(file)])
    assert (done.exit_code, done.stdout.strip()) == (0, str(file))
    assert isinstance(CliRunner().invoke(app, ["init", str(file)]).exception, InputError)


def test_the_commands_of_an_example_name_the_file_that_was_written(tmp_path: Path) -> None:
    write_example("csv", tmp_path / "mine.yaml")
    assert "kgqa preview mine.yaml && kgqa all mine.yaml runs/mine" in (tmp_path / "mine.yaml").read_text(
        "utf-8"
    )
