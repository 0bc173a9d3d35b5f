"""From results of a study to its tables: means over seeds, paired tests, and the published sort of plot."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

Cell = tuple[int, int, float, bool]  # real items, synthetic items, learning rate, mixed


def cells(results: Iterable[Mapping[str, Any]]) -> dict[Cell, dict[int, float]]:
    """Accuracy by seed of each cell of the study."""
    found: defaultdict[Cell, dict[int, float]] = defaultdict(dict)
    for one in results:
        found[one["real"], one["synthetic"], one["learning_rate"], one["mixed"]][one["seed"]] = one[
            "accuracy"
        ]
    return dict(sorted(found.items()))


def paired(with_: Mapping[int, float], without: Mapping[int, float]) -> dict[str, float | int | None]:
    """Difference of means over the seeds that both have, and the p of the paired t test (None: cannot be told)."""
    from scipy.stats import ttest_rel

    seeds = sorted(with_.keys() & without.keys())
    differences = [with_[seed] - without[seed] for seed in seeds]
    varies = max(differences) - min(differences) > 1e-12  # equal differences differ by rounding
    p = float(ttest_rel([with_[s] for s in seeds], [without[s] for s in seeds]).pvalue) if varies else None
    return {"seeds": len(seeds), "difference": mean(differences), "p": p}


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """A row for each cell; synthetic ones against the cell without synthetic items of the same recipe."""
    found = cells(results)
    lines = [
        "| real | synthetic | learning rate | order | accuracy | sd | seeds | difference | p |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (real, synthetic, rate, mixed), by_seed in found.items():
        values = list(by_seed.values())
        spread = f"{stdev(values):.4f}" if len(values) > 1 else ""
        base = found.get((real, 0, rate, mixed)) or found.get((real, 0, rate, False))
        against = paired(by_seed, base) if synthetic and base else None
        difference = f"{against['difference']:+.4f}" if against else ""
        p = "" if not against else "undefined" if against["p"] is None else f"{against['p']:.3g}"
        order = "mixed" if mixed else "synthetic first"
        cell = f"| {real} | {synthetic} | {rate:g} | {order if synthetic else ''} | {mean(values):.4f} | {spread} "
        lines.append(f"{cell}| {len(values)} | {difference} | {p} |")
    return "\n".join(lines)


def plot(results: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Accuracy over real items, a line for each number of synthetic ones with its spread (needs matplotlib)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines: defaultdict[tuple[int, float, bool], list[tuple[int, list[float]]]] = defaultdict(list)
    for (real, synthetic, rate, mixed), by_seed in cells(results).items():
        lines[synthetic, rate, mixed].append((real, list(by_seed.values())))
    figure, axes = pyplot.subplots(figsize=(6, 4))
    for (synthetic, rate, mixed), points in lines.items():
        label = f"{synthetic} synthetic, {rate:g}{', mixed' if mixed else ''}"
        spread = [stdev(values) if len(values) > 1 else 0.0 for _, values in points]
        axes.errorbar(
            [n for n, _ in points], [mean(v) for _, v in points], spread, label=label, marker="o", capsize=3
        )
    axes.set_xlabel("real training items")
    axes.set_ylabel("accuracy")
    axes.legend()
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)
