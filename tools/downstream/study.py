#!/usr/bin/env python3
"""What synthetic items are worth: fine-tune on growing shares of real ones, with and without them, over seeds.

    tools/downstream/study.py OUT --preset medqa --real train.json --test test.json --synthetic synthetic.json \\
        --shares 1000 2500 5000 --model michiyasunaga/BioLinkBERT-large

Files are in LinkBERT's form (`kgqa export --to linkbert-medqa`). OUT/results.jsonl grows by one line a model, and the
same command goes on after a kill; OUT/table.md and OUT/plot.png are made of it. docs/guide/downstream.md describes it.
Needs torch, transformers and scipy (`pip install 'kgqa_hpc[downstream]'`). `--model tiny` runs anywhere.
"""

import argparse
import importlib.util
import itertools
import json
import random
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from data import Example, read
from recipe import NAMES, PRESETS, Recipe
from tables import plot, table

SEEDS = (42, 123, 456, 789, 1011)  # as published


def main() -> int:
    options = _options()
    try:
        real, test = read(options.real), read(options.test)
        synthetic = read(options.synthetic)
        for option, items in (("shares", real), ("mixtures", synthetic)):
            for size in getattr(options, option) or ():
                if not 0 <= size <= len(items):
                    raise ValueError(f"--{option} {size}: there are {len(items)} items")
        _keep_recipe(options)
    except (OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    if missing := [
        name for name in ("torch", "transformers", "scipy") if importlib.util.find_spec(name) is None
    ]:
        print(
            f"error: not installed: {', '.join(missing)}; pip install 'kgqa_hpc[downstream]'", file=sys.stderr
        )
        return 2
    results = _run(options, real, synthetic, test)
    (options.out / "table.md").write_text(table(results) + "\n", encoding="utf-8")
    if importlib.util.find_spec("matplotlib"):
        plot(results, options.out / "plot.png")
    print(table(results))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    for name in ("real", "test", "synthetic"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument(
        "--shares",
        type=int,
        nargs="+",
        required=True,
        help="number of real items, from the beginning of the file",
    )
    parser.add_argument("--mixtures", type=int, nargs="+", help="synthetic items; default: all of them")
    parser.add_argument("--learning-rates", type=float, nargs="+", help="default: that of the preset")
    parser.add_argument(
        "--mixed", action="store_true", help="shuffle both together, instead of synthetic first"
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=list(SEEDS), help="default: the published five"
    )
    parser.add_argument(
        "--model", default="michiyasunaga/BioLinkBERT-large", help="name of the hub, a folder, or tiny"
    )
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        default="medqa",
        help="preset with the published values of the options below",
    )
    numbers = {
        "batch": "items in one pass",
        "accumulate": "passes to one step of the optimizer",
        "epochs": "epochs of the stage on real items",
        "epochs-synthetic": "epochs of the stage on synthetic items",
        "warmup": "steps of a stage up to the full rate, which then falls linearly to 0",
        "length": "tokens of a text at most",
    }
    for name, text in numbers.items():
        parser.add_argument(f"--{name}", type=int, help=text)
    parser.add_argument("--betas", type=float, nargs=2, help="of AdamW")
    for name in ("epsilon", "weight-decay"):
        parser.add_argument(f"--{name}", type=float, help="of AdamW")
    parser.add_argument(
        "--precision", choices=["fp32", "fp16", "bf16"], help="of the passes; weights have 32 bits"
    )
    return parser.parse_args()


def _recipe(options: argparse.Namespace) -> Recipe:
    """The preset with what the options change; the learning rate is that of the cell."""
    given = {name: value for name, value in vars(options).items() if name in NAMES and value is not None}
    if "betas" in given:
        given["betas"] = tuple(given["betas"])
    return Recipe(**{**PRESETS[options.preset], **given})


def _keep_recipe(options: argparse.Namespace) -> None:
    """Write OUT/recipe.json. Raises ValueError where OUT holds results of another recipe."""
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "recipe.json"
    recipe = {
        name: value
        for name, value in asdict(_recipe(options)).items()
        if name not in ("learning_rate", "mixed")
    }
    text = json.dumps(recipe, indent=1) + "\n"
    begun = any(other.stat().st_size for other in options.out.iterdir() if other != file)
    if begun and file.exists() and file.read_text(encoding="utf-8") != text:
        raise ValueError(f"{file}: these results have another recipe; give another folder")
    file.write_text(text, encoding="utf-8")


def _run(
    options: argparse.Namespace, real: list[Example], synthetic: list[Example], test: list[Example]
) -> list[dict[str, Any]]:
    """One model for each cell and seed that has no result yet; those of one synthetic stage begin from its weights."""
    path = options.out / "results.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a line that a kill cut is done again
    path.write_text(whole, encoding="utf-8")
    results = [json.loads(line) for line in whole.splitlines()]
    done = {_key(one) for one in results}
    base = _recipe(options)
    rates = options.learning_rates or [base.learning_rate]
    mixtures = [0, *(options.mixtures or [len(synthetic)])]
    with path.open("a", encoding="utf-8") as file:
        for mixture, rate, seed in itertools.product(mixtures, rates, options.seeds):
            cell = {"synthetic": mixture, "learning_rate": rate, "mixed": options.mixed, "seed": seed}
            cells = [{"real": share, **cell} for share in options.shares]
            open_cells = [one for one in cells if _key(one) not in done]
            if open_cells:
                recipe = replace(base, learning_rate=rate)
                chosen = random.Random(seed).sample(synthetic, min(mixture, len(synthetic)))
                stage = Stage(recipe, stage_file(options.out, mixture, rate, seed), chosen, seed)
                stage.begin([*synthetic, *real, *test])
                for one in open_cells:
                    accuracy = stage.accuracy(real[: one["real"]], test)
                    results.append({**one, "accuracy": accuracy, "model": options.model})
                    file.write(json.dumps(results[-1]) + "\n")
                    file.flush()
                    print(json.dumps(results[-1]), file=sys.stderr)
            stage_file(options.out, mixture, rate, seed).unlink(missing_ok=True)
    return sorted(results, key=_key)


def stage_file(out: Path, synthetic: int, rate: float, seed: int) -> Path:
    """Where the weights of a synthetic stage are kept until all shares have begun from them."""
    return out / f"synthetic-{synthetic}-{rate:g}-{seed}.pt"


class Stage:
    """What the models of one seed share: the weights that synthetic training ended with, made once, kept in `file`."""

    def __init__(self, recipe: Recipe, file: Path, synthetic: list[Example], seed: int) -> None:
        self.recipe, self.file, self.synthetic, self.seed = recipe, file, synthetic, seed

    def begin(self, every: list[Example]) -> None:
        """Load the model, print the memory that `every` item needs, and train on synthetic items or take the file."""
        import torch
        from train import Trainee

        try:
            self.trainee = Trainee(self.recipe, every, self.seed)
        except (OSError, ValueError) as problem:
            reason = str(problem).strip().splitlines()[0]
            print(f"error: --model {self.recipe.model}: {reason}", file=sys.stderr)
            raise SystemExit(2) from None
        print(f"memory, estimated: {self.trainee.memory(every)}; {self.trainee.card()}", file=sys.stderr)
        if self.file.exists():
            self.trainee.restore(torch.load(self.file, map_location="cpu", weights_only=True))
        elif self.synthetic and not self.recipe.mixed:
            steps = self.trainee.train(self.synthetic, self.recipe.epochs_synthetic, self.seed)
            print(f"synthetic stage of seed {self.seed}: {steps} steps", file=sys.stderr)
            part = self.file.with_suffix(".part")
            torch.save(self.trainee.state(), part)
            part.replace(self.file)
        self.weights = self.trainee.state()

    def accuracy(self, real: list[Example], test: list[Example]) -> float:
        """Train on real items from the shared weights, then test."""
        self.trainee.restore(self.weights)
        mixed = self.synthetic if self.recipe.mixed else []
        self.trainee.train([*mixed, *real], self.recipe.epochs, self.seed)
        return self.trainee.accuracy(test)


def _key(one: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(one[name] for name in ("real", "synthetic", "learning_rate", "mixed", "seed"))


if __name__ == "__main__":
    sys.exit(main())
