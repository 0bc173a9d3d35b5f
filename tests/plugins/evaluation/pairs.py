"""Pairs with nasty texts, ratings of known quality, and judges of known error rates."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kgqa_hpc.plugins.evaluation.ratings import CRITERIA, Rating, Ratings
from kgqa_hpc.plugins.evaluation.records import Verdicts

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


def rated(minimums: Sequence[float | None]) -> Ratings:
    """Ratings by one annotator, each the same on all criteria; None is an item that was not rated."""
    scores = ({} if low is None else dict.fromkeys(CRITERIA, float(low)) for low in minimums)
    rows = (Rating(f"i{i}", f"q {i}", f"a {i}", "p", row) for i, row in enumerate(scores))
    return Ratings(CRITERIA, tuple(rows))


def planted(truth: np.ndarray, right: tuple[float, ...], rng: np.random.Generator) -> Verdicts:
    """Judges that are right with the given probabilities, independently."""
    hits = rng.random((len(truth), len(right))) < np.array(right)
    votes = np.where(hits, truth[:, None], ~truth[:, None]).astype(np.int64)
    items = tuple(f"i{i}" for i in range(len(truth)))
    names = tuple(f"j{k}" for k in range(len(right)))
    return Verdicts(items, names, votes, votes.astype(float), votes[:, 0], len(truth), 0, 0)
