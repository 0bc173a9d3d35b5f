"""Support of a dataset's pairs by documents: relevant documents per pair, and the share of verified quotes.

As published: of the ten documents of each pair, how many are relevant, from none to all; their mean; the
share of pairs without any (BioGraphletQA, 3.4 and Figure 7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kgqa_hpc.errors import InputError


def grounding(records: Iterable[Mapping[str, Any]], where: str) -> dict[str, Any]:
    """Count the records that the step `ground` has read, as plain data.

    `relevant_documents[n]`: pairs with n of them. Quotes that stand in no document were dropped. Raises
    InputError when no record was read.
    """
    counts: Counter[int] = Counter()
    quotes = {"kept": 0, "dropped": 0}
    for record in records:
        relevant = record.get("relevant_documents")
        if relevant is None:
            continue
        counts[relevant] += 1
        for quote_kind in quotes:
            quotes[quote_kind] += record.get(f"quotes_{quote_kind}") or 0
    if not counts:
        raise InputError(f"{where}: no record has relevant_documents", "the step ground adds them")
    pairs = counts.total()
    return {
        "pairs": pairs,
        "relevant_documents": {str(n): counts[n] for n in range(max(counts) + 1)},
        "mean": sum(n * number for n, number in counts.items()) / pairs,
        "share_without": counts[0] / pairs,
        "quotes": quotes,
    }


def render(document: dict[str, Any]) -> str:
    """The result of `grounding` as text."""
    quotes = document["quotes"]
    lines = [f"{'relevant':>8}  {'pairs':>9}"]
    lines += [f"{n:>8}  {number:>9,}" for n, number in document["relevant_documents"].items()]
    lines += [
        f"{document['pairs']:,} pairs, {document['mean']:.2f} relevant documents each; "
        f"{document['share_without']:.1%} have none",
        f"quotes: {quotes['kept']:,} verified, {quotes['dropped']:,} dropped: not in their document",
    ]
    return "\n".join(lines)
