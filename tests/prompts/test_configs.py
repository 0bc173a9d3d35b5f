"""Every configuration that is shipped can be used as it stands."""

from __future__ import annotations

import pytest

from kgqa_hpc.config import load_config
from kgqa_hpc.prompts.folders import shipped_prompts
from kgqa_hpc.runs.chain import build_chain

# hydrate_*.yaml are recipes that a configuration names.
CONFIGS = sorted((shipped_prompts().parent / "configs").glob("[!h]*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shipped_configuration_is_valid_and_its_prompts_load(path):
    config = load_config(path)
    for each in config.passes:
        assert [step.name for step in build_chain(config, each.name)] == [s.use for s in each.steps]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shipped_configuration_says_in_its_head_how_it_is_run(path):
    head = path.read_text(encoding="utf-8").split("\nseed:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert "kgqa " in head


def test_the_one_minute_start_and_the_rehearsal_are_shipped():
    assert {"demo", "scripted", "local_a6000"} <= {path.stem for path in CONFIGS}
