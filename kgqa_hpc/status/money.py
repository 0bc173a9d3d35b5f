"""Money spent by a run: the tokens of its results and journals, at the prices of its engines.

An answer counts once it is in a journal; requests in flight do not count yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from kgqa_hpc.engines.engine import Price
from kgqa_hpc.status.pass_totals import PassTotals
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.yaml_file import load_yaml
from kgqa_hpc.text.durations import about


def money(run: RunFolder, totals: Sequence[PassTotals]) -> dict[str, Any] | None:
    """Money as {"spent", "budget", "passes": {pass: spent}}; None if no engine of the run has a price."""
    config = load_yaml(run.config_file)
    prices = _prices(config)
    if not prices:
        return None
    spent = {
        pass_totals.pass_name: round(prices[pass_totals.pass_name].of(pass_totals.all_tokens), 6)
        for pass_totals in totals
        if pass_totals.pass_name in prices
    }
    budget = ((config.get("runtime") or {}).get("budget") or {}).get("money")
    return {"spent": round(sum(spent.values()), 6), "budget": budget, "passes": spent}


def render_money(figures: dict[str, Any]) -> str:
    """One line of text: the sum, and the budget."""
    budget = f" of {figures['budget']:g}" if figures["budget"] is not None else ""
    return f"money     {about(figures['spent'])}{budget} spent"


def _prices(config: dict[str, Any]) -> dict[str, Price]:
    """The price of each pass, from the run's config.yaml without a check of it, which would take too long for
    `status`.
    """
    prices = {}
    for entry in config.get("passes") or ():
        engine = entry.get("engine") or config.get("engine") or {}
        if (price := engine.get("price")) is not None:
            try:
                prices[str(entry["name"])] = Price.model_validate(price)
            except (ValidationError, KeyError):
                continue  # an edited file; `kgqa run` reports it
    return prices
