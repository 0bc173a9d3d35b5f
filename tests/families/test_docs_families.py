"""docs/guide/families.md shows real items, and docs/examples/tally, its seventh family, is a package that works."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from kgqa_hpc.anchors import KINDS
from tests.by_path import install
from tests.command import program
from tests.dataset.conftest import records_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "families.md"
PACKAGE = ROOT / "docs" / "examples" / "tally"
FAMILIES = ("path", "fact", "hub", "context", "puzzle", "script")


def test_a_seventh_family_is_a_package_without_an_edit_elsewhere(tmp_path: Path) -> None:
    """Installed as pip would."""
    shutil.copytree(PACKAGE, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    install(tmp_path, (PACKAGE / "pyproject.toml").read_text())
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    program("all", "run.yaml", "runs/tally", more={"cwd": tmp_path}, PYTHONPATH=path)
    records = records_of(tmp_path / "runs" / "tally" / "dataset", "accepted", "rejected")
    assert len(records) == 4
    assert all(record["answer"] == f"{record['tally']}." for record in records)
    assert any(record["accepted"] for record in records)
    assert {record["difficulty"] for record in records} == {"easy"}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_shows_an_item_of_each_family_by_its_real_fields(family: str) -> None:
    """The path is whole; the others show their own fields, which docs/reference/record.md lists."""
    shown = re.search(rf"^## {family}: .*?^```json\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert shown
    item = set(json.loads(shown[1]))
    assert "question" in item
    fields = {"id", "question", "answer", "group"} | {column.name for column in KINDS.get(family)().columns}
    assert item == fields if family == "path" else item < fields
