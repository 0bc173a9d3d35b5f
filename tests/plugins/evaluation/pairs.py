"""Pairs with nasty texts and how they are written as JSON lines, and scores from their histogram."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NASTY = (
    "<script>document.title='broken'</script>",
    "<img src=x onerror=alert(1)> & </script><!-- ]]>",
    '=HYPERLINK("http://x";"y")',
    'β-catenin, "p53"\nsecond line; ünïcode ‮txet',
)


def record(number: int, *, accepted: bool, **more: Any) -> dict[str, Any]:
    nasty = NASTY[number % len(NASTY)]
    return {
        "id": f"g-{number:04d}",
        "question": f"{nasty} question {number}?",
        "answer": f"answer {number} {nasty}" if number % 3 else f"-{number} {nasty}",
        "graphlet_id": number % 5 + 1,
        "accepted": accepted,
        "reason": None if accepted else "judge: invalid answer",
        "verdicts": {"judge": {"valid_question": True, "original_answer_valid": accepted}},
        **more,
    }


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def expand_histogram(histogram: Mapping[float, int] | Sequence[int]) -> NDArray[np.float64]:
    """Scores from how often each occurs; a plain sequence counts the scores 0, 1, 2 …"""
    counts = histogram if isinstance(histogram, Mapping) else dict(enumerate(histogram))
    return np.repeat(np.array(list(counts), dtype=np.float64), list(counts.values()))
