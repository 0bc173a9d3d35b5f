"""docs/guide/families.md: the seventh family is built from the page alone and runs; items and keys are real."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kgqa_hpc.anchors import KINDS
from tests.by_path import install
from tests.dataset.conftest import records_of

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "families.md"
FAMILIES = ("path", "fact", "hub", "context", "puzzle", "script")


def section(family: str) -> str:
    found = re.search(rf"^## {family}: .*?(?=^## )", PAGE.read_text(), re.M | re.S)
    assert found
    return found[0]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The page's files, the package installed as pip would."""
    blocks = re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    files = dict(blocks)
    assert len(files) == len(blocks) == 6
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tally_kgqa" / "__init__.py").touch()
    install(tmp_path, files["pyproject.toml"])
    return tmp_path


def test_a_seventh_family_is_made_from_the_page_alone(site: Path) -> None:
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "kgqa_hpc", "all", "run.yaml", "runs/tally"],
        cwd=site,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    records = records_of(site / "runs" / "tally" / "dataset", "accepted", "rejected")
    assert len(records) == 4
    assert all(record["answer"] == f"{record['tally']}." for record in records)
    assert any(record["accepted"] for record in records)
    assert {record["difficulty"] for record in records} == {"easy"}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_key_of_a_family_is_on_the_page(family: str) -> None:
    keys = set(KINDS.get(family).Settings.model_fields) - {"kind", "number"}
    assert {key for key in keys if f"`{key}`" not in section(family)} == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_shows_a_whole_item_of_each_family(family: str) -> None:
    shown = re.search(r"^```json\n(.*?)^```$", section(family), re.M | re.S)
    assert shown
    item = json.loads(shown[1])
    made = KINDS.get(family)()
    assert {"question", "answer", "group"} <= set(item)
    assert set(item) - {"id", "question", "answer", "group", "features"} == {
        column.name for column in made.columns
    }
