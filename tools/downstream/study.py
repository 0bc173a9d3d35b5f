#!/usr/bin/env python3
"""What synthetic items are worth: fine-tune on growing shares of real ones, with and without them, over seeds.

    tools/downstream/study.py OUT --real train.json --test test.json --synthetic synthetic.json \\
        --shares 1000 2500 5000 --model michiyasunaga/BioLinkBERT-large

Files are in LinkBERT's form (`kgqa export --to linkbert-medqa`). OUT/results.jsonl grows by one line a model, and the
same command goes on after a kill; OUT/table.md and OUT/plot.png are made of it. docs/downstream.md describes it.
Needs torch, transformers and scipy (`pip install 'kgqa_hpc[downstream]'`). `--model tiny` runs anywhere.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from data import Example, read
from tables import plot, table

SEEDS = (42, 123, 456, 789, 1011)  # as published


def main() -> int:
    options = _options()
    if missing := [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]:
        print(
            f"error: {', '.join(missing)} is not installed: pip install 'kgqa_hpc[downstream]'",
            file=sys.stderr,
        )
        return 2
    try:
        real, test = read(options.real), read(options.test)
        synthetic = read(options.synthetic)
    except (OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
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
    parser.add_argument("--shares", type=int, nargs="+", required=True, help="real items")
    parser.add_argument("--mixtures", type=int, nargs="+", help="synthetic items; default: all of them")
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[3e-5])
    parser.add_argument(
        "--mixed", action="store_true", help="shuffle both together, instead of synthetic first"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--model", default="michiyasunaga/BioLinkBERT-large")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--epochs-synthetic", type=int, default=6)
    return parser.parse_args()


def _run(
    options: argparse.Namespace, real: list[Example], synthetic: list[Example], test: list[Example]
) -> list[dict[str, Any]]:
    """One model for each cell and seed that has no result yet."""
    from train import Recipe, accuracy

    path = options.out / "results.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a line that a kill cut is done again
    path.write_text(whole, encoding="utf-8")
    results = [json.loads(line) for line in whole.splitlines()]
    done = {_key(one) for one in results}
    mixtures = [0, *(options.mixtures or [len(synthetic)])]
    with path.open("a", encoding="utf-8") as file:
        for share, mixture, rate, seed in itertools.product(
            options.shares, mixtures, options.learning_rates, options.seeds
        ):
            cell = {
                "real": share,
                "synthetic": mixture,
                "learning_rate": rate,
                "mixed": options.mixed,
                "seed": seed,
            }
            if _key(cell) in done:
                continue
            recipe = Recipe(
                options.model, rate, options.batch, options.epochs_synthetic, options.epochs, options.mixed
            )
            # The same seed takes the same items with and without synthetic ones: the test is paired.
            draw = random.Random(seed)
            chosen = (
                draw.sample(real, min(share, len(real))),
                draw.sample(synthetic, min(mixture, len(synthetic))),
            )
            result = {
                **cell,
                "accuracy": accuracy(recipe, chosen[1], chosen[0], test, seed),
                "model": options.model,
            }
            results.append(result)
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(json.dumps(result), file=sys.stderr)
    return results


def _key(one: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(one[name] for name in ("real", "synthetic", "learning_rate", "mixed", "seed"))


if __name__ == "__main__":
    sys.exit(main())
