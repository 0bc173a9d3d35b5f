"""Metrics of other packages and of `--plugin` files: functions (predictions, references) -> a number for each pair."""

from collections.abc import Container, Sequence

import numpy as np

from kgqa_hpc.errors import ExtensionError
from kgqa_hpc.plugins.evaluation.agreement import Floats
from kgqa_hpc.registry import METRICS


def own_metrics(
    predictions: Sequence[str], references: Sequence[str], ids: Sequence[str], shipped: Container[str]
) -> dict[str, Floats]:
    """The numbers of each metric of the registry by pair.

    Raises ExtensionError for one with the name of a shipped metric, or without a finite number for each pair.
    """
    values: dict[str, Floats] = {}
    for name in METRICS.names():
        with METRICS.calling(name):
            numbers = np.asarray(METRICS.get(name)(predictions, references), dtype=object)
        if name in shipped or numbers.shape != (len(ids),):
            shape = f"gave values of shape {numbers.shape}"
            problem = "has the name of a shipped metric" if name in shipped else shape
            cure = "give one number for each pair, under a name of its own"
            raise ExtensionError(f"{METRICS.entry(name)} {problem}", cure)
        with METRICS.calling(name):
            for pair, number in zip(ids, numbers, strict=True):
                if number is None or isinstance(number, str | bytes) or not np.isfinite(float(number)):
                    problem = f"{METRICS.entry(name)} gave {number!r:.80} for the pair {pair!r}"
                    raise ExtensionError(problem, "give one finite number for each pair")
            values[name] = numbers.astype(np.float64)
    return values
