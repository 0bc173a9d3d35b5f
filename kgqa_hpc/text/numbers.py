"""Formatter of numbers with few significant digits."""

from __future__ import annotations

from math import floor, log10


def about(value: float, digits: int = 3) -> str:
    """The value as text, rounded to `digits` significant digits: 57,600,000 and 0.403."""
    if not value:
        return "0"
    decimals = digits - 1 - floor(log10(abs(value)))
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"
