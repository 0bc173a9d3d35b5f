"""The pause that a server requests, from the headers of its reply."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

LONGEST_S = 3600.0
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a refusal asks to wait, at most an hour: Retry-After (seconds or a date), retry-after-ms, or
    the time until an exhausted rate limit is reset. None if the headers have neither.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return min(milliseconds / 1000, LONGEST_S)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value:
        seconds = _until(value)
    if seconds is None:
        seconds = exhausted(headers)
    return None if seconds is None else min(seconds, LONGEST_S)


def exhausted(headers: Mapping[str, str]) -> float | None:
    """Seconds until the rate limit with nothing remaining is reset; None while something remains."""
    rests = []
    for kind in ("requests", "tokens"):
        remaining = _number(headers.get(f"x-ratelimit-remaining-{kind}"))
        if remaining is not None and remaining < 1:
            rests.append(_duration(headers.get(f"x-ratelimit-reset-{kind}")))
    pauses = [pause for pause in rests if pause is not None]
    return max(pauses) if pauses else None


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else -1.0
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _until(value: str) -> float | None:
    """Seconds until an HTTP date."""
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError, OverflowError):
        return None


def _duration(value: str | None) -> float | None:
    """Seconds from "6m0s", "120ms", or a number."""
    seconds = _number(value)
    if seconds is not None or not value:
        return (
            seconds if seconds is None or seconds < 1e8 else max(seconds - time.time(), 0.0)
        )  # a time stamp
    parts = _PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value.strip():
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
