"""Acceptance as one ratio everywhere: accepted of accepted and rejected, with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_Z = 1.96  # 95 %
FEW = 1000  # judged items below which the interval is shown


def acceptance(verdicts: Mapping[str, int]) -> dict[str, Any] | None:
    """{"share", "low", "high", "judged"}; low and high are Wilson's 95 % interval. None before any
    verdict.
    """
    accepted = verdicts.get("accepted", 0)
    judged = accepted + verdicts.get("rejected", 0)
    if not judged:
        return None
    share = accepted / judged
    spread = _Z * math.sqrt(share * (1 - share) / judged + _Z**2 / (4 * judged**2))
    middle, scale = share + _Z**2 / (2 * judged), 1 + _Z**2 / judged
    low, high = max((middle - spread) / scale, 0.0), min((middle + spread) / scale, 1.0)
    return {"share": share, "low": low, "high": high, "judged": judged}


def words(verdicts: Mapping[str, int]) -> str:
    """'accepted 44.7 %', with '(36 to 54 %)' behind it while few are judged; empty before any verdict."""
    found = acceptance(verdicts)
    if found is None:
        return ""
    text = f"accepted {100 * found['share']:.1f} %"
    if found["judged"] < FEW:
        text += f" ({100 * found['low']:.0f} to {100 * found['high']:.0f} %)"
    return text
