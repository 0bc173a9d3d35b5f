"""Every verb that reads a dataset notices damage and says so in one line."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import kgqa
from tests.project import CONFIG, write_graph

DATASET = "dataset: {split: {by: group, shares: {train: 0.5, test: 0.5}}}\n"


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("merged")
    write_graph(folder)
    (folder / "run.yaml").write_text(CONFIG + DATASET)
    kgqa("all", folder / "run.yaml", folder / "run")
    return folder / "run"


def one_letter(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut at a line": lambda data: b"".join(data.splitlines(keepends=True)[:-2]),
    "torn": lambda data: data[:-40],
    "one letter": one_letter,
    "other type": lambda _: b"5\n",
}
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
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("accepted.jsonl", damage) for damage in DAMAGE),
        *((name, damage) for name in ("accounting.json", "SHA256SUMS") for damage in ("torn", "other type")),
    ],
)
def test_damage_is_told_by_each_verb(name: str, damage: str, verb: str, merged: Path, tmp_path: Path) -> None:
    if verb in ("panel", "human") and name == "accounting.json":
        pytest.skip("does not read it")
    run = Path(shutil.copytree(merged, tmp_path / "run"))
    path = run / "dataset" / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    words = {"RUN": run, "RUN2": merged, "OUT": tmp_path / "out", "OUT.csv": tmp_path / "out.csv"}
    done = kgqa(*[words.get(word, word) for word in VERBS[verb]], code=None)
    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert "merge again" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.plugin("evaluation")
@pytest.mark.parametrize("verb", VERBS)
def test_a_whole_dataset_is_read(verb: str, merged: Path, tmp_path: Path) -> None:
    if verb == "combine":
        pytest.skip("a run cannot be combined with its own copy")
    words = {"RUN": merged, "OUT": tmp_path / "out", "OUT.csv": tmp_path / "out.csv"}
    kgqa(*[words.get(word, word) for word in VERBS[verb]])
