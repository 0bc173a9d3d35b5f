"""How well a dataset's pairs are supported: relevant documents per pair, and quotes that were real.

As published: of the ten documents of each pair, how many are relevant, from none to all; their mean; the
share of pairs without any (BioGraphletQA, 3.4 and Figure 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgqa_hpc.errors import InputError


@dataclass
class Grounding:
    """`counts[n]`: pairs with n relevant documents. `quotes_*`: kept, and dropped because they stand nowhere."""

    counts: dict[int, int] = field(default_factory=dict)
    quotes_kept: int = 0
    quotes_dropped: int = 0

    @property
    def pairs(self) -> int:
        return sum(self.counts.values())

    @property
    def mean(self) -> float:
        """Relevant documents of a pair."""
        return sum(n * pairs for n, pairs in self.counts.items()) / self.pairs

    @property
    def share_without(self) -> float:
        """Of pairs without a relevant document."""
        return self.counts.get(0, 0) / self.pairs

    def to_dict(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "relevant_documents": {str(n): self.counts.get(n, 0) for n in range(max(self.counts) + 1)},
            "mean": self.mean,
            "share_without": self.share_without,
            "quotes": {"kept": self.quotes_kept, "dropped": self.quotes_dropped},
        }

    def __str__(self) -> str:
        lines = [f"{'relevant':>8}  {'pairs':>9}"]
        lines += [f"{n:>8}  {self.counts.get(n, 0):>9,}" for n in range(max(self.counts) + 1)]
        lines += [
            f"{self.pairs:,} pairs, {self.mean:.2f} relevant documents each; {self.share_without:.1%} have none",
            f"quotes: {self.quotes_kept:,} verified, {self.quotes_dropped:,} dropped: not in their document",
        ]
        return "\n".join(lines)


def grounding(records: Iterable[Mapping[str, Any]], where: str) -> Grounding:
    """Count the records that the step `ground` has read. Raises InputError when there is none."""
    found = Grounding()
    for record in records:
        relevant = record.get("relevant_documents")
        if relevant is None:
            continue
        found.counts[relevant] = found.counts.get(relevant, 0) + 1
        found.quotes_kept += record.get("quotes_kept") or 0
        found.quotes_dropped += record.get("quotes_dropped") or 0
    if not found.counts:
        raise InputError(f"{where}: no record has relevant_documents", "the step ground adds them")
    return found
