"""Parser of durations in configurations and Slurm's output, and formatters of durations and numbers in messages."""

import re
from math import floor, log10

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_YEAR = 365.25  # days


def parse_duration(value: object) -> object:
    """Seconds from 90, '90s', '15m', '2h', '2d', 'HH:MM:SS', or Slurm's 'D-HH:MM:SS'.

    Values of other types are returned unchanged, for pydantic to check. Raises ValueError.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text):
        return float(match[1]) * _UNITS[match[2]]
    # MM:SS is refused as ambiguous: many users mean hours and minutes.
    if text.count(":") == 2 and (seconds := clock_seconds(text)) is not None:
        return seconds
    try:
        return float(text)
    except ValueError:
        raise ValueError("is not a duration such as 30s, 15m, 2h or 2-00:00:00") from None


def clock_seconds(text: str) -> float | None:
    """Seconds from Slurm's [D-]HH:MM:SS or MM:SS; None for UNLIMITED and the like."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d{1,2}):(\d{2})", text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def duration(seconds: float) -> str:
    """'2.5 s', '40 s', '3 h 5 min', '1 day 19 h', '12 years': two units at most."""
    if seconds < 90:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    days, remainder = divmod(minutes, 1440)
    hours, minutes = divmod(remainder, 60)
    if days >= 2 * _YEAR:
        return f"{days / _YEAR:,.0f} years"
    if days:
        return f"{days:,} day{'s' if days > 1 else ''} {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def about(value: float, digits: int = 3) -> str:
    """The value as text, rounded to `digits` significant digits: 57,600,000 and 0.403."""
    if not value:
        return "0"
    decimals = digits - 1 - floor(log10(abs(value)))
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"
