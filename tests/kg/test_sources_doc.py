"""docs/guide/sources.md is true: every source has a configuration that is accepted, every key is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kgqa_hpc.kg.load import load_graph
from kgqa_hpc.kg.settings import GraphConfig, graph_config
from kgqa_hpc.kg.sources import SOURCES

pytestmark = pytest.mark.plugin("biokg")  # the page shows its sources, too
TEXT = (Path(__file__).parents[2] / "docs" / "guide" / "sources.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", TEXT, re.M | re.S)]
GRAPHS = [block["graph"] for block in BLOCKS if "graph" in block]


@pytest.mark.parametrize("section", GRAPHS, ids=lambda section: section["source"])
def test_each_configuration_of_the_page_is_accepted(section):
    assert graph_config(section).source == section["source"]


@pytest.mark.parametrize("name", SOURCES.names())
def test_each_source_has_its_section_with_all_its_keys(name):
    assert name in [section["source"] for section in GRAPHS]
    section = re.search(rf"^## {name}: (.*?)(?=^## )", TEXT, re.M | re.S)
    assert section
    for key in SOURCES.get(name).Settings.model_fields.keys() - GraphConfig.model_fields.keys():
        assert re.search(rf"`{key}[`:]|\b{key}: ", section[1]), key


def test_each_common_key_is_documented():
    for key in GraphConfig.model_fields:
        assert f"`{key}`" in TEXT, key


def test_the_recipe_of_the_page_is_accepted():
    from kgqa_hpc.plugins.biokg.hydrate.recipe import Recipe

    (recipe,) = [block for block in BLOCKS if "classes" in block]
    recipe["spaces"]["pubchem"]["date"] = str(recipe["spaces"]["pubchem"]["date"])
    assert Recipe.model_validate(recipe).rules.longest == 150


def test_the_source_of_ones_own_on_the_page_works(monkeypatch):
    code = re.search(r"^```python\n(.*?)^```", TEXT, re.M | re.S)[1]
    scope: dict = {}
    exec(compile(code, "sources.md", "exec"), scope)
    monkeypatch.setattr(SOURCES, "_foreign", {"planets": None}, raising=False)
    monkeypatch.setitem(SOURCES._loaded, "planets", scope["Planets"])
    assert load_graph(graph_config({"source": "planets", "moons": 3})).num_nodes == 4
