"""The downstream recipe: a lost label is refused, tests are paired, and it runs from files to a table."""

import importlib.util
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.by_path import load
from tests.record_runs import jsonl

FOLDER = Path(__file__).parents[2] / "tools" / "downstream"
NO_TORCH = any(importlib.util.find_spec(name) is None for name in ("torch", "transformers"))


def medqa(number: int, seed: int = 1) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    labels = [n % 5 for n in range(number)]
    draw.shuffle(labels)
    endings = {f"ending{k}": f"option {k}" for k in range(5)}
    return [
        {"id": f"x-{n}", "sent1": f"Which is {n}?", "sent2": "", **endings, "label": label}
        for n, label in enumerate(labels)
    ]


def test_items_of_both_benchmarks_are_read(tmp_path: Path) -> None:
    data = load(FOLDER / "data.py")
    examples = data.read(jsonl(tmp_path / "a.json", medqa(120)))
    assert (len(examples), len(examples[0].pairs)) == (120, 5)
    yes = {"id": "1", "sentence1": "Does it?", "sentence2": "It does.", "label": "maybe"}
    (example,) = data.read(jsonl(tmp_path / "b.json", [yes]))
    assert (example.pairs, example.label) == ((("Does it?", "It does."),), 2)


def test_a_label_that_was_set_for_one_letter_only_is_refused(tmp_path: Path) -> None:
    """The published converter kept the last value for answers a to d."""
    defect = [{**item, "label": item["label"] if item["label"] == 4 else 3} for item in medqa(200)]
    with pytest.raises(ValueError, match=r"place 0.*a label was lost"):
        load(FOLDER / "data.py").read(jsonl(tmp_path / "lost.json", defect))


@pytest.mark.parametrize("label", [5, -1, "2", None])
def test_a_label_that_is_none_is_told_with_its_line(tmp_path: Path, label: Any) -> None:
    file = jsonl(tmp_path / "a.json", [medqa(1)[0], {**medqa(1)[0], "label": label}])
    with pytest.raises(ValueError, match="line 2"):
        load(FOLDER / "data.py").read(file)


def test_differences_are_paired_by_seed() -> None:
    tables = load(FOLDER / "tables.py")
    found = tables.paired({1: 0.6, 2: 0.7, 3: 0.65, 4: 0.9}, {1: 0.5, 2: 0.58, 3: 0.56})
    assert found["seeds"] == 3
    assert found["difference"] == pytest.approx((0.1 + 0.12 + 0.09) / 3)
    assert found["p"] == pytest.approx(0.00716, abs=1e-3)
    assert tables.paired({1: 0.75, 2: 0.75}, {1: 0.5, 2: 0.5})["p"] is None
    assert tables.paired({1: 0.51, 2: 0.41}, {1: 0.5, 2: 0.4})["p"] is None  # equal but for rounding


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


def test_presets_are_the_published_values() -> None:
    recipe = load(FOLDER / "recipe.py")
    first, second = (recipe.Recipe(model="m", **recipe.PRESETS[name]) for name in ("medqa", "pubmedqa"))
    assert (first.learning_rate, first.batch * first.accumulate) == (3e-5, 64)
    assert (first.epochs, first.warmup) == (6, 500)
    assert (first.betas, first.epsilon, first.weight_decay) == ((0.9, 0.98), 1e-6, 0.01)
    assert (second.learning_rate, second.batch, second.warmup) == (2e-5, 16, 100)
    assert (second.epochs_synthetic, second.epochs) == (3, 30)


def test_the_published_recipe_fits_one_card_where_its_batch_in_one_pass_does_not() -> None:
    recipe = load(FOLDER / "recipe.py")
    large = SimpleNamespace(hidden_size=1024, num_attention_heads=16, num_hidden_layers=24)
    published = recipe.Recipe(model="m", **recipe.PRESETS["medqa"])
    needed = recipe.memory(published, 334_000_000, large, choices=5, tokens=512)
    one_pass = replace(published, batch=64, accumulate=1)
    whole = recipe.memory(one_pass, 334_000_000, large, choices=5, tokens=512)
    assert 6e9 < needed.trained < 7e9
    assert needed.total < 24e9 < 80e9 < whole.total
    assert "GB of activations" in str(needed)


def study(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command on made-up items with a tiny random model: two seeds, one epoch a stage, steps of 5 x 2 items."""
    for name, number, seed in (("real", 40, 1), ("test", 20, 2), ("synthetic", 30, 3)):
        jsonl(folder / f"{name}.json", medqa(number, seed))
    options = "--preset medqa --epochs 1 --epochs-synthetic 1 --batch 5 --accumulate 2 --warmup 1 --seeds 1 2"
    command = [
        sys.executable,
        str(FOLDER / "study.py"),
        str(folder / "out"),
        "--model",
        "tiny",
        *options.split(),
    ]
    command += ["--shares", "10", "20", "--precision", "bf16", *more]
    for name in ("real", "test", "synthetic"):
        command += [f"--{name}", str(folder / f"{name}.json")]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(("option", "size"), [("--shares", "41"), ("--mixtures", "31"), ("--shares", "-1")])
def test_more_items_than_the_file_has_are_refused(tmp_path: Path, option: str, size: str) -> None:
    refused = study(tmp_path, option, size)
    assert (refused.returncode, refused.stderr.startswith(f"error: {option} {size}: there are ")) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(NO_TORCH, reason="TORCH AND TRANSFORMERS ARE NOT INSTALLED (extra: downstream)")
def test_the_recipe_runs_from_files_to_a_table_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    first = study(tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stderr.index("memory, estimated: about") < first.stderr.index("synthetic stage")
    # 30 items in steps of 10: three steps, once for each seed, whatever the number of shares
    assert first.stderr.count("synthetic stage of seed") == first.stderr.count(": 3 steps") == 2
    results = tmp_path / "out" / "results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    assert len(lines) == 2 * 2 * 2
    results.write_text("".join(lines[:5]) + lines[5][:20])
    again = study(tmp_path)
    assert again.stdout == first.stdout
    assert results.read_text().splitlines(keepends=True) == lines
    assert not list((tmp_path / "out").glob("*.pt")), "weights of finished stages are deleted"
    other = study(tmp_path, "--weight-decay", "0.1")
    assert (other.returncode, "another recipe" in other.stderr) == (2, True)


@pytest.mark.skipif(NO_TORCH, reason="TORCH AND TRANSFORMERS ARE NOT INSTALLED (extra: downstream)")
def test_accumulated_passes_make_the_step_of_one_pass_and_the_rate_rises_and_falls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from data import read
    from recipe import Recipe
    from train import Trainee

    examples = read(jsonl(tmp_path / "a.json", medqa(40)))
    rates: list[float] = []
    weights = []
    for batch, accumulate in ((8, 1), (2, 4)):
        recipe = Recipe("tiny", 1e-3, batch, accumulate, 0, 2, warmup=4)
        trainee = Trainee(recipe, examples, seed=1)
        trainee.model.config.hidden_dropout_prob = 0.0
        for module in trainee.model.modules():
            if type(module).__name__ == "Dropout":
                module.p = 0.0
        step = trainee._step

        def noted(part: Any, optimizer: Any, scaler: Any, step: Any = step) -> Any:
            rates.append(optimizer.param_groups[0]["lr"])
            return step(part, optimizer, scaler)

        monkeypatch.setattr(trainee, "_step", noted)
        assert trainee.train(examples, 2, seed=1) == 10
        weights.append(trainee.state())
    assert rates[:5] == pytest.approx([0, 0.25e-3, 0.5e-3, 0.75e-3, 1e-3])
    assert rates[9] == pytest.approx(1e-3 / 6)
    for name, value in weights[0].items():
        assert (value - weights[1][name]).abs().max() < 2e-4, name
