"""Every verb that reads a dataset notices damage and says so in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden.command import kgqa
from tests.project import CONFIG, write_graph

DATASET = "dataset: {split: {by: group, shares: {train: 0.5, test: 0.5}}}\n"


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("merged")
    write_graph(folder)
    (folder / "run.yaml").write_text(CONFIG + DATASET)
    assert kgqa("all", folder / "run.yaml", folder / "run").code == 0
    return folder / "run"


def cut_at_a_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def one_letter(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def other_type(path: Path) -> None:
    path.write_text("5\n")


DAMAGE: list[Callable[[Path], None]] = [cut_at_a_line, torn, one_letter, other_type]
VERBS = {
    "show": ["show", "RUN"],
    "export": ["export", "RUN", "--to", "messages", "--out", "OUT"],
    "combine": ["combine", "OUT", "RUN", "RUN2"],
    "publish": ["publish", "RUN", "OUT"],
    "report": ["report", "RUN"],
    "human": ["human", "sample", "RUN", "OUT.csv", "--number", "4"],
    "panel": ["panel", "RUN"],
}


@pytest.mark.plugin("evaluation")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", ["accepted.jsonl", "accounting.json", "SHA256SUMS"])
def test_damage_is_told_by_every_verb(
    name: str, damage: Callable[[Path], None], verb: str, merged: Path, tmp_path: Path
) -> None:
    if verb in ("panel", "human") and name == "accounting.json":
        pytest.skip("does not read it")
    run, other = tmp_path / "run", tmp_path / "other"
    for copy in (run, other):
        shutil.copytree(merged, copy)
    damage(run / "dataset" / name)
    words = {"RUN": run, "RUN2": other, "OUT": tmp_path / "out", "OUT.csv": tmp_path / "out.csv"}
    done = kgqa(*[words.get(word, word) for word in VERBS[verb]])
    if name == "SHA256SUMS" and damage in (cut_at_a_line, one_letter) and done.code == 0:
        return  # the damaged line is of a file that this verb does not read
    assert done.code == 1
    assert "damaged" in done.error
    assert "merge again" in done.error
    assert not (tmp_path / "out").exists()


@pytest.mark.plugin("evaluation")
@pytest.mark.parametrize("verb", VERBS)
def test_a_whole_dataset_is_read(verb: str, merged: Path, tmp_path: Path) -> None:
    if verb == "combine":
        pytest.skip("a run cannot be combined with its own copy")
    words = {"RUN": merged, "OUT": tmp_path / "out", "OUT.csv": tmp_path / "out.csv"}
    assert kgqa(*[words.get(word, word) for word in VERBS[verb]]).code == 0
