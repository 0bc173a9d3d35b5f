"""Money: spent by a run so far, and a forecast for its remaining items (`kgqa plan --price`).

Spent is the tokens of results and journals at the prices of the engines. A shard is the unit of the forecast: the cost
of an item is the ratio of the sums of cost and items, its 95 % interval comes from how much shards differ (ratio
estimator, Student's t).
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from math import sqrt
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kgqa_hpc.engines.engine import Price
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import open_run
from kgqa_hpc.status.pass_totals import PassTotals
from kgqa_hpc.store.queue import done_shards
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import read_summary
from kgqa_hpc.store.yaml_file import load_yaml
from kgqa_hpc.text.plain_text import about

ENOUGH = 20  # smallest number of finished items of a pilot before its rate and tokens are used


def cost_of(pilot: Path, items: int, prices: Sequence[Price]) -> dict[str, Any]:
    """Tokens and cost of `items` at the rate of a run's finished shards; the interval is None with one shard.
    `prices`: one price per pass; the last price applies to any further pass of the pilot.

    Raises InputError if fewer than ENOUGH items are finished: no published figure gives the number of prompt tokens.
    """
    run, config = open_run(pilot)
    names = [entry.name for entry in config.passes]
    last = len(prices) - 1
    sizes: list[int] = []
    costs: list[float] = []
    tokens: Counter[str] = Counter()
    for shard in sorted(set.intersection(*(done_shards(run, name) for name in names))):
        headers = [read_summary(run.result(name, shard), run.origin(name)) for name in names]
        sizes.append(int(headers[-1]["rows"]))
        costs.append(sum(prices[min(n, last)].of(header["tokens"]) for n, header in enumerate(headers)))
        for header in headers:
            tokens.update(header["tokens"])
    number = sum(sizes)
    if number < ENOUGH:
        raise InputError(
            f"{pilot}: a cost needs the tokens of {ENOUGH} items in finished shards, there are {number}",
            "name a small run on the same engine with --pilot (a smaller anchors.per_shape and runtime.shard_size)",
        )
    mean, half = sum(costs) / number, _half_width(sizes, costs)
    return {
        "price": [prices[0].input, prices[0].output],
        "prompt_tokens": round(items * tokens["prompt"] / number),
        "completion_tokens": round(items * tokens["completion"] / number),
        "total": items * mean,
        "low": None if half is None else items * max(mean - half, 0.0),
        "high": None if half is None else items * (mean + half),
        "measured_items": number,
        "measured_cost": sum(costs),
    }


def _half_width(sizes: Sequence[int], costs: Sequence[float]) -> float | None:
    """Half of the 95 % interval of the cost of an item; None with one shard."""
    from scipy.stats import t

    number, total = len(sizes), sum(sizes)
    if number < 2:
        return None
    mean = sum(costs) / total
    spread = sum((cost - mean * size) ** 2 for size, cost in zip(sizes, costs, strict=True))
    return float(t.ppf(0.975, number - 1)) * sqrt(number / (number - 1) * spread) / total


def render_cost(cost: dict[str, Any]) -> str:
    """A line with the expected cost, its interval, tokens and prices."""
    interval = f" ({about(cost['low'])} to {about(cost['high'])})" if cost["low"] is not None else ""
    read, written = (about(cost[f"{kind}_tokens"] / 1e6) for kind in ("prompt", "completion"))
    return (
        f"cost      about {about(cost['total'])}{interval} for {read} million tokens read and {written} million "
        f"written, at {cost['price'][0]:g} and {cost['price'][1]:g} a million"
    )


def money(run: RunFolder, totals: Sequence[PassTotals]) -> dict[str, Any] | None:
    """Money as {"spent", "budget", "passes": {pass: spent}}; None if no engine of the run has a price.

    Prices and budget are read from the run's config.yaml without a check of it, which would take too long for `status`.
    """
    config = load_yaml(run.config_file)
    prices = {}
    for entry in config.get("passes") or ():
        engine = entry.get("engine") or config.get("engine") or {}
        with suppress(ValidationError, KeyError):  # an edited file; `kgqa run` reports it
            if engine.get("price") is not None:
                prices[str(entry["name"])] = Price.model_validate(engine["price"])
    if not prices:
        return None
    spent = {
        entry.pass_name: round(prices[entry.pass_name].of(entry.all_tokens), 6)
        for entry in totals
        if entry.pass_name in prices
    }
    budget = ((config.get("runtime") or {}).get("budget") or {}).get("money")
    return {"spent": round(sum(spent.values()), 6), "budget": budget, "passes": spent}


def render_money(figures: dict[str, Any]) -> str:
    """A line with the money spent and the budget."""
    budget = f" of {figures['budget']:g}" if figures["budget"] is not None else ""
    return f"money     {about(figures['spent'])}{budget} spent"
