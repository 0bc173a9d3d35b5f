"""The downstream recipe: a lost label is refused, tests are paired, and it runs from files to a table."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.by_path import load

FOLDER = Path(__file__).parents[2] / "tools" / "downstream"
NO_TORCH = any(importlib.util.find_spec(name) is None for name in ("torch", "transformers"))


def medqa(number: int, seed: int = 1) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    labels = [n % 5 for n in range(number)]
    draw.shuffle(labels)
    return [
        {
            "id": f"x-{n}",
            "sent1": f"Which is {n}?",
            "sent2": "",
            **{f"ending{k}": f"option {k}" for k in range(5)},
            "label": label,
        }
        for n, label in enumerate(labels)
    ]


def write(path: Path, items: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def test_items_of_both_benchmarks_are_read(tmp_path: Path) -> None:
    data = load(FOLDER / "data.py")
    examples = data.read(write(tmp_path / "a.json", medqa(120)))
    assert (len(examples), len(examples[0].pairs)) == (120, 5)
    yes = {"id": "1", "sentence1": "Does it?", "sentence2": "It does.", "label": "maybe"}
    (example,) = data.read(write(tmp_path / "b.json", [yes]))
    assert (example.pairs, example.label) == ((("Does it?", "It does."),), 2)


def test_a_label_that_was_set_for_one_letter_only_is_refused(tmp_path: Path) -> None:
    """The published converter kept the last value for answers a to d."""
    defect = [{**item, "label": item["label"] if item["label"] == 4 else 3} for item in medqa(200)]
    with pytest.raises(ValueError, match=r"place 0.*a label was lost"):
        load(FOLDER / "data.py").read(write(tmp_path / "lost.json", defect))


@pytest.mark.parametrize("label", [5, -1, "2", None])
def test_a_label_that_is_none_is_told_with_its_line(tmp_path: Path, label: Any) -> None:
    with pytest.raises(ValueError, match="line 2"):
        load(FOLDER / "data.py").read(
            write(tmp_path / "a.json", [medqa(1)[0], {**medqa(1)[0], "label": label}])
        )


def test_differences_are_paired_by_seed() -> None:
    tables = load(FOLDER / "tables.py")
    found = tables.paired({1: 0.6, 2: 0.7, 3: 0.65, 4: 0.9}, {1: 0.5, 2: 0.58, 3: 0.56})
    assert found["seeds"] == 3
    assert found["difference"] == pytest.approx((0.1 + 0.12 + 0.09) / 3)
    assert found["p"] == pytest.approx(0.00716, abs=1e-3)
    assert tables.paired({1: 0.75, 2: 0.75}, {1: 0.5, 2: 0.5})["p"] is None


def test_the_table_holds_synthetic_cells_against_those_without() -> None:
    common = {"learning_rate": 3e-5, "mixed": False}
    results = [
        {"real": 100, "synthetic": synthetic, "seed": seed, "accuracy": value + seed / 1000, **common}
        for synthetic, value in ((0, 0.5), (10, 0.6))
        for seed in (1, 2, 4)
    ]
    results[-1]["accuracy"] += 0.01
    text = load(FOLDER / "tables.py").table(results)
    assert len(text.splitlines()) == 4
    assert "| 100 | 10 | 3e-05 | synthetic first | 0.6057 |" in text
    assert "+0.1033" in text


@pytest.mark.skipif(NO_TORCH, reason="TORCH AND TRANSFORMERS ARE NOT INSTALLED (extra: downstream)")
def test_the_recipe_runs_from_files_to_a_table_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    for name, number, seed in (("real", 40, 1), ("test", 20, 2), ("synthetic", 30, 3)):
        write(tmp_path / f"{name}.json", medqa(number, seed))
    command = [
        sys.executable,
        str(FOLDER / "study.py"),
        str(tmp_path / "out"),
        "--model",
        "tiny",
        "--epochs",
        "1",
    ]
    command += ["--epochs-synthetic", "1", "--seeds", "1", "2", "--shares", "10", "20", "--batch", "10"]
    for name in ("real", "test", "synthetic"):
        command += [f"--{name}", str(tmp_path / f"{name}.json")]
    first = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    results = tmp_path / "out" / "results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    assert len(lines) == 2 * 2 * 2
    results.write_text("".join(lines[:5]) + lines[5][:20])
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == first
    assert results.read_text().splitlines(keepends=True) == lines
