"""Metric of `kgqa score`: the same years in prediction and reference."""

import re

import kgqa_hpc


@kgqa_hpc.metric
def same_years(predictions, references):
    """Whether prediction and reference name the same years."""
    pairs = zip(predictions, references, strict=True)
    return [float(re.findall(r"\b\d{4}\b", one) == re.findall(r"\b\d{4}\b", other)) for one, other in pairs]
